#include "weft/sim/config.h"

#include <algorithm>
#include <sstream>

#include "weft/base/random.h"
#include "weft/txn/row_set.h"

namespace weft {

namespace {

constexpr std::string_view kWorkloadNames[] = {"append", "token", "smallbank", "tatp", "tpcc"};

uint32_t percent(Random& random, uint32_t on_percent, uint32_t most) {
  const bool on = random.chance(on_percent);
  const auto value = static_cast<uint32_t>(random.between(1, most));
  return on ? value : 0;
}

template <class T>
T pick(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(values.size())];
}

Options draw_cluster(Random& random) {
  Options options;
  options.nodes = static_cast<int>(random.chance(10) ? random.between(1, 2) : random.between(3, 7));
  options.replicas = static_cast<int>(random.between(1, static_cast<uint64_t>(std::min(options.nodes, 5))));
  if (random.chance(30)) options.replicas = std::min(options.nodes, 5);
  options.workers = static_cast<int>(random.between(1, 3));
  options.partitions = pick(random, {0, 1, 2, 5, 16});
  options.protocol = kProtocols[random.below(kProtocols.size())].name;
  options.hash_seed = random.next();
  options.network_batching = random.chance(80);
  options.table_batching = random.chance(80);
  options.local_reads = random.chance(65);
  options.limits.transactions_in_flight_max = pick<uint32_t>(random, {1, 2, 3, 8, 16, 64});
  return options;
}

// Small limits, but large enough for the workload's last readers.
void draw_limits(Random& random, const WorkloadConfig& workload, Limits& limits) {
  const bool little_credit = random.chance(30);
  const bool little_room = random.chance(20);
  const uint32_t times = pick<uint32_t>(random, {1, 2, 4});
  const bool tpcc = workload.kind == SimWorkload::kTpcc;
  const uint32_t value = workload.kind == SimWorkload::kAppend ? 5'000 + workload.large_bytes : tpcc ? 64'000 : 16'000;
  limits.key_bytes_max = 512;
  limits.value_bytes_max = 128 << 10;
  limits.txn_keys_max = 64;
  if (tpcc) limits.txn_keys_max = 1024;  // what a scan of orders finds counts too
  limits.txn_bytes_max = 1 << 20;
  limits.transfer_chunk_bytes = 1024;  // so that state transfer takes some time although the tables are small
  if (little_credit) limits.credit_bytes = std::max<uint32_t>(value * times, 4096);
  if (little_room) limits.txn_bytes_max = value * 2 * times;
}

// The least credit, so that gets and commits go by turns, and values are asked for twice.
void draw_turns(uint64_t seed, Limits& limits) {
  Random random(mix64(seed) ^ 0x512e);
  if (random.chance(25)) limits.credit_bytes = pick<uint32_t>(random, {4096, 6000, 10'000});
}

// Commits of a few hundred bytes are large, and travel in pieces.
void draw_pieces(const SimOptions& fixed, SimConfig& config) {
  Random random(mix64(fixed.seed) ^ 0x91ece);
  if (random.chance(40)) config.piece_bytes = pick<uint32_t>(random, {16, 64, 256, 1024});
  if (fixed.piece_bytes) config.piece_bytes = *fixed.piece_bytes;
}

// Ranges are read as well as keys. The other seeds stay as they were.
void draw_scans(const SimOptions& fixed, SimConfig& config) {
  Random random(mix64(fixed.seed) ^ 0x5ca9);
  WorkloadConfig& workload = config.workload;
  const bool scans = fixed.scans.value_or(random.chance(35));
  const uint32_t share = static_cast<uint32_t>(random.between(10, 60));
  const auto retire_after = pick<uint32_t>(random, {4, 8, 64});
  const Result<RowSet> rows = RowSet::parse(config.options.protocol, true);
  const bool can = workload.kind == SimWorkload::kAppend || workload.kind == SimWorkload::kToken;
  if (!scans || !can || !rows) return;
  workload.scan_percent = share;
  workload.scans_read_only = scans_of(rows->first()) == RowScans::kReadOnly;
  workload.retire_after = std::min(workload.retire_after, retire_after);  // keys come into being more often
}

NetworkConfig draw_network(Random& random) {
  NetworkConfig network;
  network.base_ns = pick<uint64_t>(random, {300, 1500, 10'000});
  network.jitter_ns = pick<uint64_t>(random, {0, 200, 3'000, 50'000});
  network.tail_permille = percent(random, 50, 50);
  network.tail_ns = random.between(1'000, 1'000'000);
  network.channel_packets = pick<uint32_t>(random, {1, 2, 4, 64, 64, 256});
  network.line_gap_ns = pick<uint64_t>(random, {0, 40, 1'000});
  return network;
}

WorkloadConfig draw_workload(Random& random) {
  WorkloadConfig workload;
  const uint64_t kind = random.below(100);
  workload.kind = kind < 50   ? SimWorkload::kAppend
                  : kind < 75 ? SimWorkload::kToken
                  : kind < 88 ? SimWorkload::kSmallBank
                              : SimWorkload::kTatp;
  workload.clients = static_cast<int>(random.between(1, 5));
  workload.txns = static_cast<int>(random.between(10, 40));
  workload.keys = static_cast<uint32_t>(random.chance(50) ? random.between(3, 8) : random.between(9, 40));
  workload.hot_percent = percent(random, 40, 90);
  workload.keys_per_txn = static_cast<uint32_t>(random.between(1, 6));
  workload.read_percent = static_cast<uint32_t>(random.between(10, 90));
  workload.single_key_percent = percent(random, 70, 80);
  workload.declared_percent = percent(random, 40, 40);
  workload.think_percent = percent(random, 40, 30);
  workload.think_ns = pick<uint64_t>(random, {1'000, 20'000, 300'000});
  workload.drop_percent = percent(random, 40, 15);
  workload.blind_percent = percent(random, 60, 80);
  workload.large_percent = percent(random, 25, 40);
  workload.large_bytes = pick<uint32_t>(random, {1'000, 9'000, 60'000});
  workload.capacity = random.chance(20) ? random.between(1, 30) : workload.capacity;
  workload.byte_keys = random.chance(50);
  workload.conserving = random.chance(50);
  return workload;
}

// What a run of a campaign has in addition: usually crashes.
void draw_campaign(const SimOptions& fixed, SimConfig& config) {
  Random random(mix64(fixed.seed) ^ 0xa12);
  config.transactions = fixed.transactions;
  config.leader_crashes_after_ack = fixed.leader_crashes_after_ack;
  config.leader_crashes_activating = fixed.leader_crashes_activating;
  config.workload.until_enough = true;
  if (random.chance(80)) {
    config.options.nodes = std::max(config.options.nodes, 2);
    config.options.replicas = std::max(config.options.replicas, 2);
    config.faults.add(Fault::kCrash);
  }
}

// These draws have their own random source, and so have all that follow, so that a seed still draws the same for what
// existed before them. Returns whether views change at all.
bool draw_recovery(uint64_t seed, SimConfig& config) {
  Random recovery(mix64(seed) ^ 0x4ec0);
  const bool recovers = recovery.chance(70);
  for (int i = kTimingFaults; i < kFaults - kLinkFaults; ++i) {
    const uint32_t percent_on = static_cast<Fault>(i) == Fault::kCrash ? 80 : 30;
    if (recovery.chance(percent_on) && recovers) config.faults.add(static_cast<Fault>(i));
  }
  config.lease_ns = pick<uint64_t>(recovery, {100'000, 400'000, 2'000'000});
  // If an ordinary round trip outlasted a lease, a healthy cluster would change its view for ever.
  const NetworkConfig& net = config.network;
  config.lease_ns +=
      10 * (net.base_ns + net.jitter_ns) + (net.tail_permille != 0 ? 4 * net.tail_ns : 0) + 50 * config.step_jitter_ns;
  if (net.channel_packets < 8) config.lease_ns *= 4;  // packets wait for each other
  config.supervised = recovery.chance(50);
  return recovers;
}

void draw_links(uint64_t seed, bool recovers, Random& links, SimConfig& config) {
  const bool link_faults = links.chance(40);
  for (int i = kFaults - kLinkFaults; i < static_cast<int>(Fault::kDown); ++i) {
    if (links.chance(50) && recovers && link_faults) config.faults.add(static_cast<Fault>(i));
  }
  Random downs(mix64(seed) ^ 0xd0e4);
  if (downs.chance(25) && recovers && link_faults) config.faults.add(Fault::kDown);
}

// What the caller has fixed instead of the seed, and what follows from that.
void take_fixed(const SimOptions& fixed, SimConfig& config) {
  Options& options = config.options;
  if (fixed.protocol) options.protocol = *fixed.protocol;
  if (fixed.faults) config.faults = *fixed.faults;
  if (fixed.workload) config.workload.kind = *fixed.workload;
  if (fixed.local_reads) options.local_reads = *fixed.local_reads;
  if (fixed.nodes) options.nodes = *fixed.nodes;
  if (fixed.replicas) options.replicas = *fixed.replicas;
  if (fixed.keys) config.workload.keys = *fixed.keys;
  if (fixed.single_key_percent) config.workload.single_key_percent = *fixed.single_key_percent;
  if (fixed.limit_ns) config.limit_ns = *fixed.limit_ns;
  options.replicas = std::min(options.replicas, options.nodes);
  if (options.replicas < 2) config.faults.bits &= FaultMask::timing().bits;
  if (config.faults.recovers()) config.workload.conserving = true;
  if (config.transactions != 0 && config.faults.bits == 0 && !fixed.faults) config.faults.add(Fault::kPause);
}

// Some nodes hold no data, and some run no transactions, wherever they stand; those without data come in addition. The
// other seeds stay as they were.
void draw_roles(const SimOptions& fixed, SimConfig& config) {
  Random random(mix64(fixed.seed) ^ 0x401e5);
  const bool divided = random.chance(25);
  const auto without_data = static_cast<int>(random.between(1, 3));
  const auto only_data = static_cast<uint32_t>(pick<int>(random, {40, 80, 100}));
  Options& options = config.options;
  if (!fixed.roles.empty()) {
    options.roles = fixed.roles;
    options.nodes = static_cast<int>(fixed.roles.size());
    options.replicas = std::min(options.replicas, options.data_nodes());
    return;
  }
  if (!fixed.divided.value_or(divided)) return;
  if (!fixed.nodes) options.nodes = std::min(options.nodes, 6) + without_data;
  const int data = std::max(options.replicas, options.nodes - without_data);
  if (data == options.nodes) return;  // both numbers are fixed
  for (int n = 0; n < options.nodes; ++n) {
    const NodeRoles with_data = random.chance(only_data) ? NodeRoles::kData : NodeRoles::kBoth;
    options.roles.push_back(n < data ? with_data : NodeRoles::kTransactions);
  }
  for (size_t n = options.roles.size() - 1; n > 0; --n) std::swap(options.roles[n], options.roles[random.below(n + 1)]);
}

// The first view has as many nodes with data as there are replicas, and one that runs transactions.
void fit_initial_members(SimConfig& config) {
  const Options& options = config.options;
  const auto of_first = [&](bool (*has)(NodeRoles)) {
    return std::count_if(options.roles.begin(), options.roles.begin() + config.initial_members, has);
  };
  while (!options.roles.empty() && (of_first(holds_data) < options.replicas || of_first(runs_transactions) == 0)) {
    ++config.initial_members;
  }
}

void draw_joiners_and_patience(const SimOptions& fixed, SimConfig& config) {
  const Options& options = config.options;
  // Nodes that join later.
  Random growth(mix64(fixed.seed) ^ 0x9409);
  config.initial_members = options.nodes;
  if (growth.chance(25) && config.faults.recovers()) {
    config.initial_members =
        static_cast<int>(growth.between(static_cast<uint64_t>(options.replicas), static_cast<uint64_t>(options.nodes)));
  }
  // Clients that do not wait for ever. A node accepts no less than twice the lease.
  Random patience(mix64(fixed.seed) ^ 0xa45e);
  const bool impatient = patience.chance(60) && config.faults.recovers();
  const uint64_t leases = pick<uint64_t>(patience, {2, 2, 3, 5, 10});
  if (fixed.impatient.value_or(impatient)) config.answer_ns = leases * config.lease_ns;
}

// Where reads are locked, transactions that only read commit at any replica (rule G7), so there are more of them, and
// keys come into being more often. Other rows validate what they read, and their seeds stay as they were.
void draw_snapshots(uint64_t seed, SimConfig& config) {
  Random snapshots(mix64(seed) ^ 0x5a95);
  const uint32_t share = percent(snapshots, 60, 70);
  const auto retire_after = pick<uint32_t>(snapshots, {6, 16, 64});
  const Result<RowSet> rows = RowSet::parse(config.options.protocol);
  if (config.workload.kind != SimWorkload::kAppend || !rows || !rows->first().locks_reads() || share == 0) return;
  config.workload.snapshot_percent = share;
  config.workload.retire_after = retire_after;
}

// Where procedures are shipped there are more of them, of few keys, at more nodes than replicas, and credit for some.
void draw_shipped(const SimOptions& fixed, SimConfig& config) {
  Random shipped(mix64(fixed.seed) ^ 0x5419);
  const bool more = shipped.chance(70);
  const uint32_t share = static_cast<uint32_t>(shipped.between(50, 95));
  const int nodes = static_cast<int>(shipped.between(3, 5)), replicas = static_cast<int>(shipped.between(2, 3));
  const uint32_t credit = pick<uint32_t>(shipped, {32'768, 65'536, 262'144});
  const Result<RowSet> rows = RowSet::parse(config.options.protocol);
  if (!rows || !rows->ships_procedures()) return;
  config.workload.declared_reads = true;
  if (!more) return;
  config.workload.declared_percent = share;
  config.workload.single_key_percent = std::min(config.workload.single_key_percent, 20U);
  config.workload.large_percent = 0;
  config.options.limits.credit_bytes = std::max(config.options.limits.credit_bytes, credit);
  if (!fixed.nodes) config.options.nodes = std::max(config.options.nodes, nodes);
  if (!fixed.replicas) config.options.replicas = std::min(config.options.replicas, replicas);
}

void draw_verbs(const SimOptions& fixed, SimConfig& config) {
  Options& options = config.options;
  // What only rows with verbs use.
  Random verbs(mix64(fixed.seed) ^ 0x0e51);
  options.limits.ring_bytes = pick<uint32_t>(verbs, {4096, 8192, 65536, 65536});
  options.limits.location_bytes = pick<uint32_t>(verbs, {0, 64, 1024, 65536, 65536});
  config.network.queue_verbs = pick<uint32_t>(verbs, {4, 16, 128, 128});
  options.doorbell_batching = verbs.chance(80);
  options.pipelined_verbs = verbs.chance(80);
  options.piggyback_acks = verbs.chance(70);
  config.network.late_percent = pick<uint32_t>(verbs, {0, 10, 50});
  config.network.late_ns = pick<uint64_t>(verbs, {500, 3'000, 20'000});
  config.network.hasty_percent = pick<uint32_t>(verbs, {50, 100});
  // How locks are taken where atomic verbs are not atomic with the processor's.
  Random locks(mix64(fixed.seed) ^ 0x10cb);
  config.network.atomic_with_cpu = locks.chance(70);
  config.network.atomic_gap_ns = pick<uint64_t>(locks, {0, 1'000, 10'000});
  if (!config.network.atomic_with_cpu && locks.chance(80)) options.remote_lock_mode = RemoteLockMode::kNicLoopback;
  if (fixed.loopback) {
    config.network.atomic_with_cpu = !*fixed.loopback;
    options.remote_lock_mode = *fixed.loopback ? RemoteLockMode::kNicLoopback : RemoteLockMode::kMessages;
  }
  config.network.local_atomics = options.remote_lock_mode == RemoteLockMode::kNicLoopback;
}

// How many verbs a worker may have in flight, in rows with verbs. It measures that within a run.
void draw_verb_credit(const SimOptions& fixed, SimConfig& config) {
  Random credit(mix64(fixed.seed) ^ 0xc4ed);
  const bool limited = credit.chance(40);
  const std::string limit = pick<const char*>(credit, {"auto", "auto", "1", "2", "4", "8"});
  config.verb_credit_period_ns = pick<uint64_t>(credit, {2'000, 10'000, 50'000});
  const Result<RowSet> rows = RowSet::parse(config.options.protocol, true);
  if (!rows || !rows->uses_verbs()) return;
  config.options.verb_credit = fixed.verb_credit.value_or(limited ? limit : "off");
}

}  // namespace

std::string_view workload_name(SimWorkload workload) { return kWorkloadNames[static_cast<size_t>(workload)]; }

std::optional<SimWorkload> workload_named(std::string_view name) {
  for (int w = 0; w <= static_cast<int>(SimWorkload::kTpcc); ++w) {
    if (workload_name(static_cast<SimWorkload>(w)) == name) return static_cast<SimWorkload>(w);
  }
  return std::nullopt;
}

SimConfig draw_config(const SimOptions& fixed) {
  Random random(mix64(fixed.seed) ^ 0xc0f1);
  SimConfig config;
  config.options = draw_cluster(random);
  config.network = draw_network(random);
  config.workload = draw_workload(random);
  for (int i = 0; i < kTimingFaults; ++i) {
    if (random.chance(35)) config.faults.add(static_cast<Fault>(i));
  }
  config.step_jitter_ns = pick<uint64_t>(random, {0, 100, 2'000, 20'000});
  config.fault_horizon_ns = random.between(50'000, 3'000'000);
  const bool recovers = draw_recovery(fixed.seed, config);
  Random links(mix64(fixed.seed) ^ 0x11c5);
  draw_links(fixed.seed, recovers, links, config);
  if (fixed.transactions != 0) draw_campaign(fixed, config);
  take_fixed(fixed, config);
  // Clocks drift so far apart that only the margin keeps a removed member's lease shorter than the time that the others
  // wait for it.
  if (config.faults.has(Fault::kBreak) && links.chance(30)) {
    config.drift_permille = 300;
    config.margin_permille = config.drift_permille + 1;
  }
  config.visitors = (config.faults.bits & FaultMask::links().bits) != 0;
  draw_shipped(fixed, config);
  draw_roles(fixed, config);
  draw_joiners_and_patience(fixed, config);
  fit_initial_members(config);
  draw_snapshots(fixed.seed, config);
  draw_scans(fixed, config);
  draw_verbs(fixed, config);
  config.aimed = config.transactions != 0 && config.faults.has(Fault::kCrash);
  config.aimed_links = config.transactions != 0 && config.faults.has(Fault::kBreak);

  WorkloadConfig& workload = config.workload;
  if (workload.kind != SimWorkload::kAppend) workload.large_percent = 0;
  if (workload.large_percent == 0) workload.large_bytes = 0;
  draw_limits(random, workload, config.options.limits);
  draw_turns(fixed.seed, config.options.limits);
  // In rows that lock what they read, delivery locks in two rounds; while it holds locks it does not wait for credit,
  // so the second round must fit.
  if (workload.kind == SimWorkload::kTpcc) {
    config.options.limits.credit_bytes = std::max<uint32_t>(config.options.limits.credit_bytes, 64'000);
  }
  draw_pieces(fixed, config);
  draw_verb_credit(fixed, config);
  if (fixed.change) fixed.change(config);
  return config;
}

std::string SimConfig::text() const {
  std::ostringstream out;
  const Options& o = options;
  const WorkloadConfig& w = workload;
  std::string roles;
  for (const NodeRoles r : o.roles) roles += r == NodeRoles::kBoth ? 'b' : r == NodeRoles::kData ? 'd' : 't';
  out << workload_name(w.kind) << " on " << o.protocol << ": " << o.nodes << " nodes"
      << (roles.empty() ? "" : " (" + roles + ")") << ", " << initial_members << " of them from the start, "
      << o.replicas << " replicas, " << o.workers << " workers, " << o.partitions << " partitions; inflight "
      << o.limits.transactions_in_flight_max << ", credit " << o.limits.credit_bytes << ", room "
      << o.limits.txn_bytes_max << (piece_bytes != 0 ? ", pieces of " + std::to_string(piece_bytes) : "") << "; "
      << (o.network_batching ? "" : "no ") << "nw-batch, " << (o.table_batching ? "" : "no ") << "ht-batch, "
      << (o.local_reads ? "" : "no ") << "local reads; latency " << network.base_ns << "+" << network.jitter_ns
      << " ns, tail " << network.tail_permille << " permille " << network.tail_ns << " ns, " << network.channel_packets
      << " packets a channel, step jitter " << step_jitter_ns << " ns; lease " << lease_ns << " ns"
      << (supervised ? ", supervised" : "")
      << (answer_ns != 0 ? ", answers within " + std::to_string(answer_ns) + " ns" : "") << "; faults "
      << faults_text(faults) << " within " << fault_horizon_ns << " ns; " << w.clients << " clients a worker, "
      << (transactions != 0 ? transactions : static_cast<uint64_t>(w.txns))
      << (transactions != 0 ? " txns in all, " : " txns each, ") << w.keys << " keys, hot " << w.hot_percent << " %, "
      << w.keys_per_txn << " keys a txn, reads " << w.read_percent << " %, one " << w.single_key_percent
      << " %, declared " << w.declared_percent << " %, snapshots " << w.snapshot_percent << " %, scans "
      << w.scan_percent << " %, keys live for " << w.retire_after << " appends, think " << w.think_percent << " % "
      << w.think_ns << " ns, drop " << w.drop_percent << " %, blind " << w.blind_percent << " %, large "
      << w.large_percent << " % " << w.large_bytes << " B, room for " << w.capacity
      << (w.byte_keys ? ", byte keys" : "") << (w.conserving ? ", conserving" : "");
  if (!network.atomic_with_cpu)
    out << "; locks by " << (o.remote_lock_mode == RemoteLockMode::kNicLoopback ? "loopback" : "messages");
  if (!o.verb_credit.empty()) {
    out << "; verb credit " << o.verb_credit;
    if (o.verb_credit == "auto") out << ", measured for " << verb_credit_period_ns << " ns";
  }
  return out.str();
}

}  // namespace weft
