#include "weft/redis/hot_key_queues.h"

#include <algorithm>
#include <utility>

#include "weft/base/marks.h"
#include "weft/redis/client.h"

namespace weft {

namespace {

// What a watch says is each transaction's own affair: if it fails, that would be everybody's abort. Commands about the
// connection may have been carried out when the transaction is not.
bool goes_along(const HotKeyQueues::Place& place) {
  const Part& part = place.part;
  return !place.alone && part.list->only_data() && (!part.exec || part.client->watched.empty());
}

// As much of a key as an outcome says.
bool is_key(std::string_view key, const Outcome& outcome) {
  return key.size() == outcome.key_bytes &&
         key.starts_with(std::string_view(outcome.key_start, std::min(key.size(), sizeof outcome.key_start)));
}

}  // namespace

std::span<const Part> HotKeyQueues::HotKeyQueue::gather(const Place& leader, size_t keys_max, size_t bytes_max) {
  parts_.assign(1, leader.part);
  if (!goes_along(leader)) return parts_;
  size_t keys = leader.part.list->keys();
  size_t bytes = leader.part.list->bytes();
  for (const Place* place : waiting_) {
    const CommandList& list = *place->part.list;
    keys += list.keys();
    bytes += list.bytes();
    if (keys > keys_max || bytes > bytes_max || parts_.size() >= parts_max_ || !goes_along(*place)) break;
    WEFT_MARK_OUTSIDE("commands of several connections run together");
    parts_.push_back(place->part);
  }
  return parts_;
}

void HotKeyQueues::HotKeyQueue::split(size_t part) {
  WEFT_MARK_OUTSIDE("connections that ran together are split");
  if (part != 0) {
    waiting_[part - 1]->alone = true;
  } else {
    parts_max_ = (parts_.size() + 1) / 2;
  }
}

bool HotKeyQueues::HotKeyQueue::met_at_its_key(const Outcome& outcome) const {
  return outcome.key_bytes == 0 || is_key(key_, outcome);
}

void HotKeyQueues::HotKeyQueue::answered(size_t count, Worker* worker) {
  if (parts_max_ != SIZE_MAX) ++parts_max_;
  for (; count != 0; --count) {
    Place* const place = waiting_.front();
    waiting_.pop_front();
    place->answered = true;
    worker->ready(place->waiter);
  }
}

HotKeyQueues::HotKeyQueue* HotKeyQueues::find(const CommandList& list) {
  if (lines_.empty()) [[likely]]
    return nullptr;
  HotKeyQueue* found = nullptr;
  for (size_t i = 0; i < list.size() && found == nullptr; ++i) {
    for_each_key(list.command(i), list.arguments(i), [&](std::string_view key) {
      const auto line = found == nullptr ? lines_.find(key) : lines_.end();
      if (line != lines_.end()) found = &line->second;
    });
  }
  return found;
}

HotKeyQueues::HotKeyQueue* HotKeyQueues::of(const Outcome& outcome, TableId table, const Part& part, bool* leads) {
  if (outcome.key_bytes == 0 || outcome.table != table) return nullptr;
  HotKeyQueue* found = nullptr;
  for (size_t i = part.first; i < part.first + part.count && found == nullptr; ++i) {
    for_each_key(part.list->command(i), part.list->arguments(i), [&](std::string_view key) {
      if (found != nullptr || !is_key(key, outcome)) return;
      const auto [at, made] = lines_.try_emplace(std::string(key));
      found = &at->second;
      found->key_ = at->first;
      *leads = made;
    });
  }
  return found;
}

void HotKeyQueues::leave(HotKeyQueue* line, Worker* worker) {
  if (line->waiting_.empty()) {
    lines_.erase(lines_.find(line->key_));
    return;
  }
  Place* const next = line->waiting_.front();
  line->waiting_.pop_front();
  worker->ready(next->waiter);
}

}  // namespace weft
