#include "weft/redis/hot_key_queues.h"

#include <algorithm>
#include <utility>

#include "weft/base/marks.h"
#include "weft/redis/client.h"

namespace weft {

namespace {

// A watch concerns one transaction only: if it failed, it would abort everybody's. Commands about the connection may
// have taken effect though the transaction has not.
bool goes_along(const HotKeyQueues::Waiter& waiter) {
  const CommandBatch& batch = waiter.batch;
  return !waiter.alone && batch.list->only_data() && (!batch.exec || batch.client->watched.empty());
}

// Compares as much of a key as an outcome reports.
bool is_key(std::string_view key, const Outcome& outcome) {
  return key.size() == outcome.key_bytes &&
         key.starts_with(std::string_view(outcome.key_start, std::min(key.size(), sizeof outcome.key_start)));
}

}  // namespace

std::span<const CommandBatch> HotKeyQueues::HotKeyQueue::form_batch(const Waiter& leader, size_t keys_max,
                                                                    size_t bytes_max) {
  batches_.assign(1, leader.batch);
  if (!goes_along(leader)) return batches_;
  size_t keys = leader.batch.keys();
  size_t bytes = leader.batch.list->bytes();
  for (const Waiter* waiter : waiting_) {
    const CommandList& list = *waiter->batch.list;
    keys += waiter->batch.keys();
    bytes += list.bytes();
    if (keys > keys_max || bytes > bytes_max || batches_.size() >= batches_max_ || !goes_along(*waiter)) break;
    WEFT_MARK_OUTSIDE("commands of several connections run together");
    batches_.push_back(waiter->batch);
  }
  return batches_;
}

void HotKeyQueues::HotKeyQueue::split(size_t batch) {
  WEFT_MARK_OUTSIDE("connections that ran together are split");
  if (batch != 0) {
    waiting_[batch - 1]->alone = true;
  } else {
    batches_max_ = (batches_.size() + 1) / 2;
  }
}

bool HotKeyQueues::HotKeyQueue::conflicted_on_key(const Outcome& outcome) const {
  return outcome.key_bytes == 0 || is_key(key_, outcome);
}

void HotKeyQueues::HotKeyQueue::answered(size_t count, Worker* worker) {
  if (batches_max_ != SIZE_MAX) ++batches_max_;
  for (; count != 0; --count) {
    Waiter* const waiter = waiting_.front();
    waiting_.pop_front();
    waiter->answered = true;
    worker->ready(waiter->handle);
  }
}

HotKeyQueues::HotKeyQueue* HotKeyQueues::find(const CommandBatch& batch) {
  if (hot_keys_.empty()) [[likely]]
    return nullptr;
  HotKeyQueue* found = nullptr;
  for (size_t i = batch.first; i < batch.first + batch.count && found == nullptr; ++i) {
    for_each_key(batch.list->command(i), batch.list->arguments(i), [&](std::string_view key) {
      const auto queue = found == nullptr ? hot_keys_.find(key) : hot_keys_.end();
      if (queue != hot_keys_.end()) found = &queue->second;
    });
  }
  return found;
}

HotKeyQueues::HotKeyQueue* HotKeyQueues::of(const Outcome& outcome, TableId table, const CommandBatch& batch,
                                            bool* leads) {
  if (outcome.key_bytes == 0 || outcome.table != table) return nullptr;
  HotKeyQueue* found = nullptr;
  for (size_t i = batch.first; i < batch.first + batch.count && found == nullptr; ++i) {
    for_each_key(batch.list->command(i), batch.list->arguments(i), [&](std::string_view key) {
      if (found != nullptr || !is_key(key, outcome)) return;
      const auto [at, made] = hot_keys_.try_emplace(std::string(key));
      found = &at->second;
      found->key_ = at->first;
      *leads = made;
    });
  }
  return found;
}

void HotKeyQueues::remove(HotKeyQueue* queue) {
  if (queue->listed_) std::erase(idle_, queue);
  hot_keys_.erase(hot_keys_.find(queue->key_));
}

void HotKeyQueues::forget_idle() {
  std::vector<HotKeyQueue*> idle;
  idle.swap(idle_);
  for (HotKeyQueue* queue : idle) {
    queue->listed_ = false;
    if (!queue->led_) remove(queue);
  }
}

void HotKeyQueues::leave(HotKeyQueue* queue, Worker* worker) {
  if (queue->waiting_.empty()) {
    queue->led_ = false;
    if (--queue->kept_ == 0 || (!queue->listed_ && idle_.size() == kIdleMax)) return remove(queue);
    if (!std::exchange(queue->listed_, true)) idle_.push_back(queue);
    return;
  }
  Waiter* const next = queue->waiting_.front();
  queue->waiting_.pop_front();
  worker->ready(next->handle);
}

}  // namespace weft
