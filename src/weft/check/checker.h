// Checks whether a list-append history is strictly serializable. It knows nothing of the store that produced the
// history.
//
// Every list read is a state of its key, so the longest read gives the order of a key's appends and every other read
// must be a prefix of it. From the orders follow the dependencies: ww (appended next), wr (read the append), rw (read
// the state just before the append), and rt (completed before the other was invoked). The history is strictly
// serializable only if they have no cycle. An append that nobody saw comes after every state that was read. An info
// transaction counts as committed if any of its appends was seen, and as nothing if not; it never completes, so it
// has no rt edge going out.
//
// Linear in the size of the history, but for sorting by time and, when a cycle exists, the search for a short one.
// Pure functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "weft/check/history.h"

namespace weft {

// A check reports the first it finds: first what a list shows by itself, then what one transaction shows, then what two
// show, and cycles last, from the strongest class to the weakest.
enum class Anomaly : uint8_t {
  kNone,
  kDuplicateElement,    // one element twice: in a read, or appended twice
  kNeverAppended,       // a read has an element that nobody appended
  kAbortedRead,         // G1a: a read has an element of a transaction that failed
  kInternal,            // a transaction's read, or the order of its appends, contradicts its own earlier operations
  kInfoGone,            // a read misses the append of an info transaction that an earlier read had
  kIncompatibleOrders,  // neither of two reads of a key is a prefix of the other
  kIntermediateRead,    // G1b: a read ends in an append its writer followed by another to the key
  kLostAppend,  // no read has an append of an ok transaction, though one was invoked after it completed; or reads have
                // only a later append of that transaction
  kG0,          // a cycle of ww
  kG1c,         // a cycle of ww and wr
  kGSingle,     // a cycle with exactly one rw
  kG2,          // a cycle with several rw
  kRealTime,    // a cycle that needs rt
};
std::string_view anomaly_name(Anomaly anomaly);  // "aborted read (G1a)"

enum class Dependency : uint8_t { kWw = 1, kWr = 2, kRw = 4, kRt = 8 };
std::string_view dependency_name(Dependency dependency);  // "ww"

struct Verdict {
  struct Link {
    size_t from = 0;  // indices of transactions, from 0
    size_t to = 0;
    Dependency kind = Dependency::kWw;
    std::string why;  // names the key and the elements, or the times
  };

  Anomaly anomaly = Anomaly::kNone;
  Anomaly cycle_class = Anomaly::kNone;  // kG0 to kG2 if there is a cycle: its class without its rt edges
  std::string summary;                   // one line: what was read where
  std::vector<Link> cycle;               // each link starts where the previous one ends
  std::vector<size_t> txns;              // the transactions that show it, in the order of the cycle

  // What was checked.
  size_t ok = 0;
  size_t fail = 0;
  size_t info = 0;
  size_t keys = 0;
  size_t appends = 0;
  size_t reads = 0;

  bool valid() const { return anomaly == Anomaly::kNone; }
};

Verdict check(const History& history);

// Several lines for a person: the anomaly, its cycle, the transactions. Transaction i is called T<i + 1>, after its
// line.
std::string describe(const Verdict& verdict, const History& history);

// What `weft check FILE` does. 0: valid, 1: an anomaly, 2: not a history.
int run_check(const std::string& path, std::ostream& out, std::ostream& err);

}  // namespace weft
