// Messages of agents: they go to the handler that is set, in any epoch, and none to a peer that receives nothing.
#include "weft/txn/control_channel.h"

#include <string>
#include <vector>

#include "weft/txn/part_testing.h"

namespace weft {
namespace {

struct ControlAgent final : NodeAgentHook {
  bool step(uint64_t) override { return false; }
  uint64_t deadline_ns() const override { return UINT64_MAX; }
  void on_message(NodeId from, ByteView message) override { heard.emplace_back(from, std::string(as_text(message))); }
  std::vector<std::pair<NodeId, std::string>> heard;
};

class ControlChannelTest : public PartTest {
 protected:
  static Limits control_limits() {
    Limits limits;
    limits.credit_bytes = 64 << 10;
    return limits;
  }
  ControlChannelTest() : PartTest(control_limits()) {}

  bool hear(NodeId from, const std::string& text) {
    const ByteView bytes = as_bytes(text);
    return hand_over<&ControlChannel::parse, &ControlChannel::on_message>(channel_, from, Kind::kControl,
                                                                          {bytes.begin(), bytes.end()});
  }

  ControlChannel channel_{ctx_};
  ControlAgent agent_;
};

TEST_F(ControlChannelTest, BringsAMessageToTheAgentOfAnotherNode) {
  channel_.send(NodeId(2), as_bytes("lease"));
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, NodeId(2));
  EXPECT_EQ(got[0].kind, Kind::kControl);
  EXPECT_EQ(as_text(got[0].body), "lease");
}

// Leases are requested in views that not everybody has come to.
TEST_F(ControlChannelTest, NoEpochHoldsItsMessagesBack) {
  port_.set_epoch(Epoch(100));
  channel_.send(NodeId(1), as_bytes("lease"));
  deliver();
  EXPECT_EQ(take_received().size(), 1U);
}

TEST_F(ControlChannelTest, HandsWhatComesToTheAgentAsItIs) {
  channel_.set_agent(&agent_);
  EXPECT_EQ(channel_.agent(), &agent_);
  EXPECT_TRUE(hear(NodeId(1), "a"));
  EXPECT_TRUE(hear(NodeId(2), "")) << "what makes sense is for the agent to say";
  ASSERT_EQ(agent_.heard.size(), 2U);
  EXPECT_EQ(agent_.heard[0].first, NodeId(1));
  EXPECT_EQ(agent_.heard[0].second, "a");
  EXPECT_EQ(agent_.heard[1].second, "");
}

TEST_F(ControlChannelTest, WithoutAnAgentNothingIsHeard) {
  EXPECT_TRUE(hear(NodeId(1), "a"));
  channel_.set_agent(&agent_);
  channel_.set_agent(nullptr);
  EXPECT_TRUE(hear(NodeId(1), "b"));
  EXPECT_TRUE(agent_.heard.empty());
}

TEST_F(ControlChannelTest, APeerThatTakesNothingIsSentNothingMoreUntilItDoes) {
  choke(NodeId(1), ctx_.limits.credit_bytes / 2);
  EXPECT_GT(channel_.queued_bytes(NodeId(1)), ctx_.limits.credit_bytes / 2);
  EXPECT_EQ(channel_.queued_bytes(NodeId(2)), 0U);
  channel_.send(NodeId(1), as_bytes("dropped"));
  channel_.send(NodeId(2), as_bytes("other"));
  const std::vector<Received> got = unchoke();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, NodeId(2));
  channel_.send(NodeId(1), as_bytes("again"));
  deliver();
  EXPECT_EQ(take_received().size(), 1U);
}

}  // namespace
}  // namespace weft
