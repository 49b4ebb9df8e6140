// Commands that visit all keys: SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHALL. They are outside of the transactional
// guarantee: keys come and go during the scan. A key that exists throughout a SCAN is in it.
//
// SCAN's cursor: the partition (12 bits), and the position in hash order within it (52 bits). Both mean the same on
// every node, whatever happens to tables and views.
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/redis/command_text.h"
#include "weft/redis/cost.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"
#include "weft/redis/glob.h"

namespace weft {
namespace {

constexpr uint32_t kPageKeys = 256;
constexpr int64_t kScanKeysDefault = 10;
constexpr int kScanPages = 256;    // per SCAN
constexpr size_t kFlushKeys = 32;  // per transaction
constexpr int kPositionBits = 64 - kScanCursorSpare;
static_assert(kPartitionsMax <= 1 << kScanCursorSpare);

struct Place {
  size_t partition = 0;
  uint64_t position = 0;  // in it
};

uint64_t cursor_of(const Place& at) {
  return static_cast<uint64_t>(at.partition) << kPositionBits | at.position >> kScanCursorSpare;
}
Place place_of(uint64_t cursor) { return {static_cast<size_t>(cursor >> kPositionBits), cursor << kScanCursorSpare}; }

// The result of fetching a page; kNone: it failed, and the client has been told why.
enum class Page : uint8_t { kMore, kLast, kNone };

constexpr std::string_view kPartGone = "a part of the keys is deleted";

// `changed`: what has already been changed; empty: nothing.
void refuse_scan(RedisFrontend& front, Client& client, std::string_view changed = {}) {
  const TxnWorker& txn_worker = *front.txn_worker();
  std::string why = txn_worker.context().views.removed() ? std::string(kRemoved) : front.no_answer();
  if (!changed.empty()) {
    why = "ERR " + std::string(changed) + ", and then no answer came within " +
          std::to_string(txn_worker.slots().answer_ns() / 1'000'000) + " ms (limits.answer_ms)";
  }
  if (!txn_worker.context().views.removed() && !txn_worker.unavailable_reason().empty())
    why += ": " + txn_worker.unavailable_reason();
  front.out(client).error(why);
}

// One page from there; `at` is moved past it.
Task<Page> next_page(RedisFrontend& front, Client& client, Place* at, uint32_t keys, std::vector<KeyItem>* items,
                     std::string_view changed = {}) {
  const size_t partitions = front.txn_worker()->view().partitions.size();
  items->clear();
  if (at->partition >= partitions) co_return Page::kLast;
  Task<std::shared_ptr<KeyPage>> walk = front.session().scan_keys(
      front.options().table, PartitionId(static_cast<uint16_t>(at->partition)), at->position, keys);
  const std::shared_ptr<KeyPage> page = co_await walk;
  if (!page->done) {
    refuse_scan(front, client, changed);
    co_return Page::kNone;
  }
  *items = std::move(page->items);
  at->position = page->next;
  if (page->next == 0) ++at->partition;
  co_return at->partition < partitions ? Page::kMore : Page::kLast;
}

// A key that is being written has no value prefix: it counts as alive, and as any type.
bool alive(const KeyItem& item, int64_t now_ms) { return !parse_value(item.value_prefix).due(now_ms); }

bool pattern_fits(std::string_view pattern, RespWriter reply) {
  if (pattern.size() <= kPatternBytesMax) return true;
  reply.error("ERR the pattern is too long: " + limit_text("the limit", kPatternBytesMax, pattern.size()));
  return false;
}

// Keeps those that are alive and match. A pattern may be much work for every key.
Task<void> keep_matching(RedisFrontend& front, Client& client, const std::string& pattern,
                         std::vector<KeyItem>* items) {
  const int64_t now_ms = front.wall_us() / 1000;
  size_t kept = 0;
  for (size_t i = 0; i < items->size(); ++i) {
    uint64_t ns = kCommandNs / 4;
    KeyItem& item = (*items)[i];
    if (alive(item, now_ms) && glob_matches(pattern, item.key, &ns)) {
      if (kept != i) (*items)[kept] = std::move(item);
      ++kept;
    }
    front.scheduler().charge(client.share, ns, "matching keys with a pattern");
    if (front.scheduler().over(client.share)) {
      co_await front.scheduler().wait(client.share, FairScheduler::WaitPoint::kBeforeTxn);
    }
  }
  items->resize(kept);
}

struct ScanOptions {
  int64_t count = kScanKeysDefault;
  std::string pattern = "*";
  std::string type;
};

bool parse(Arguments options, ScanOptions* out, RespWriter reply) {
  for (size_t i = 0; i < options.size(); i += 2) {
    const bool more = i + 1 < options.size();
    if (more && same_word(options[i], "count")) {
      const auto count = integer_argument(options[i + 1], reply);
      if (!count) return false;
      if (*count < 1) {
        reply.error(kSyntaxError);
        return false;
      }
      out->count = *count;
    } else if (more && same_word(options[i], "match")) {
      out->pattern = options[i + 1];
    } else if (more && same_word(options[i], "type")) {
      out->type = lower_case(options[i + 1]);
    } else {
      reply.error(kSyntaxError);
      return false;
    }
  }
  return true;
}

Task<void> scan(RedisFrontend& front, Client& client, Arguments arguments) {
  uint64_t cursor = 0;
  const std::string_view text = arguments[1];
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cursor);
  if (error != std::errc() || end != text.data() + text.size()) {
    front.out(client).error("ERR invalid cursor");
    co_return;
  }
  ScanOptions options;
  if (!parse(arguments.subspan(2), &options, front.out(client))) co_return;
  if (!pattern_fits(options.pattern, front.out(client))) co_return;
  Place at = place_of(cursor);
  const auto wanted = static_cast<uint32_t>(std::min<int64_t>(options.count, kPageKeys));
  std::vector<KeyItem> items;
  Page page = Page::kMore;
  // Pages of a sparse table may be empty.
  for (int pages = 0; pages < kScanPages && page == Page::kMore && items.size() < wanted; ++pages) {
    std::vector<KeyItem> some;
    Task<Page> work = next_page(front, client, &at, wanted, &some);
    page = co_await work;
    if (page == Page::kNone) co_return;
    items.insert(items.end(), some.begin(), some.end());
    if (page == Page::kMore) co_await front.session().sleep_ns(1);
  }
  std::erase_if(items, [&](const KeyItem& item) {
    return !options.type.empty() && !item.value_prefix.empty() &&
           type_name(parse_value(item.value_prefix).type) != options.type;
  });
  Task<void> matching = keep_matching(front, client, options.pattern, &items);
  co_await matching;
  RespWriter reply = front.out(client);
  reply.array(2);
  reply.bulk(std::to_string(page == Page::kMore ? cursor_of(at) : 0));
  reply.array(items.size());
  for (const KeyItem& item : items) reply.bulk(item.key);
}

Task<void> keys(RedisFrontend& front, Client& client, Arguments arguments) {
  const std::string pattern(arguments[1]);
  if (!pattern_fits(pattern, front.out(client))) co_return;
  client.reply.clear();
  RespWriter found(&client.reply, front.options().reply_bytes_max);
  size_t count = 0;
  Place at;
  std::vector<KeyItem> items;
  for (Page page = Page::kMore; page == Page::kMore && !client.dead;) {
    Task<Page> work = next_page(front, client, &at, kPageKeys, &items);
    page = co_await work;
    if (page == Page::kNone) {
      front.drop_reply(client);
      co_return;
    }
    Task<void> matching = keep_matching(front, client, pattern, &items);
    co_await matching;
    for (const KeyItem& item : items) found.bulk(item.key);
    count += items.size();
    if (found.over()) {
      front.drop_reply(client);
      front.out(client).error("ERR the reply is too long: reply_bytes_max is " +
                              std::to_string(front.options().reply_bytes_max) + "; use SCAN");
      co_return;
    }
    co_await front.session().sleep_ns(1);  // others run between two pages
  }
  front.out(client).array(count);
  front.take_reply(client);
}

// Nothing: the client has been told why.
Task<std::optional<uint64_t>> count_keys(RedisFrontend& front, Client& client, size_t partition) {
  Task<std::shared_ptr<KeyPage>> walk =
      front.session().scan_keys(front.options().table, PartitionId(static_cast<uint16_t>(partition)), 0, 0);
  const std::shared_ptr<KeyPage> page = co_await walk;
  if (!page->done) refuse_scan(front, client);
  co_return page->done ? std::optional(page->records) : std::nullopt;
}

// A client that asks the nodes of a cluster one by one adds up the replies: then each node counts only the partitions
// that it takes care of.
Task<void> dbsize(RedisFrontend& front, Client& client, Arguments) {
  uint64_t all = 0;
  for (size_t p = 0; p < front.txn_worker()->view().partitions.size(); ++p) {
    const WorkerContext& ctx = front.txn_worker()->context();
    if (client.asked_cluster && ctx.view().caretaker_of(PartitionId(static_cast<uint16_t>(p))) != ctx.self) continue;
    Task<std::optional<uint64_t>> work = count_keys(front, client, p);
    const std::optional<uint64_t> count = co_await work;
    if (!count) co_return;
    all += *count;
  }
  front.out(client).integer(static_cast<int64_t>(all));
}

// Chooses a partition by its number of keys, and a random position in it: keys after a gap between hashes are more
// likely.
Task<void> randomkey(RedisFrontend& front, Client& client, Arguments) {
  const size_t partitions = front.txn_worker()->view().partitions.size();
  std::vector<uint64_t> counts;
  uint64_t all = 0;
  for (size_t p = 0; p < partitions; ++p) {
    Task<std::optional<uint64_t>> work = count_keys(front, client, p);
    const std::optional<uint64_t> count = co_await work;
    if (!count) co_return;
    counts.push_back(*count);
    all += counts.back();
  }
  if (all != 0) {
    uint64_t chosen = front.txn_worker()->random().below(all);
    Place at;
    while (chosen >= counts[at.partition]) chosen -= counts[at.partition++];
    at.position = front.txn_worker()->random().below(UINT64_MAX) >> kScanCursorSpare << kScanCursorSpare;
    // From there around to there again, over all partitions.
    for (size_t pages = 0, wrapped = 0; wrapped < partitions + 1 && pages < UINT32_MAX; ++pages) {
      std::vector<KeyItem> items;
      Task<Page> work = next_page(front, client, &at, 1, &items);
      const Page page = co_await work;
      if (page == Page::kNone) co_return;
      const int64_t now_ms = front.wall_us() / 1000;
      std::erase_if(items, [&](const KeyItem& item) { return !alive(item, now_ms); });
      if (!items.empty()) {
        front.out(client).bulk(items[front.txn_worker()->random().below(items.size())].key);
        co_return;
      }
      if (at.position == 0) ++wrapped;
      if (page == Page::kLast) at = {};
      co_await front.session().sleep_ns(1);
    }
  }
  front.out(client).null();
}

Task<Code> erase_some(Txn& txn, TableId table, std::span<const KeyItem> items) {
  for (const KeyItem& item : items) txn.get_async(table, item.key, Intent::kHead);
  co_await txn.wait_all();
  for (const KeyItem& item : items) {
    const Value value = txn.value(txn.get_async(table, item.key, Intent::kHead));
    if (value.code != Code::kOk) co_return value.code;
    if (!value.found) continue;
    if (const Code code = txn.erase(table, item.key); code != Code::kOk) co_return code;
  }
  co_return Code::kOk;
}

Task<void> flush(RedisFrontend& front, Client& client, Arguments arguments) {
  const bool known = arguments.size() == 1 || same_word(arguments[1], "sync") || same_word(arguments[1], "async");
  if (!known || arguments.size() > 2) {
    front.out(client).error(kSyntaxError);
    co_return;
  }
  Place at;
  std::vector<KeyItem> items;
  size_t together = std::min<size_t>(kFlushKeys, front.txn_worker()->context().limits.txn_keys_max);
  bool some_gone = false;
  for (Page page = Page::kMore; page == Page::kMore;) {
    Task<Page> work = next_page(front, client, &at, kPageKeys, &items, some_gone ? kPartGone : std::string_view());
    page = co_await work;
    if (page == Page::kNone) co_return;
    for (size_t i = 0; i < items.size();) {
      const std::span<const KeyItem> some = std::span(items).subspan(i, std::min(together, items.size() - i));
      const auto body = [&](Txn& txn) { return erase_some(txn, front.options().table, some); };
      RetryPolicy policy;
      policy.attempts = UINT32_MAX;
      Task<Outcome> running = front.session().run(policy, body);
      const Outcome outcome = co_await running;
      some_gone |= outcome.committed();
      if (outcome.committed()) {
        i += some.size();
        continue;
      }
      if (outcome.code == Code::kTxnTooLarge && some.size() > 1) {  // it reads what it deletes
        together = some.size() / 2;
        continue;
      }
      const bool unknown = outcome.kind == OutcomeKind::kUnknown;
      front.out(client).error((unknown ? "UNKNOWN " + id_text(outcome.id) + " " : "ERR ") +
                              (some_gone ? std::string(kPartGone) + ": " : "") + outcome.text());
      co_return;
    }
    co_await front.session().sleep_ns(1);
  }
  front.out(client).simple("OK");
}

constexpr Command kScanCommands[] = {
    {"dbsize",
     1,
     kFast | kNoMulti,
     {},
     "walks",
     "how many keys there are; after CLUSTER ..., of those that this node is primary of",
     nullptr,
     nullptr,
     dbsize},
    {"flushall", -1, kWrites | kNoMulti, {}, "walks", "deletes all keys", nullptr, nullptr, flush},
    {"flushdb", -1, kWrites | kNoMulti, {}, "walks", "deletes all keys", nullptr, nullptr, flush},
    {"keys", 2, kNoMulti, {}, "walks", "all keys that match a pattern", nullptr, nullptr, keys},
    {"randomkey", 1, kNoMulti, {}, "walks", "one of the keys", nullptr, nullptr, randomkey},
    {"scan",
     -2,
     kNoMulti,
     {},
     "walks",
     "a page of the keys, and where to go on (MATCH COUNT TYPE)",
     nullptr,
     nullptr,
     scan},
};

}  // namespace

std::span<const Command> scan_commands() { return kScanCommands; }

}  // namespace weft
