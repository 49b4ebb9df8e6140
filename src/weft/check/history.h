// A history: what transactions asked for and saw, in list-append style, one JSON object a line:
//
//   {"process":3,"invoke":1200,"complete":1900,"type":"ok","ops":[["append","x",5],["r","y",[1,4]]]}
//
// ok       it committed. Every read is the list the transaction saw; a key never appended to reads as [].
// fail     it never happened. What it read, list or null, is ignored.
// info     its outcome is unknown. Its reads are null, and "complete" is null or a number that orders nothing.
//
// Times are nanoseconds of one clock. An element is appended to a key at most once in a history, failed attempts
// included: that is how a read names its writers. Keys are bytes; those above 0x7f pass through as they are.
//
// Plain data and pure functions: any thread, one thread per history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.h"

namespace weft {

struct TxnRecord {
  enum class Type : uint8_t { kOk, kFail, kInfo };

  struct Op {
    enum class Kind : uint8_t { kAppend, kRead };

    Kind kind = Kind::kRead;
    std::string key;
    int64_t element = 0;                       // of an append
    std::optional<std::vector<int64_t>> list;  // of a read; nullopt is null

    static Op append(std::string key, int64_t element);
    static Op read(std::string key, std::optional<std::vector<int64_t>> list);
    friend bool operator==(const Op&, const Op&) = default;
  };

  uint64_t process = 0;
  uint64_t invoke = 0;
  uint64_t complete = 0;  // of an info transaction: ignored
  Type type = Type::kOk;
  std::vector<Op> ops;

  friend bool operator==(const TxnRecord&, const TxnRecord&) = default;
};

// In any order; transaction i is line i + 1 of a file.
struct History {
  std::vector<TxnRecord> txns;
};

// One line, newline included. An info transaction's completion is written as null.
void append_json(const TxnRecord& record, std::string& out);

// Which of the rules above a record breaks ("expected ..."), or nothing. The reader applies it to every line.
std::optional<std::string> fault_of(const TxnRecord& record);

// The first element appended to one key by two operations, if any.
struct DoubleAppend {
  size_t first = 0;  // transactions; equal if one appended it twice
  size_t second = 0;
  std::string key;
  int64_t element = 0;
};
std::optional<DoubleAppend> double_append(const History& history);

// Every fault of the input is Code::kBadFile with "NAME:LINE: expected ...".
Result<History> read_history(const std::string& path);
Result<History> parse_history(std::string_view text, std::string_view name);

// The name of the transaction with this index in a report.
std::string txn_name(size_t index);

}  // namespace weft
