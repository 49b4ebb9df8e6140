// Keyspace: the keys of a transaction as clients' commands see them: values with a type and a deadline, and no value
// whose deadline has passed.
//
// A command that finds an expired key deletes it in the same transaction, which commits only if the key is still as it
// was read. So nobody is told that a key is gone before it is, and two nodes whose clocks differ cannot give
// contradicting answers.
//
// A failure (a limit of the transaction, a failed read) is kept in code(): then the transaction must be aborted, and
// its replies are void.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weft/redis/resp.h"
#include "weft/redis/value.h"
#include "weft/txn.h"

namespace weft {

class RedisFrontend;

// Where a keyspace finds values and leaves writes, if not in a transaction of this worker (shipped_commands.h).
class KeyValues {
 public:
  virtual Value get(std::string_view key) = 0;  // as written, or else as read
  virtual Code put(std::string_view key, std::string_view stored, int64_t deadline_ms) = 0;
  virtual Code erase(std::string_view key) = 0;
  virtual size_t string_bytes_max() const = 0;  // of a string that is made here

 protected:
  ~KeyValues() = default;
};

class Keyspace {
 public:
  struct Found : StoredValue {
    bool exists = false;
    size_t length = 0;  // of the string; `bytes` may be only its beginning for a command that needs no values (kHeads)
  };

  // A key that was read for the commands, and where its value is. The bytes of its name are the command's own.
  struct ReadKey {
    std::string_view name;
    ReadHandle handle;
  };

  // `scratch` is used within calls only. `front` is notified of deadlines; nullptr: nothing is written.
  Keyspace(Txn* txn, TableId table, int64_t now_us, size_t string_bytes_max, std::string* scratch,
           RedisFrontend* front = nullptr)
      : txn_(txn),
        table_(table),
        now_us_(now_us),
        string_bytes_max_(string_bytes_max),
        scratch_(scratch),
        front_(front) {}

  Keyspace(KeyValues* values, int64_t now_us, size_t string_bytes_max, std::string* scratch)
      : values_(values), now_us_(now_us), string_bytes_max_(string_bytes_max), scratch_(scratch) {}

  int64_t now_us() const { return now_us_; }
  int64_t now_ms() const { return now_us_ / 1000; }
  size_t string_bytes_max() const { return string_bytes_max_; }
  Code code() const { return code_; }
  // What was read, in the order in which the commands will ask for it, as a rule: that saves looking for the keys.
  void set_read_keys(std::span<const ReadKey> keys) { read_keys_ = keys; }
  // Longer keys do not exist: who looks for one finds nothing.
  void set_key_bytes_max(size_t bytes) { key_bytes_max_ = bytes; }

  // The cost of the commands so far, in nanoseconds of a current processor, not counting replies: bytes written, and
  // what commands that examine more than they reply have added.
  uint64_t work_ns() const { return work_ns_; }
  void add_work(uint64_t ns) { work_ns_ += ns; }
  static constexpr uint64_t bytes_ns(uint64_t bytes) { return bytes / 4; }
  size_t bytes_of(std::string_view key) const;  // of the value that was read or written; 0 if there is none

  // Keys that commands which only read found, or did not find.
  void set_counts(bool on) { counts_ = on; }
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

  // The key has been read before, and that read is complete. The bytes are valid until the key is written.
  Found find(std::string_view key);
  // False: it holds something other than a string, and the reply says so.
  bool find_string(std::string_view key, Found* found, RespWriter& reply);

  // False: it exceeds a limit, and the reply says so.
  bool put(std::string_view key, std::string_view bytes, int64_t deadline_ms, RespWriter& reply);
  void put(std::string_view key, const StoredValue& value);  // a value that was found, or one that is no longer
  void erase(std::string_view key);                          // of a key that was found

  // A command with many values may pause between two of them when it has done enough for one turn. It is then run again
  // and goes on where it was; its transaction does not end before it has.
  bool pauses(size_t next) {
    if (work_ns_ - resumed_at_ns_ < kPauseNs) return false;
    paused_at_ = next;
    return true;
  }
  bool paused() const { return paused_at_ != 0; }
  size_t resume(size_t first) {  // where to go on: `first` if it did not pause
    const size_t at = paused_at_ != 0 ? paused_at_ : first;
    paused_at_ = 0;
    resumed_at_ns_ = work_ns_;
    return at;
  }

  // False: a string of that length exceeds the limit, and the reply says so. Asked before it is made.
  bool fits(uint64_t bytes, RespWriter& reply);

 private:
  Found find_any(std::string_view key);
  Value value_of(std::string_view key);
  ReadHandle handle_of(std::string_view key);
  void note(Code code) {
    if (code_ == Code::kOk) code_ = code;
  }

  Txn* const txn_ = nullptr;  // one of these two
  KeyValues* const values_ = nullptr;
  const TableId table_{};
  const int64_t now_us_;
  const size_t string_bytes_max_;
  std::string* const scratch_;
  RedisFrontend* const front_ = nullptr;
  size_t key_bytes_max_ = SIZE_MAX;
  std::span<const ReadKey> read_keys_;  // that nobody has asked for yet
  Code code_ = Code::kOk;
  uint64_t work_ns_ = 0;
  static constexpr uint64_t kPauseNs = 500'000;  // about a megabyte
  uint64_t resumed_at_ns_ = 0;
  size_t paused_at_ = 0;
  bool counts_ = false;
  uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace weft
