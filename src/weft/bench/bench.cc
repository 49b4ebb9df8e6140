#include "weft/bench/bench.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>

#include "weft/base/check.h"
#include "weft/bench/machine.h"

namespace weft::bench {
namespace {

constexpr uint64_t kKeysPerNodeMax = uint64_t{1} << 32;
// What a thread cannot plausibly exceed of transactions that insert, with one replica: four times new-order's rate on
// one node. Memory is reserved for them and used by those that there are; the check touches the index, too, which has
// some 30 bytes a record.
constexpr double kInsertingPerSecond = 150'000;

// The least memory that the tables need: for each replica of a record the value, a header of 16 bytes, the key, and
// half a bin.
uint64_t memory_needed(const std::vector<TableSpec>& specs, int replicas) {
  uint64_t bytes = 0;
  for (const TableSpec& spec : specs) bytes += spec.capacity * (spec.value_bytes_max + 16 + 8 + 32);
  return bytes * static_cast<uint64_t>(replicas);
}

Error bad(std::string detail) { return {Code::kBadOption, std::move(detail)}; }

Result<void> check_request(const BenchOptions& options) {
  if (options.cluster.fabric == "sim") return bad("--fabric sim: `weft sim` runs workloads in virtual time");
  if (options.keys_per_node > kKeysPerNodeMax) {
    return bad(fmt::format("--keys {}: at most {} a node", options.keys_per_node, kKeysPerNodeMax));
  }
  return {};
}

// On a busy machine a benchmark may be slow, but must not fail.
Options patient(Options cluster) {
  cluster.limits.answer_ms = 600'000;
  return cluster;
}

double gib(uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(uint64_t{1} << 30); }

}  // namespace

int exit_status(const Error& error) { return error.code == Code::kBadOption ? kExitBadRequest : kExitFailed; }

int exit_status(const Report& report) { return report.ended.empty() ? kExitDone : kExitFailed; }

Result<std::unique_ptr<Bench>> Bench::open(const BenchOptions& options, std::ostream* out) {
  if (auto good = check_request(options); !good) return good.error();
  std::unique_ptr<Bench> bench(new Bench());
  auto cluster = Cluster::open(patient(options.cluster));
  if (!cluster) return cluster.error();
  bench->cluster_ = std::move(*cluster);
  WorkloadOptions workload_options;
  workload_options.keys = (options.keys_per_node != 0 ? options.keys_per_node : default_keys(options.workload)) *
                          static_cast<uint64_t>(options.cluster.nodes);
  workload_options.skew = options.skew;
  workload_options.value_bytes = options.value_bytes;
  workload_options.suppliers = options.suppliers;
  workload_options.zipf = options.zipf;
  auto workload = make_workload(options.workload, workload_options);
  if (!workload) return workload.error();
  bench->workload_ = std::move(*workload);
  bench->make_room(options);
  if (auto loaded = bench->load(options, out); !loaded) return loaded.error();
  return bench;
}

// At most half of the memory is for what the runs may insert.
void Bench::make_room(const BenchOptions& options) {
  const Options& cluster = options.cluster;
  const int threads = cluster.threads > 0 ? cluster.threads : cluster.transaction_nodes() * cluster.workers;
  const double plausible = options.seconds * kInsertingPerSecond * threads / cluster.replicas;
  // Each client runs the same number, and the last of each may be one too many.
  const uint64_t clients = uint64_t{cluster.limits.transactions_in_flight_max} *
                           static_cast<uint64_t>(cluster.transaction_nodes() * cluster.workers);
  uint64_t room = options.transactions != 0 ? options.transactions + clients
                                            : static_cast<uint64_t>(std::clamp(plausible, 0.0, 1e12));
  const uint64_t available = memory_available_bytes();
  while (workload_->make_room(room) && room != 0 && available != 0 &&
         memory_needed(workload_->tables(), cluster.replicas) > available / 2) {
    room /= 2;
  }
}

Result<void> Bench::load(const BenchOptions& options, std::ostream* out) {
  const std::vector<TableSpec> specs = workload_->tables();
  const uint64_t needed = memory_needed(specs, options.cluster.replicas);
  const uint64_t available = memory_available_bytes();
  if (available != 0 && needed > available) {
    return Error{Code::kNoMemory, fmt::format("the tables need {:.1f} GiB or more, {:.1f} GiB are available; use fewer "
                                              "--keys, --nodes or --replicas",
                                              gib(needed), gib(available))};
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    auto table = cluster_->create_table(specs[i]);
    if (!table) return table.error();
    WEFT_CHECK(table->value == i, "workloads know their tables by the order of declaration");
  }
  const std::vector<StoredProcedure> procedures = workload_->procedures();
  for (size_t i = 0; i < procedures.size(); ++i) {
    auto procedure = cluster_->declare(procedures[i]);
    if (!procedure) return procedure.error();
    WEFT_CHECK(procedure->value == i, "workloads know their procedures by the order of declaration");
  }
  const uint64_t begin_ns = clock_.now_ns();
  uint64_t records = 0;
  Random random(options.seed);
  auto loaded = workload_->load(
      [&](TableId table, Key key, std::string_view value) {
        ++records;
        return cluster_->load(table, key, value);
      },
      random);
  if (!loaded) return loaded;
  if (out != nullptr) {
    fmt::print(*out, "loaded {} records, {} replicas each, in {:.1f} s: {:.2f} GiB\n", with_commas(records),
               options.cluster.replicas, static_cast<double>(clock_.now_ns() - begin_ns) / 1e9, gib(table_bytes()));
  }
  return {};
}

uint64_t Bench::table_bytes() const {
  uint64_t bytes = 0;
  const size_t tables = workload_->tables().size();
  for (size_t i = 0; i < tables; ++i) bytes += cluster_->table_use(TableId(static_cast<uint16_t>(i))).memory_bytes;
  return bytes;
}

Result<void> Bench::change(const Options& cluster) { return cluster_->reconfigure(patient(cluster)); }

Result<Report> Bench::run(const DriveOptions& options) {
  if (auto started = cluster_->start(); !started) return started.error();
  DriveResult result = drive(*cluster_, *workload_, options, clock_);
  cluster_->stop();
  tally_.add(result.tally);
  if (failure_.empty()) failure_ = result.failure;
  Report report = make_report(workload_->name(), cluster_->options(), result);
  report.ended = ended(result);
  return report;
}

std::string Bench::ended(const DriveResult& result) const {
  if (!result.full) return {};
  const TableId full(*result.full);
  const TableSpec spec = workload_->tables()[full.value];
  const uint64_t records = cluster_->table_use(full).records / static_cast<uint64_t>(cluster_->options().replicas);
  const std::string when =
      result.seconds > 0
          ? fmt::format("the measurement ended after {:.2f} s, with figures that are valid until then,", result.seconds)
          : std::string("nothing was measured: the warm-up ended");
  return fmt::format(
      "{} because a table is full: {} has room for {} records and holds {}. Run fewer --seconds or --transactions, or "
      "with more --keys{}",
      when, spec.name, with_commas(spec.capacity), with_commas(records),
      workload_->name().starts_with("tpcc") ? " (warehouses a node)" : "");
}

std::string Bench::check() const {
  if (tally_.failed != 0) {
    return fmt::format("{} transactions ended without an answer, the first: {}", tally_.failed, failure_);
  }
  if (!tally_.wrong.empty()) return tally_.wrong;
  const auto visit_table = [this](TableId table, const Cluster::Visit& visit) { cluster_->visit(table, visit); };
  std::string wrong = workload_->check(visit_table, tally_);
  if (wrong.empty()) wrong = cluster_->audit();
  return wrong;
}

Result<void> switch_off(std::string_view list, Options* options) {
  struct Switch {
    std::string_view name;
    void (*off)(Options&);
    std::string_view was;
    bool of_avoidance = false;  // part of Options::conflict_avoidance
  };
  static constexpr Switch kSwitches[] = {
      {"network-batching", [](Options& o) { o.network_batching = false; }, "nw-batch"},
      {"table-batching", [](Options& o) { o.table_batching = false; }, "ht-batch"},
      {"local-reads", [](Options& o) { o.local_reads = false; }, {}},
      {"coroutines", [](Options& o) { o.limits.transactions_in_flight_max = 1; }, {}},
      {"pipelined-verbs", [](Options& o) { o.pipelined_verbs = false; }, "outstanding"},
      {"doorbell-batching", [](Options& o) { o.doorbell_batching = false; }, "doorbells"},
      {"piggyback-acks", [](Options& o) { o.piggyback_acks = false; }, "passive-acks"},
      {"worker-doorbells", [](Options& o) { o.worker_doorbells = false; }, {}},
      {"verb-credit", [](Options& o) { o.verb_credit = "off"; }, {}},
      {"backoff", [](Options& o) { o.backoff = false; }, {}, true},
      {"backoff-limit", [](Options& o) { o.backoff_limit = false; }, {}, true},
      {"coro-credit", [](Options& o) { o.coroutine_credit = false; }, {}, true}};
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const Switch* found = nullptr;
    std::string names;
    for (const Switch& each : kSwitches) {
      if (!name.empty() && name == each.was) return bad(fmt::format("--off {}: it is called {} now", name, each.name));
      if (name == each.name) found = &each;
      names.append(names.empty() ? "" : ", ").append(each.name);
    }
    if (found == nullptr) return bad(fmt::format("--off {}: there are {}", name, names));
    if (found->of_avoidance && !options->conflict_avoidance) {
      return bad(fmt::format("--off {}: it is a part of --conflict-avoidance, which is not on", name));
    }
    found->off(*options);
  }
  return {};
}

}  // namespace weft::bench
