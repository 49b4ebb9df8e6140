// However a message is cut, its pieces are the bytes of the message; and a few are sent at a time.
#include "weft/txn/piece_sender.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/txn/commit_testing.h"
#include "weft/txn/piece.h"

namespace weft {
namespace {

class PieceSenderTest : public CommitTest {
 protected:
  // Messages that were put together from the pieces that peers received.
  struct Whole {
    NodeId at;
    Kind kind;
    uint32_t tag;
    uint32_t keys;
    size_t pieces = 0;
    std::vector<std::byte> body;
  };
  std::vector<Whole> put_together(const std::vector<Received>& got) {
    std::vector<Whole> out;
    for (const Received& one : got) {
      EXPECT_EQ(one.kind, Kind::kPiece);
      const auto header = one.as<PieceHeader>();
      if (header.offset == 0) {
        out.push_back({one.at, PieceHeader::kind_of(one.tag), header.tag, header.keys, 0, {}});
      }
      Whole* whole = nullptr;
      for (Whole& w : out) {
        if (w.at == one.at && w.body.size() == header.offset) whole = &w;
      }
      EXPECT_NE(whole, nullptr) << "pieces come in order";
      if (whole == nullptr) continue;
      whole->body.insert(whole->body.end(), one.body.begin() + sizeof header, one.body.end());
      whole->pieces += 1;
      EXPECT_LE(whole->body.size(), header.total);
    }
    return out;
  }
  TxnSlot& planned() {
    TxnSlot& slot = begin();
    put(slot, key_at(kOne), "a value");
    put(slot, key_at(kOne, 1), "");
    put(slot, key_at(kOne, 2), std::string(64, 'v'));
    put(slot, key_at(kTwo), "another one");
    slot.stage = TxnStage::kCommitting;
    slot.participants = planner_.plan(slot);
    slot.in_pieces = true;
    return slot;
  }
};

TEST_F(PieceSenderTest, ThePiecesOfAMessageAreItsBytes) {
  for (const uint32_t piece_bytes : {kPieceBytesLeast, 24U, 64U, kPieceBytesMax}) {
    PieceSender pieces(ctx_, piece_bytes);
    TxnSlot& slot = planned();
    for (const Phase phase : {Phase::kLock, Phase::kReplicate, Phase::kUnlock}) {
      const NodeSet nodes = node_set({1, 2});
      if (phase == Phase::kReplicate) slot.entry(0).base = slot.entry(1).base = Version(3);
      pieces.add(slot, phase, nodes);
      EXPECT_FALSE(pieces.empty());
      while (!pieces.empty()) {
        EXPECT_TRUE(pieces.step());
        port_.flush();
      }
      deliver();
      const std::vector<Whole> got = put_together(take_received());
      ASSERT_EQ(got.size(), 2U);
      for (const Whole& one : got) {
        std::vector<std::byte> expected(messages_.phase_bytes(slot, phase, one.at));
        messages_.encode_phase(expected.data(), slot, phase, one.at);
        EXPECT_EQ(one.body, expected) << piece_bytes << " " << static_cast<int>(phase);
        EXPECT_EQ(one.pieces, (expected.size() + piece_bytes - 1) / piece_bytes);
        EXPECT_EQ(one.tag, messages_.tag(slot));
      }
    }
    slot.stage = TxnStage::kExecuting;
    coordinator_.abort_by_client(slot, Code::kApplication);
    coordinator_.detach(slot);
    take_received();
  }
}

TEST_F(PieceSenderTest, ASlotThatIsAnothersByNowEndsIt) {
  PieceSender pieces(ctx_, kPieceBytesLeast);
  TxnSlot& slot = planned();
  pieces.add(slot, Phase::kLock, node_set({1}));
  slot.sequence += 1;
  EXPECT_FALSE(pieces.step());
  EXPECT_TRUE(pieces.empty());
  deliver();
  EXPECT_TRUE(take_received().empty());
  slot.sequence -= 1;
  pieces.add(slot, Phase::kLock, node_set({1, 2}));
  pieces.clear();
  EXPECT_TRUE(pieces.empty());
}

}  // namespace
}  // namespace weft
