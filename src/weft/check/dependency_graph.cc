#include "weft/check/dependency_graph.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"

namespace weft::checking {
namespace {

// Lists per key, in one array: those of key k are items[begin[k] .. begin[k + 1]).
struct ByKey {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> items;
  std::span<const uint32_t> of(uint32_t key) const {
    return std::span(items).subspan(begin[key], begin[key + 1] - begin[key]);
  }
};

// `items` are (key, transaction) pairs in the order of the history; that order is kept.
ByKey group(size_t keys, const std::vector<std::pair<uint32_t, uint32_t>>& items) {
  ByKey out;
  out.begin.assign(keys + 1, 0);
  for (const auto& [key, txn] : items) ++out.begin[key + 1];
  for (size_t k = 0; k < keys; ++k) out.begin[k + 1] += out.begin[k];
  out.items.resize(items.size());
  std::vector<uint32_t> next(out.begin.begin(), out.begin.end() - 1);
  for (const auto& [key, txn] : items) out.items[next[key]++] = txn;
  return out;
}

}  // namespace

DependencyGraph::DependencyGraph(const HistoryIndex& index)
    : txns_(static_cast<uint32_t>(index.history.txns.size())), nodes_(txns_) {
  add_versions(index);
  add_reads(index);
  add_unseen(index);
  add_real_time(index);
  sort_edges();
}

void DependencyGraph::add(uint32_t from, uint32_t to, EdgeKind kind, uint32_t key, uint32_t position) {
  if (from != to) edges_.push_back({from, to, key, position, kind});
}

void DependencyGraph::add_versions(const HistoryIndex& index) {
  for (uint32_t key = 0; key < index.keys.size(); ++key) {
    for (uint32_t i = 1; i < index.order_size(key); ++i) {
      add(index.at(key, i - 1).txn, index.at(key, i).txn, kWw, key, i - 1);
    }
  }
}

void DependencyGraph::add_reads(const HistoryIndex& index) {
  for (const FirstRead& read : index.first_reads) {
    if (read.length > 0) add(index.at(read.key, read.length - 1).txn, read.txn, kWr, read.key, read.length - 1);
    if (read.length < index.order_size(read.key)) {
      add(read.txn, index.at(read.key, read.length).txn, kRw, read.key, read.length);
    }
  }
}

void DependencyGraph::add_unseen(const HistoryIndex& index) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const Append& append : index.appends) {
    if (append.position == kNobody && append.last && index.committed(append.txn))
      pairs.push_back({append.key, append.txn});
  }
  const ByKey unseen = group(index.keys.size(), pairs);
  pairs.clear();
  for (const FirstRead& read : index.first_reads) {
    if (read.length == index.order_size(read.key)) pairs.push_back({read.key, read.txn});
  }
  const ByKey readers = group(index.keys.size(), pairs);

  std::vector<uint32_t> rank(txns_, kNobody);  // in the unseen appends of the current key
  for (uint32_t key = 0; key < index.keys.size(); ++key) {
    const std::span<const uint32_t> late = unseen.of(key);
    const uint32_t size = index.order_size(key);
    if (late.empty() || (size == 0 && readers.of(key).empty())) continue;
    const auto count = static_cast<uint32_t>(late.size());
    const uint32_t left = nodes_;  // left + i leads to late[0 .. i], right + i to late[i ..]
    const uint32_t right = nodes_ + count;
    nodes_ += 2 * count;
    for (uint32_t i = 0; i < count; ++i) {
      rank[late[i]] = i;
      add(left + i, late[i], kPass);
      add(right + i, late[i], kPass);
      if (i > 0) add(left + i, left + i - 1, kPass);
      if (i > 0) add(right + i - 1, right + i, kPass);
    }
    const auto precede = [&](uint32_t txn, EdgeKind kind, uint32_t position) {
      const uint32_t self = rank[txn];
      if (self == kNobody) return add(txn, left + count - 1, kind, key, position);
      if (self > 0) add(txn, left + self - 1, kind, key, position);
      if (self + 1 < count) add(txn, right + self + 1, kind, key, position);
    };
    if (size > 0) precede(index.at(key, size - 1).txn, kWw, size - 1);
    for (const uint32_t reader : readers.of(key)) precede(reader, kRw, size);
    for (const uint32_t txn : late) rank[txn] = kNobody;
  }
}

void DependencyGraph::add_real_time(const HistoryIndex& index) {
  struct Event {
    uint64_t time;
    bool completion;  // sorted after invocations of the same nanosecond, which overlap
    uint32_t txn;
  };
  std::vector<Event> events;
  for (uint32_t t = 0; t < txns_; ++t) {
    if (!index.committed(t)) continue;
    events.push_back({index.txn(t).invoke, false, t});
    if (index.ok(t)) events.push_back({index.txn(t).complete, true, t});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.completion != b.completion ? b.completion : a.txn < b.txn;
  });
  std::vector<uint32_t> completed;  // since the newest barrier
  uint32_t barrier = kNobody;
  for (const Event& event : events) {
    if (event.completion) {
      completed.push_back(event.txn);
      continue;
    }
    if (!completed.empty()) {
      const uint32_t next = junction();
      if (barrier != kNobody) add(barrier, next, kPass);
      for (const uint32_t txn : completed) add(txn, next, kRt);
      completed.clear();
      barrier = next;
    }
    if (barrier != kNobody) add(barrier, event.txn, kPass);
  }
}

void DependencyGraph::sort_edges() {
  WEFT_CHECK(edges_.size() < kNobody, "edges are numbered with 32 bits");
  begin_.assign(nodes_ + 1, 0);
  for (const Edge& edge : edges_) ++begin_[edge.from + 1];
  for (uint32_t n = 0; n < nodes_; ++n) begin_[n + 1] += begin_[n];
  std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
  std::vector<Edge> sorted(edges_.size());
  for (const Edge& edge : edges_) sorted[next[edge.from]++] = edge;
  edges_ = std::move(sorted);
}

}  // namespace weft::checking
