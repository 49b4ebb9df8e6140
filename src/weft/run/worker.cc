#include "weft/run/worker.h"

namespace weft {

bool Worker::step() {
  const FramePool::Scope scope(&frames_);
  now_ns_ = clock_->now_ns();
  ++steps_;
  if (asleep_) {
    asleep_ = false;
    tasks_->after_sleep();
  }
  if (cost_model_ != nullptr) cost_model_->charge(CostStep::kLoop, 1);
  tasks_->begin_step();
  bool heard = mailbox_.drain();
  if (clients_ != nullptr) heard |= clients_->poll();
  bool busy = run_client_code();
  busy |= tasks_->table_batch();
  busy |= tasks_->commit_steps();
  busy |= tasks_->flush();
  if (clients_ != nullptr) busy |= clients_->flush();
  heard |= tasks_->poll();
  tasks_->between_steps();
  heard_ |= heard;
  return busy || heard;
}

bool Worker::run_client_code() {
  while (const std::coroutine_handle<> due = timers_.take_due(now_ns_)) ready_.push_back(due);
  if (ready_.empty()) return false;
  running_.swap(ready_);
  if (cost_model_ != nullptr) cost_model_->charge(CostStep::kResume, running_.size());
  for (const std::coroutine_handle<> coroutine : running_) coroutine.resume();
  running_.clear();
  return true;
}

}  // namespace weft
