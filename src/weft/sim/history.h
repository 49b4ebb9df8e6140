// What a simulation records, as plain data. A sink receives it during the run; others check it.
//
// Times are virtual nanoseconds, made strictly increasing. A simulation does one thing after another, so the order of
// the times is the order in which things happened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

enum class SimOutcome : uint8_t { kOk, kFail, kInfo };  // committed, never happened, unknown

// A transaction of the list-append workload.
struct SimTxn {
  struct Op {
    bool append = false;
    std::string key;
    uint64_t element = 0;        // of an append
    std::vector<uint64_t> list;  // that a read returned; only in committed transactions
  };
  uint64_t process = 0;
  uint64_t invoke = 0;
  uint64_t complete = 0;
  SimOutcome outcome = SimOutcome::kOk;
  std::vector<Op> ops;
};

struct SimTokenAt {
  uint64_t token = 0;
  uint64_t key = 0;
};

struct SimTokenMove {
  uint64_t token = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t invoke = 0;
  uint64_t complete = 0;
  SimOutcome outcome = SimOutcome::kOk;
};

// A committed transaction that read all keys.
struct SimTokenRead {
  uint64_t invoke = 0;
  uint64_t complete = 0;
  std::vector<SimTokenAt> found;
};

class HistorySink {
 public:
  virtual ~HistorySink() = default;
  virtual void txn(const SimTxn& txn) = 0;
  virtual void token_start(const std::vector<SimTokenAt>& tokens) = 0;
  virtual void token_move(const SimTokenMove& move) = 0;
  virtual void token_read(const SimTokenRead& read) = 0;
  virtual void token_end(const std::vector<SimTokenAt>& tokens) = 0;
};

}  // namespace weft
