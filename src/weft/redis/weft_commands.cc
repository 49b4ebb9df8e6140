// WEFT ...: commands that Redis does not have.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "weft/base/marks.h"
#include "weft/redis/command_help.h"
#include "weft/redis/digest.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"
#include "weft/redis/value.h"

namespace weft {
namespace {

constexpr uint64_t kDigestWaitNs = 1'000'000;

// incarnation.worker.sequence
std::optional<TxnId> parse_id(std::string_view text) {
  TxnId id;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto* to, bool last) {
    const auto [rest, failed] = std::from_chars(at, end, *to);
    at = last || rest == end ? rest : rest + 1;
    return failed == std::errc() && (last ? rest == end : rest != end && *rest == '.');
  };
  if (!number(&id.incarnation, false) || !number(&id.worker.value, false) || !number(&id.sequence, true)) return {};
  return id;
}

void status(RedisFrontend& front, Client&, Arguments, RespWriter& reply) { reply.bulk(front.hooks().status()); }

void cut(RedisFrontend& front, Client&, Arguments arguments, RespWriter& reply) {
  if (!front.options().debug) return reply.error("ERR WEFT CUT is for tests: client.debug is false");
  int peer = -1;
  const std::string_view text = arguments[2];
  const bool number = std::from_chars(text.data(), text.data() + text.size(), peer).ec == std::errc();
  if (!number || peer < 0 || peer >= kNodesMax) {
    return reply.error("ERR a node is 0 to " + std::to_string(kNodesMax - 1));
  }
  front.hooks().cut(NodeId(static_cast<uint8_t>(peer)));
  reply.simple("OK");
}

Task<void> outcome(RedisFrontend& front, Client& client, Arguments arguments) {
  const std::optional<TxnId> id = parse_id(arguments[2]);
  if (!id) {
    front.out(client).error("ERR an id is incarnation.worker.sequence, as WEFT MULTI answers it");
    co_return;
  }
  Task<TxnStatus> asking = front.session().query_outcome(*id);
  const TxnStatus status = co_await asking;
  const TxnWorker& txn_worker = *front.txn_worker();
  if (status != TxnStatus::kPending) {
    front.out(client).simple(status == TxnStatus::kCommitted ? "committed"
                             : status == TxnStatus::kAborted ? "aborted"
                                                             : "forgotten");
  } else if (txn_worker.context().views.removed()) {
    front.out(client).error("TRYAGAIN this node was removed from the view: ask another node");
  } else {
    front.out(client).error(
        "TRYAGAIN the outcome is not known after " + std::to_string(txn_worker.context().limits.outcome_timeout_ms) +
        " ms (limits.outcome_timeout_ms): " +
        (txn_worker.active() ? "somebody still has the transaction open" : "the view is not active"));
  }
}

// One at a time: each step of the worker does one step of one scan.
Task<void> digest(RedisFrontend& front, Client& client, Arguments) {
  while (front.scan_running) co_await front.session().sleep_ns(kDigestWaitNs);
  front.scan_running = true;
  DigestScan walk(*front.txn_worker()->node(), front.txn_worker()->view());
  while (!walk.step()) co_await front.session().sleep_ns(1);
  front.scan_running = false;
  front.out(client).bulk(walk.text());
}

Task<void> multi(RedisFrontend& front, Client& client, Arguments) {
  const auto held = std::count_if(front.clients().begin(), front.clients().end(),
                                  [](const Client& other) { return other.open_txn.has_value() || other.awaits_txn; });
  const uint32_t held_max =
      std::min(front.options().multi_held_max, front.txn_worker()->context().limits.transactions_in_flight_max / 2);
  if (held >= static_cast<ptrdiff_t>(held_max)) {
    front.out(client).error("ERR too many WEFT MULTI: multi_held_max is " + std::to_string(held_max));
    co_return;
  }
  client.awaits_txn = true;
  // It is open for as long as the client likes: it must not keep credit from the others.
  Txn txn = co_await front.session().begin_without_credit(front.answer_by_ns(client));
  client.awaits_txn = false;
  if (txn.refused()) {
    front.out(client).error(front.failure(client, txn.abort()));
    co_return;
  }
  txn.set_until(0);
  client.open_txn.emplace(std::move(txn));
  client.open_txn_until_ns = front.session().now_ns() + uint64_t{front.options().multi_held_ms} * 1'000'000;
  front.schedule_scan(client.open_txn_until_ns);
  client.in_multi = true;
  front.out(client).bulk(id_text(client.open_txn->id()));
}

struct ScanOptions {
  uint32_t limit = Txn::kNoLimit;
  Direction direction = Direction::kForward;
};

// After the two bounds. nullopt: the reply says what is wrong.
std::optional<ScanOptions> parse_scan_options(Arguments rest, RespWriter reply) {
  ScanOptions options;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (same_word(rest[i], "rev")) {
      options.direction = Direction::kBackward;
      continue;
    }
    const std::string_view number = same_word(rest[i], "limit") && i + 1 < rest.size() ? rest[++i] : std::string_view();
    const char* const end = number.data() + number.size();
    const auto [at, failed] = std::from_chars(number.data(), end, options.limit);
    if (number.empty() || failed != std::errc() || at != end || options.limit == 0) {
      reply.error("ERR after the two keys come LIMIT and a number above 0, or REV, or both");
      return std::nullopt;
    }
  }
  return options;
}

// Takes what is past its deadline out of a scan; the rest are the keys and values of the reply. If there is any, or if
// `look_ahead`, nothing is answered: the transaction is aborted.
Task<Code> collect(RedisFrontend& front, Txn& txn, Arguments arguments, ScanOptions options, bool look_ahead,
                   int version, std::vector<std::string>* due, std::string* out) {
  due->clear();
  const Scan found =
      co_await txn.scan(front.options().table, arguments[2], arguments[3], options.limit, options.direction);
  if (!found) co_return found.code;
  const int64_t now_ms = front.wall_us() / 1000;
  for (const Scan::Item& item : found.items) {
    if (parse_value(item.value).due(now_ms)) due->emplace_back(item.key);
  }
  if (look_ahead || !due->empty()) co_return Code::kApplication;
  std::string items;
  RespWriter writer(&items, front.options().reply_bytes_max);
  for (const Scan::Item& item : found.items) {
    const StoredValue value = parse_value(item.value);
    writer.bulk(item.key);
    value.type == ValueType::kString ? writer.bulk(value.bytes) : writer.null();
  }
  out->clear();
  RespWriter whole(out);
  whole.set_version(version);
  if (writer.over()) {
    whole.error("ERR the reply is too long: reply_bytes_max is " + std::to_string(front.options().reply_bytes_max));
    co_return Code::kOk;
  }
  whole.array(2 * found.items.size());
  out->append(items);
  co_return Code::kOk;
}

// Keys past their deadline are deleted before the client is told that they are gone, as by every reader (keyspace.h),
// but in transactions of their own: in some rows who scans may not write. Then it scans again, until none is in its
// range or before its limit. So what is answered is one scan of one moment, of keys all of which were there, and as
// many as the limit says or as there were.
Task<void> scan(RedisFrontend& front, Client& client, Arguments arguments) {
  constexpr uint32_t kAheadMax = 256;  // keys that are looked at, at once, for more to delete
  if (!front.table().spec().ordered) {
    front.out(client).error("ERR the keys are not kept in order: store.ordered is false");
    co_return;
  }
  const std::optional<ScanOptions> options = parse_scan_options(arguments.subspan(4), front.out(client));
  if (!options) co_return;
  const uint64_t until_ns = front.answer_by_ns(client);
  const uint32_t ahead_max = std::min(kAheadMax, front.txn_worker()->context().limits.txn_keys_max);
  std::vector<std::string> due;
  Outcome outcome;
  for (bool ahead = false;; ahead = !ahead && options->limit < ahead_max) {
    ScanOptions reach = *options;
    if (ahead) reach.limit = ahead_max;
    RetryPolicy policy;
    policy.attempts = ahead ? 1 : UINT32_MAX;
    const auto body = [&](Txn& txn) {
      return collect(front, txn, arguments, reach, ahead, client.version, &due, &client.reply);
    };
    Task<Outcome> running = front.session().run(policy, body, until_ns);
    outcome = co_await running;
    if (outcome.committed()) co_return front.take_reply(client);
    if (due.empty() && !ahead) break;
    if (!due.empty()) {
      WEFT_MARK_OUTSIDE("a scan meets expired keys");
      Task<Outcome> deleting = front.delete_expired(due, until_ns);
      outcome = co_await deleting;
      // What is unknown the next scan shows.
      if (!outcome.committed() && outcome.kind != OutcomeKind::kUnknown) break;
    }
    if (front.session().now_ns() < until_ns) continue;
    RedisFrontend::drop_reply(client);
    front.out(client).error(front.no_answer() + ": keys past their deadline were in the way");
    co_return;
  }
  RedisFrontend::drop_reply(client);
  front.out(client).error(front.failure(client, outcome));
}

constexpr Command kWeftCommands[] = {
    {"weft", -2, kHasSubcommands, {}, "server", "what Redis has no words for"},
    {"weft|cut", 3, kAdmin | kNoMulti, {}, "server", "closes the connection to a node, for tests", nullptr, cut},
    {"weft|digest",
     2,
     kAdmin | kNoMulti,
     {},
     "server",
     "sums over what this node holds, to compare nodes with",
     nullptr,
     nullptr,
     digest},
    {"weft|help", 2, kFast, {}, "server", "what there is", nullptr, reply_help},
    {"weft|multi",
     2,
     kNoMulti,
     {},
     "transactions",
     "MULTI that answers its transaction's id; EXEC tries it once",
     nullptr,
     nullptr,
     multi},
    {"weft|outcome",
     3,
     kNoMulti,
     {},
     "transactions",
     "what became of a transaction: committed, aborted or forgotten",
     nullptr,
     nullptr,
     outcome},
    {"weft|scan",
     -4,
     kNoMulti,
     {},
     "transactions",
     "the keys from one on and below another, with their values, in order (LIMIT REV)",
     nullptr,
     nullptr,
     scan},
    {"weft|status", 2, kNoMulti, {}, "server", "the node and its view, as JSON", nullptr, status},
};

}  // namespace

std::span<const Command> weft_commands() { return kWeftCommands; }

}  // namespace weft
