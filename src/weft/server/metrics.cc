#include "weft/server/metrics.h"

#include <array>
#include <charconv>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace weft {

namespace {

// Upper bounds of the latency histogram's buckets, in nanoseconds.
constexpr std::array<uint64_t, 17> kBounds = {
    5'000,     10'000,     25'000,     50'000,      100'000,     250'000,       500'000,       1'000'000,     2'500'000,
    5'000'000, 10'000'000, 25'000'000, 100'000'000, 250'000'000, 1'000'000'000, 2'500'000'000, 10'000'000'000};

std::string number(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class Exposition {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += "# HELP " + name_ + " ";
    text_ += help;
    text_ += "\n# TYPE " + name_ + " ";
    text_ += type;
    text_ += '\n';
  }
  void sample(Labels labels, const std::string& value, std::string_view suffix = {}) {
    text_ += name_;
    text_ += suffix;
    char before = '{';
    for (const auto& [name, text] : labels) {
      text_ += before;
      text_ += name;
      text_ += "=\"" + label_value(text) + "\"";
      before = ',';
    }
    if (labels.size() > 0) text_ += '}';
    text_ += " " + value + "\n";
  }
  void sample(Labels labels, uint64_t value) { sample(labels, std::to_string(value)); }
  void counter(std::string_view name, uint64_t value, std::string_view help) {
    family(name, "counter", help);
    sample({}, value);
  }
  void gauge(std::string_view name, uint64_t value, std::string_view help) {
    family(name, "gauge", help);
    sample({}, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

void add_cluster(Exposition& out, const NodeStats& f) {
  out.family("weft_info", "gauge", "Always 1; the labels say what this node is.");
  out.sample(
      {{"cluster", f.cluster}, {"node", std::to_string(f.node.value)}, {"fabric", f.fabric}, {"protocol", f.protocol}},
      1);
  out.gauge("weft_epoch", f.view->epoch.value, "The epoch of the newest view that this node knows.");
  out.gauge("weft_members", f.view->members.size(), "Members of that view.");
  out.gauge("weft_fully_replicated", f.fully_replicated ? 1 : 0,
            "1 if every partition has all its replicas, none moves, and all members answer.");
  out.family("weft_cut_off_seconds", "gauge",
             "How long this node has had no lease: what is asked of it waits, up to limits.answer_ms; 0: it has one.");
  out.sample({}, number(static_cast<double>(f.cut_off_ns) / 1e9));
  out.gauge("weft_unavailable", f.unavailable_reason.empty() ? 0 : 1,
            "1 if the cluster waits for a lost node that has the last replica of a partition, or no node of the view "
            "runs transactions.");
  const Member* const self = f.view->find(f.node);
  out.family("weft_role", "gauge", "1 if the node has the role in that view: it holds data, it runs transactions.");
  out.sample({{"role", "data"}}, self != nullptr && holds_data(self->roles) ? 1 : 0);
  out.sample({{"role", "transactions"}}, self != nullptr && runs_transactions(self->roles) ? 1 : 0);
  const NodeStats::Roles roles = f.roles();
  out.family("weft_partitions", "gauge", "Partitions of this node, by what it is to them.");
  out.sample({{"role", "primary"}}, roles.primary);
  out.sample({{"role", "backup"}}, roles.backup);
  out.sample({{"role", "catching_up"}}, roles.catching_up);
  out.family("weft_view_change_seconds", "gauge",
             "How long this node's workers were stopped by the last change of the view; 0 while they are.");
  const ViewChange& change = f.change;
  const uint64_t stopped_ns = change.active_ns > change.adopted_ns ? change.active_ns - change.adopted_ns : 0;
  out.sample({}, number(static_cast<double>(stopped_ns) / 1e9));
}

void add_transactions(Exposition& out, const NodeStats& f) {
  const Counters& c = f.workers.counters;
  out.family("weft_transactions_total", "counter", "Transactions that began at this node, by outcome.");
  out.sample({{"outcome", "committed"}}, c.committed);
  out.sample({{"outcome", "aborted"}}, c.aborted);
  out.sample({{"outcome", "rejected"}}, c.rejected);
  out.sample({{"outcome", "unknown"}}, c.unknown);
  out.family("weft_aborts_total", "counter", "Transactions that aborted or were rejected, by reason.");
  for (int code = 1; code <= static_cast<int>(kLastReason); ++code) {
    out.sample({{"reason", code_name(static_cast<Code>(code))}}, c.aborts_by_code[code]);
  }
  out.family("weft_transaction_seconds", "histogram", "Committed transactions, from their begin until their outcome.");
  for (const uint64_t bound : kBounds) {
    out.sample({{"le", number(static_cast<double>(bound) / 1e9)}}, std::to_string(f.latency_ns.count_upto(bound)),
               "_bucket");
  }
  const std::string count = std::to_string(f.latency_ns.count());
  out.sample({{"le", "+Inf"}}, count, "_bucket");
  out.sample({}, number(static_cast<double>(f.latency_ns.sum()) / 1e9), "_sum");
  out.sample({}, count, "_count");
  out.gauge("weft_transactions_in_flight", f.workers.in_flight, "Transactions that applications hold at this moment.");
  out.gauge("weft_transactions_in_flight_max", f.in_flight_max,
            "At most so many: limits.transactions_in_flight_max of each worker.");
  out.family("weft_phase_round_trips_total", "counter",
             "Round trips that a commit or its client waited for, by phase.");
  for (size_t p = 1; p < kPhaseNames.size(); ++p) out.sample({{"phase", kPhaseNames[p]}}, c.phase_round_trips[p]);
  out.family("weft_phase_messages_total", "counter",
             "Messages of this node's transactions to other nodes and their answers, by phase.");
  for (size_t p = 0; p < kPhaseNames.size(); ++p) out.sample({{"phase", kPhaseNames[p]}}, c.phase_messages[p]);
  out.family("weft_phase_verbs_total", "counter",
             "One-sided verbs of this node's transactions to other nodes, by phase and kind.");
  const std::pair<std::string_view, const uint64_t*> kinds[] = {
      {"read", c.phase_reads}, {"write", c.phase_writes}, {"cas", c.phase_swaps}};
  for (size_t p = 0; p < kPhaseNames.size(); ++p) {
    for (const auto& [kind, of_phase] : kinds) out.sample({{"phase", kPhaseNames[p]}, {"verb", kind}}, of_phase[p]);
  }
  out.counter("weft_transactions_shipped_total", c.shipped,
              "Transactions that this node has sent to the primary of their keys to be executed.");
  out.counter("weft_local_nic_cas_total", c.own_swaps,
              "CAS verbs to the node itself (fabric.remote_lock_mode = \"loopback\").");
  out.gauge("weft_own_doorbells", static_cast<uint64_t>(f.own_doorbells),
            "Workers that ring a doorbell register of their own (fabric.kind = \"verbs\").");
  out.gauge("weft_verb_limit", f.workers.verb_limit,
            "One-sided verbs that all workers together may have in flight (fabric.verb_credit); 0: any number.");
  out.counter("weft_verb_credit_waits_total", c.verb_credit_waits,
              "Requests of verbs that waited until fewer were in flight.");
}

void add_batches(Exposition& out, const NodeStats& f) {
  const Counters& c = f.workers.counters;
  out.counter("weft_packets_sent_total", c.packets_sent, "Packets sent to other nodes.");
  out.counter("weft_messages_sent_total", c.messages_sent, "Messages in them; by packets: the batch size.");
  out.counter("weft_bytes_sent_total", c.bytes_sent, "Bytes in them.");
  out.counter("weft_packets_received_total", c.packets_received, "Packets that came from other nodes.");
  out.counter("weft_messages_received_total", c.messages_received, "Messages in them.");
  out.counter("weft_table_batches_total", c.table_batches, "Batches of keys that were looked up together.");
  out.counter("weft_table_batched_keys_total", c.table_batched, "Keys in them; by batches: the batch size.");
  out.family("weft_reads_total", "counter", "Reads of transactions, by where they were answered.");
  out.sample({{"from", "local_primary"}}, c.local_gets - c.backup_gets);
  out.sample({{"from", "local_backup"}}, c.backup_gets);
  out.sample({{"from", "remote"}}, c.remote_gets);
}

void add_clients(Exposition& out, const NodeStats& f) {
  out.gauge("weft_clients", f.clients, "Connections of clients.");
  out.gauge("weft_clients_max", f.clients_max, "At most so many: client.clients_max.");
  out.counter("weft_commands_total", f.commands, "Commands of clients.");
  out.gauge("weft_clients_output_bytes", f.clients_output_bytes, "Memory for answers that clients have not read.");
  out.gauge("weft_clients_input_bytes", f.clients_input_bytes, "Memory for commands that are not complete.");
  out.gauge("weft_clients_unauthenticated", f.clients_unauthenticated,
            "Connections whose TLS handshake or password is still to come.");
  out.family("weft_clients_closed_total", "counter", "Connections of clients that the node has closed, by reason.");
  out.sample({{"reason", "handshake"}}, f.clients_late);
  out.sample({{"reason", "idle"}}, f.clients_idle);
  out.sample({{"reason", "evicted"}}, f.clients_evicted);
  out.counter("weft_clients_refused_total", f.clients_refused, "Connections above client.clients_max.");
  out.counter("weft_wrong_passwords_total", f.wrong_passwords, "Wrong passwords of clients.");
  out.counter("weft_turns_too_long_total", f.turns_too_long, "Turns of a worker far above client.turn_us.");
  out.family("weft_turn_longest_seconds", "gauge", "The longest turn of a worker that did something for clients.");
  out.sample({}, number(static_cast<double>(f.turn_longest_ns) / 1e9));
}

void add_memory(Exposition& out, const NodeStats& f) {
  out.gauge("weft_records", f.records, "Records that this node holds, as primary or backup.");
  out.gauge("weft_records_max", f.records_max, "At most so many in the partitions that it holds.");
  out.gauge("weft_memory_bytes", f.memory_bytes, "Memory of records and their index.");
  out.gauge("weft_memory_bytes_max", f.memory_bytes_max, "At most so much: store.memory_bytes_max.");
}

void add_process(Exposition& out, const ProcessStats& process, const MetricsExtra& extra) {
  out.family("weft_events_total", "counter", "EventLog that this process has said, by level.");
  for (int level = 0; level < kLevels; ++level) {
    out.sample({{"level", level_name(static_cast<Level>(level))}}, extra.events[static_cast<size_t>(level)]);
  }
  out.counter("weft_events_dropped_total", extra.events_dropped, "Lines of the log that nobody took.");
  out.counter("weft_http_requests_total", extra.http_requests, "Requests over HTTP that were answered.");
  out.counter("weft_http_wrong_passwords_total", extra.http_wrong_passwords, "Of these, with a wrong password.");
  out.gauge("process_resident_memory_bytes", process.resident_bytes, "Memory of the process that is really there.");
  out.family("process_cpu_seconds_total", "counter", "Time that the process has spent on cores.");
  out.sample({}, number(process.cpu_seconds));
  out.gauge("process_open_fds", process.open_files, "File descriptors that are open.");
  out.gauge("process_max_fds", process.open_files_max, "At most so many: RLIMIT_NOFILE.");
}

}  // namespace

std::string metrics_text(const NodeStats& node_stats, const ProcessStats& process, const MetricsExtra& extra) {
  Exposition out;
  add_cluster(out, node_stats);
  add_transactions(out, node_stats);
  add_batches(out, node_stats);
  add_clients(out, node_stats);
  add_memory(out, node_stats);
  add_process(out, process, extra);
  return out.take();
}

}  // namespace weft
