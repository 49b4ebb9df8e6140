// H7: what an executor logs at backups is bounded by its own credit with them, until the coordinators have unlocked.
#include "weft/txn/ship_hostile_testing.h"

namespace weft {
namespace {

class ShipCredit : public ShipHostile {
 protected:
  // Ships from all slots while node 0, the backup, does not run. Returns how many were executed; the others were
  // refused.
  size_t ship_from_all_slots() {
    value_bytes_max_ = 4096;
    credit_bytes_ = 16 << 10;
    start();
    slots_ = txn_worker(2)->slots().size();
    for (size_t slot = 0; slot < slots_; ++slot) load_key(key_at(NodeId(2), static_cast<int>(slot)));
    first_ = 2;  // node 0 stands still
    size_t executed = 0;
    for (size_t slot = 0; slot < slots_; ++slot) {
      const Code code = ship_long(static_cast<uint8_t>(slot), 1);
      EXPECT_TRUE(code == Code::kOk || code == Code::kAskInstead) << code_text(code);
      executed += code == Code::kOk ? 1 : 0;
    }
    return executed;
  }
  // Ships what writes 3,000 bytes. Returns what its executor answers.
  Code ship_long(uint8_t slot, uint64_t sequence) {
    Ship one = words(words_of("l", key_at(NodeId(2), slot)));
    one.slot = slot;
    heard_.clear();
    ship(one, sequence);
    EXPECT_FALSE(closed(2));
    for (const Heard& heard : heard_) {
      if (heard.kind == Kind::kShipped) return static_cast<Code>(load<ShippedReply>(heard.body.data()).code);
    }
    ADD_FAILURE() << "no answer";
    return Code::kNoAnswer;
  }
  void load_key(uint64_t key) {
    for (const size_t n : {size_t{0}, size_t{2}}) {
      EXPECT_TRUE(nodes_[n]->load(kTable, as_bytes_of(key), as_bytes_of(key)));
    }
  }
  size_t slots_ = 0;
};

TEST_F(ShipCredit, LogsStayWithinTheExecutorsCredit) {
  const size_t executed = ship_from_all_slots();
  EXPECT_GT(executed, 0U);
  EXPECT_LE(executed * 3000, size_t{credit_bytes_});
  first_ = 0;
  steps(20);
  EXPECT_EQ(ship_long(20, 2), Code::kAskInstead) << "the backup has answered, and nobody knows here";
  unlock(1, kCommits);
  EXPECT_EQ(ship_long(20, 3), Code::kOk);
  EXPECT_EQ(ship_long(21, 3), Code::kAskInstead);
}

// It would log without bound for a backup that stands still.
TEST_F(ShipCredit, ThatIsHadBackAtOnceIsCaught) {
  bugs_.mask = static_cast<uint64_t>(PlantedBug::kCreditAtOnce);
  EXPECT_EQ(ship_from_all_slots(), slots_);
}

}  // namespace
}  // namespace weft
