// RecoveryLeader: the leader's side of recovery (recovery_types.h): gathers what the members know, decides every open
// transaction (decide.h), has every member write the decisions and then apply them, then makes the view active.
//
// Reports come in and messages go out through a RecoveryHost; it knows no port, no table and no worker.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/base/bytes.h"
#include "weft/member/view.h"
#include "weft/options.h"
#include "weft/txn/decide.h"
#include "weft/txn/recovery_types.h"

namespace weft {

class RecoveryLeader {
 public:
  // `open_max`: more transactions than one member can report.
  RecoveryLeader(std::shared_ptr<const View> view, const Limits& limits, PlantedBugs bugs, size_t open_max,
                 RecoveryHost* host);

  // A member's message, well-formed and of this epoch. Returns what is wrong with it, or nullptr.
  const char* on_message(NodeId from, const RecoveryHeader& header, ByteView keys);
  // Makes progress if possible. Returns true if it did something.
  bool step(uint64_t now_ns);

  bool done() const { return stage_ == Stage::kDone; }
  bool decides() const { return stage_ != Stage::kGather && stage_ != Stage::kDone; }

 private:
  enum class Stage : uint8_t { kGather, kDecide, kWrite, kApply, kBarrier, kDone };
  struct Finished {
    uint64_t sequence = 0;  // 0: none
    uint32_t incarnation = 0;
    bool committed = false;
  };
  struct Reported {
    RecoveryId id;
    OpenTransaction open;
    uint32_t before;  // the place after that of another transaction of the slot; 0: there is none
  };

  // The transaction as reported so far; nullptr: not yet.
  OpenTransaction* find(const RecoveryId& id);
  OpenTransaction& add(const RecoveryId& id);
  // Both return what is wrong, or nullptr.
  const char* hear_record(NodeId from, const RecoveryHeader& header, ByteView keys, OpenTransaction& open) const;
  const char* hear_keys(ByteView keys, int count, OpenTransaction& open) const;
  void decide_all();
  DecideFacts facts_of(const RecoveryId& id, const OpenTransaction& open) const;
  bool gather(uint64_t now_ns);
  bool send_decisions();
  void send_decision(NodeId to, const RecoveryId& id, const OpenTransaction& open);
  void tell_members(RecoveryStep step);

  const std::shared_ptr<const View> view_;
  const Limits limits_;
  const PlantedBugs bugs_;
  const size_t open_max_;
  RecoveryHost* const host_;
  Stage stage_ = Stage::kGather;
  const NodeSet members_;
  NodeSet waiting_;     // members that have not answered
  NodeSet was_active_;  // members that were active before
  uint64_t ask_again_ns_ = 0;
  std::array<size_t, kNodesMax + 1> reported_{};  // by member: transactions that it was the first to report
  std::deque<Reported> open_;
  std::vector<uint32_t> last_open_;  // by coordinator and slot: the place after that of its last one in open_; 0: none
  std::array<std::vector<Finished>, kNodesMax + 1> finished_;  // by member; by coordinator and slot
  // Sending decisions, in the order of their ids: the next node, and the next transaction.
  std::vector<const Reported*> decided_;
  uint8_t to_ = 0;
  size_t next_ = 0;
  std::vector<std::byte> bytes_;  // of the keys in the message that is being made
};

}  // namespace weft
