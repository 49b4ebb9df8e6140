#include "weft/status.h"

#include <string>
#include <string_view>

namespace weft {
namespace {

struct Row {
  std::string_view name;
  std::string_view text;
  bool retryable = false;  // the same transaction can succeed when retried, without any other change
};

// A switch without a default, so that a code without a row does not compile. Codes also come off the wire, so an
// unknown number gets a row too.
constexpr Row row_of(Code code) {
  switch (code) {
    case Code::kOk:
      return {"ok", "done"};
    case Code::kLocked:
      return {"locked", "another transaction holds the key", true};
    case Code::kVersionMoved:
      return {"version-moved", "the key changed after it was read", true};
    case Code::kNotFound:
      return {"not-found", "the key is not there"};
    case Code::kExists:
      return {"exists", "the key is there already"};
    case Code::kEpoch:
      return {"epoch", "the view of the cluster changed", true};
    case Code::kApplication:
      return {"application", "the application aborted"};
    case Code::kKeyTooLong:
      return {"key-too-long", "the key is longer than its limit"};
    case Code::kValueTooLong:
      return {"value-too-long", "the value is longer than its limit"};
    case Code::kTxnTooLarge:
      return {"txn-too-large", "the transaction is over its limit of keys or bytes"};
    case Code::kTableFull:
      return {"table-full", "the table is at its limit"};
    case Code::kBinFull:
      return {"bin-full", "too many keys with colliding hashes"};
    case Code::kVersionLimit:
      return {"version-limit", "the key was written more often than a version can count"};
    case Code::kNoSuchTable:
      return {"no-such-table", "no table has this name"};
    case Code::kNoSuchProcedure:
      return {"no-such-procedure", "no procedure has this name"};
    case Code::kBusy:
      return {"busy", "no budget for one more transaction", true};
    case Code::kInvalidArgument:
      return {"misuse", "a call out of order"};
    case Code::kNotAnnounced:
      return {"not-announced", "the procedure wrote a key that it had not announced"};
    case Code::kImpure:
      return {"impure", "the procedure gave two results for the same values"};
    case Code::kReplyTooLong:
      return {"reply-too-long", "the procedure's reply is longer than its limit"};
    case Code::kNotOrdered:
      return {"not-ordered", "the table is not ordered, so it cannot be scanned"};
    case Code::kScanTwoPartitions:
      return {"scan-two-partitions", "the scan may lie in two partitions"};
    case Code::kScanEmpty:
      return {"scan-empty", "a scan of no key"};
    case Code::kNotInThisRow:
      return {"not-in-this-row", "the transaction's protocol cannot do that"};
    case Code::kNoTransactions:
      return {"no-transactions", "this node holds data and runs no transactions (node.roles)"};
    case Code::kAskInstead:
      return {"ask-instead", "the procedure cannot be executed at the other node"};
    case Code::kPeerUnreachable:
      return {"closed", "the node ends, or was removed from the view"};
    case Code::kNoAnswer:
      return {"no-answer", "no answer in time"};
    case Code::kPeerLost:
      return {"peer-lost", "the connection to a node is lost", true};
    case Code::kBadOption:
      return {"bad-option", "an option that does not hold"};
    case Code::kBadPacket:
      return {"bad-packet", "a packet that does not decode"};
    case Code::kBadFile:
      return {"bad-file", "a file that does not read"};
    case Code::kNoMemory:
      return {"no-memory", "the machine gave no memory"};
    case Code::kOs:
      return {"os", "the operating system refused"};
  }
  return {"unknown-code", "a code this version does not know"};
}

}  // namespace

std::string_view code_name(Code code) { return row_of(code).name; }
std::string_view code_text(Code code) { return row_of(code).text; }
bool code_retryable(Code code) { return row_of(code).retryable; }

std::string Error::text() const {
  std::string out(code_name(code));
  out.append(": ").append(code_text(code));
  if (!detail.empty()) out.append(": ").append(detail);
  return out;
}

}  // namespace weft
