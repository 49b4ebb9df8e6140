#include "weft/check/checker.h"

#include <ostream>
#include <utility>

#include "weft/check/cycle_search.h"
#include "weft/check/dependency_graph.h"
#include "weft/check/direct_checks.h"
#include "weft/check/history_index.h"

namespace weft {
namespace {

using checking::DependencyGraph;
using checking::Edge;
using checking::HistoryIndex;
using checking::kNobody;

// The element that the transaction appended to the key and no read has: the end of an edge into an unseen chain.
std::string unseen_element(const HistoryIndex& index, uint32_t txn, uint32_t key) {
  for (const TxnRecord::Op& op : index.txn(txn).ops) {
    if (op.kind != TxnRecord::Op::Kind::kAppend || op.key != index.keys.name(key)) continue;
    if (index.appends[*index.append_of.find(key, op.element)].position == kNobody) return std::to_string(op.element);
  }
  return "";
}

std::string why(const HistoryIndex& index, const Edge& edge, uint32_t to) {
  const std::string from = txn_name(edge.from);
  const auto element = [&](uint32_t position) {
    return position < index.order_size(edge.key) ? std::to_string(index.order(edge.key)[position])
                                                 : unseen_element(index, to, edge.key);
  };
  switch (edge.kind) {
    case checking::kWw:
      return from + " appended " + element(edge.position) + " to " + index.key_text(edge.key) + " before " +
             txn_name(to) + " appended " + element(edge.position + 1);
    case checking::kWr:
      return from + " appended " + element(edge.position) + " to " + index.key_text(edge.key) + ", which " +
             txn_name(to) + " read";
    case checking::kRw:
      return from + " read " + index.key_text(edge.key) + " without " + element(edge.position) + ", which " +
             txn_name(to) + " appended";
    default:
      return from + " completed at " + std::to_string(index.txn(edge.from).complete) + ", before " + txn_name(to) +
             " was invoked at " + std::to_string(index.txn(to).invoke);
  }
}

// Turns the edges of a cycle into links between transactions: edges out of junctions are merged into the edge before.
// Begins with the transaction of the lowest number, so that equal cycles have equal texts.
std::vector<Verdict::Link> links_of(const HistoryIndex& index, const DependencyGraph& graph,
                                    const std::vector<uint32_t>& cycle) {
  std::vector<const Edge*> edges;
  for (const uint32_t e : cycle) {
    if (graph.edges()[e].from < graph.txns()) edges.push_back(&graph.edges()[e]);
  }
  size_t first = 0;
  for (size_t i = 1; i < edges.size(); ++i) {
    if (edges[i]->from < edges[first]->from) first = i;
  }
  std::vector<Verdict::Link> links;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = *edges[(first + i) % edges.size()];
    const uint32_t to = edges[(first + i + 1) % edges.size()]->from;
    links.push_back({edge.from, to, static_cast<Dependency>(edge.kind), why(index, edge, to)});
  }
  return links;
}

void classify(Verdict& verdict) {
  size_t rw = 0;
  bool wr = false;
  bool rt = false;
  for (const Verdict::Link& link : verdict.cycle) {
    rw += link.kind == Dependency::kRw;
    wr |= link.kind == Dependency::kWr;
    rt |= link.kind == Dependency::kRt;
    verdict.txns.push_back(link.from);
  }
  verdict.cycle_class = rw > 1 ? Anomaly::kG2 : rw == 1 ? Anomaly::kGSingle : wr ? Anomaly::kG1c : Anomaly::kG0;
  verdict.anomaly = rt ? Anomaly::kRealTime : verdict.cycle_class;
  verdict.summary = "a cycle of " + std::to_string(verdict.cycle.size()) + " transactions";
  if (rt) verdict.summary += ", " + std::string(anomaly_name(verdict.cycle_class)) + " but for real time";
}

Verdict check_cycles(const HistoryIndex& index) {
  const DependencyGraph graph(index);
  const std::vector<uint32_t> cycle = checking::CycleSearch(graph).find();
  Verdict verdict;
  if (cycle.empty()) return verdict;
  verdict.cycle = links_of(index, graph, cycle);
  classify(verdict);
  return verdict;
}

}  // namespace

Verdict check(const History& history) {
  HistoryIndex index(history);
  std::optional<Verdict> direct = checking::check_directly(index);
  Verdict verdict = direct ? std::move(*direct) : check_cycles(index);
  for (const TxnRecord& txn : history.txns) {
    verdict.ok += txn.type == TxnRecord::Type::kOk;
    verdict.fail += txn.type == TxnRecord::Type::kFail;
    verdict.info += txn.type == TxnRecord::Type::kInfo;
  }
  verdict.keys = index.keys.size();
  verdict.appends = index.appends.size();
  verdict.reads = index.reads;
  return verdict;
}

int run_check(const std::string& path, std::ostream& out, std::ostream& err) {
  const Result<History> history = read_history(path);
  if (!history) {
    err << history.error().detail << "\n";
    return 2;
  }
  const Verdict verdict = check(*history);
  out << describe(verdict, *history);
  return verdict.valid() ? 0 : 1;
}

}  // namespace weft
