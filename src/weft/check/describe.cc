// Verdicts for people.
#include <string>

#include "weft/check/checker.h"

namespace weft {
namespace {

constexpr size_t kElementsShown = 16;  // of a list; the rest is elided in the middle
constexpr size_t kOpsShown = 16;       // of a transaction

std::string list_text(const std::vector<int64_t>& list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ' ';
    if (list.size() > kElementsShown && i == kElementsShown / 2) {
      const size_t skipped = list.size() - kElementsShown;
      out += "... " + std::to_string(skipped) + " more ... ";
      i += skipped;
    }
    out += std::to_string(list[i]);
  }
  return out + "]";
}

std::string op_text(const TxnRecord::Op& op) {
  const std::string key = " \"" + op.key + "\" ";
  if (op.kind == TxnRecord::Op::Kind::kAppend) return "append" + key + std::to_string(op.element);
  return "r" + key + (op.list ? list_text(*op.list) : "null");
}

std::string txn_text(const TxnRecord& txn) {
  const bool info = txn.type == TxnRecord::Type::kInfo;
  std::string out = "process " + std::to_string(txn.process) + ", " + std::to_string(txn.invoke) + " to " +
                    (info ? "?" : std::to_string(txn.complete)) + " ns, " +
                    (info                               ? "info"
                     : txn.type == TxnRecord::Type::kOk ? "ok"
                                                        : "fail") +
                    ": ";
  for (size_t i = 0; i < txn.ops.size(); ++i) {
    if (i == kOpsShown) return out + "; ... " + std::to_string(txn.ops.size() - i) + " more";
    if (i > 0) out += "; ";
    out += op_text(txn.ops[i]);
  }
  return out;
}

}  // namespace

std::string_view anomaly_name(Anomaly anomaly) {
  switch (anomaly) {
    case Anomaly::kNone:
      return "none";
    case Anomaly::kDuplicateElement:
      return "duplicate element";
    case Anomaly::kNeverAppended:
      return "never-appended element";
    case Anomaly::kAbortedRead:
      return "aborted read (G1a)";
    case Anomaly::kInternal:
      return "internal inconsistency";
    case Anomaly::kInfoGone:
      return "info append seen and then gone";
    case Anomaly::kIncompatibleOrders:
      return "incompatible orders";
    case Anomaly::kIntermediateRead:
      return "intermediate read (G1b)";
    case Anomaly::kLostAppend:
      return "lost append";
    case Anomaly::kG0:
      return "G0";
    case Anomaly::kG1c:
      return "G1c";
    case Anomaly::kGSingle:
      return "G-single";
    case Anomaly::kG2:
      return "G2";
    case Anomaly::kRealTime:
      break;
  }
  return "real-time violation";
}

std::string_view dependency_name(Dependency dependency) {
  switch (dependency) {
    case Dependency::kWw:
      return "ww";
    case Dependency::kWr:
      return "wr";
    case Dependency::kRw:
      return "rw";
    case Dependency::kRt:
      break;
  }
  return "rt";
}

std::string describe(const Verdict& verdict, const History& history) {
  const std::string total = std::to_string(history.txns.size()) + " transactions (" + std::to_string(verdict.ok) +
                            " ok, " + std::to_string(verdict.fail) + " fail, " + std::to_string(verdict.info) +
                            " info), " + std::to_string(verdict.keys) + " keys, " + std::to_string(verdict.appends) +
                            " appends, " + std::to_string(verdict.reads) + " reads\n";
  if (verdict.valid()) return "valid: " + total;
  std::string out = "invalid: " + std::string(anomaly_name(verdict.anomaly)) + ": " + verdict.summary + "\n";
  for (const Verdict::Link& link : verdict.cycle) {
    out += "  " + txn_name(link.from) + " -" + std::string(dependency_name(link.kind)) + "-> " + txn_name(link.to) +
           ": " + link.why + "\n";
  }
  for (const size_t txn : verdict.txns) out += "  " + txn_name(txn) + ": " + txn_text(history.txns[txn]) + "\n";
  return out + "checked: " + total;
}

}  // namespace weft
