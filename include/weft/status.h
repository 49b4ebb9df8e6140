// Error codes, their texts, and whether a retry can help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace weft {

enum class Code : uint8_t {
  kOk,
  // Why a transaction aborted.
  kLocked,        // another transaction holds the key
  kVersionMoved,  // the key changed after it was read
  kNotFound,      // erase of a key that does not exist
  kExists,        // insert of a key that exists
  kEpoch,         // the view changed
  kApplication,   // the application said so
  // Why a transaction was rejected: nothing was started.
  kKeyTooLong,
  kValueTooLong,
  kTxnTooLarge,  // too many keys or bytes in one transaction
  kTableFull,
  kBinFull,       // too many keys with colliding hashes
  kVersionLimit,  // a key was written 2^40 times
  kNoSuchTable,
  kNoSuchProcedure,
  kBusy,               // no budget (transactions in flight, credit, log space)
  kInvalidArgument,    // a call out of order, for example a put after commit
  kNotAnnounced,       // a stored procedure wrote a key that it had not announced
  kImpure,             // a stored procedure gave two results for the same values
  kReplyTooLong,       // of a stored procedure
  kNotOrdered,         // a scan of a table that keeps no order
  kScanTwoPartitions,  // a scan whose keys may be in several partitions
  kScanEmpty,          // a scan of no key: its limit is 0, or its end is not above its beginning
  kNotInThisRow,       // the transaction's protocol cannot do that
  kNoTransactions,     // the node runs no transactions
  kAskInstead,         // the node that was to execute a procedure cannot; it is executed here
  kPeerUnreachable,    // the node ends, or was removed from the view
  // The rest of the cluster did not answer.
  kNoAnswer,  // within Limits::answer_ms
  kPeerLost,  // the connection to a node is lost, but the node is still in the view
  // Configuration and input.
  kBadOption,
  kBadPacket,
  kBadFile,
  kNoMemory,
  kOs,
};
inline constexpr int kCodes = static_cast<int>(Code::kOs) + 1;

std::string_view code_name(Code code);  // "locked"
std::string_view code_text(Code code);  // "another transaction holds the key"
bool code_retryable(Code code);

struct Error {  // NOLINT(clang-analyzer-core.uninitialized.Assign): the analyser loses track in Result's variant
  Code code = Code::kOk;
  std::string detail;  // names the limit and the value, the key, the file and line
  std::string text() const;
};

// A value or an error. `if (!r) return r.error();`
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace weft
