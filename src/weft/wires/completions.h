// Completions: the completions of one wire and access domain that were not polled yet, on wires where a verb completes
// some time after it was posted (tcp, verbs). Every outstanding verb has an entry reserved.
//
// Only the worker that owns the wire uses it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "weft/fabric/wire.h"

namespace weft {

class Completions {
 public:
  explicit Completions(size_t capacity) : ring_(capacity) {}

  bool reserve(size_t verbs) {
    if (tail_ - head_ + reserved_ + verbs > ring_.size()) return false;
    reserved_ += verbs;
    return true;
  }
  void forgo() { --reserved_; }
  void add(const Completion& completion) {
    --reserved_;
    ring_[tail_++ % ring_.size()] = completion;
  }
  bool empty() const { return head_ == tail_; }
  size_t poll(std::span<Completion> out) {
    size_t count = 0;
    while (count < out.size() && head_ != tail_) out[count++] = ring_[head_++ % ring_.size()];
    return count;
  }

 private:
  std::vector<Completion> ring_;  // [head_, tail_)
  size_t head_ = 0;
  size_t tail_ = 0;
  size_t reserved_ = 0;
};

// Those of all domains of a wire.
class DomainCompletions {
 public:
  explicit DomainCompletions(size_t capacity) {
    for (int i = 0; i < kDomains; ++i) of_.emplace_back(capacity);
  }
  Completions& of(Domain domain) { return of_[index_of(domain)]; }
  bool empty() const {
    return std::all_of(of_.begin(), of_.end(), [](const Completions& completions) { return completions.empty(); });
  }

 private:
  std::vector<Completions> of_;
};

}  // namespace weft
