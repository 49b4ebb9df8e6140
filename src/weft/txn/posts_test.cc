// Posts on the local wire: bytes arrive, doorbells are shared, passive ones are confirmed, refused ones tried again.
#include "weft/txn/posts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/fabric/local.h"

namespace weft {
namespace {

constexpr NodeId kA(0);
constexpr NodeId kB(1);

class PostsTest : public testing::Test {
 protected:
  PostsTest() {
    target_ = std::move(*Region::create(1 << 20));
    own_ = std::move(*Region::create(1 << 20));
    regions_.add(target_.get());
    fabric_.set_regions(kB, &regions_);
    regions_.grant(kA);
    make({2, true, true});
  }
  void make(const PostOptions& options) {
    posts_ = std::make_unique<Posts>(options, fabric_.wire(kA, WorkerId(0)), nullptr, own_->base(), own_->bytes());
  }
  Post* write(uint64_t offset, uint64_t value, bool passive = false) {
    Post* post = posts_->make(Post::What::kInstall, kB, 3, 7, 0, 8);
    store(post->buffer, value);
    Verb verb;
    verb.kind = VerbKind::kWrite;
    verb.offset = offset;
    verb.bytes = 8;
    verb.local = post->buffer;
    post->add(verb);
    post->passive = passive;
    posts_->send(post);
    return post;
  }
  bool step(uint64_t now_ns = 0) {
    posts_->flush(now_ns);
    return posts_->poll(
        now_ns, [](void* self, Post& post) { static_cast<PostsTest*>(self)->answered_.push_back(post.what); }, this);
  }
  uint64_t at(uint64_t offset) const { return load<uint64_t>(target_->base() + offset); }

  LocalFabric fabric_{LocalOptions{.nodes = 2, .workers = 1}};
  std::unique_ptr<Region> target_, own_;
  Regions regions_;
  std::unique_ptr<Posts> posts_;
  std::vector<Post::What> answered_;
};

TEST_F(PostsTest, PostsOfOneStepShareADoorbell) {
  for (uint64_t i = 0; i < 10; ++i) write(i * 8, i + 1);
  EXPECT_TRUE(posts_->pending());
  step();
  EXPECT_EQ(answered_.size(), 10U);
  EXPECT_EQ(posts_->doorbells(), 1U);
  EXPECT_EQ(posts_->under_way(), 0U);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(at(i * 8), i + 1);
}

TEST_F(PostsTest, WithoutDoorbellBatchingEachHasItsOwn) {
  make({2, false, true});
  for (uint64_t i = 0; i < 10; ++i) write(i * 8, i + 1);
  step();
  EXPECT_EQ(posts_->doorbells(), 10U);
}

TEST_F(PostsTest, WithoutOutstandingRequestsATransactionHasOneUnderWay) {
  make({2, true, false});
  for (uint64_t i = 0; i < 3; ++i) write(i * 8, i + 1);
  step();
  EXPECT_EQ(answered_.size(), 1U);
  step();
  step();
  EXPECT_EQ(answered_.size(), 3U);
}

TEST_F(PostsTest, APassivePostIsConfirmedByALaterOne) {
  write(0, 1, true);
  step();
  EXPECT_EQ(at(0), 1U);
  EXPECT_TRUE(answered_.empty());
  write(8, 2);
  step();
  EXPECT_EQ(answered_.size(), 2U);
}

TEST_F(PostsTest, OrAskedForAfterAMillisecond) {
  write(0, 1, true);
  step(1000);
  EXPECT_EQ(posts_->deadline_ns(), 1000 + Posts::kPassiveNs);
  step(1000 + Posts::kPassiveNs - 1);
  EXPECT_TRUE(answered_.empty());
  step(1000 + Posts::kPassiveNs);
  EXPECT_EQ(answered_.size(), 1U);
  write(8, 2, true);
  step(2'000'000);
  EXPECT_EQ(answered_.size(), 1U);
  posts_->hurry();
  step(2'000'001);
  EXPECT_EQ(answered_.size(), 2U);
}

// Notes how large posts are, and how many of their verbs follow others.
class MeasuringWire final : public Wire {
 public:
  explicit MeasuringWire(Wire* wire) : wire_(wire) {}
  bool send(NodeId, Flow, ByteView) override { return false; }
  size_t poll(std::span<Packet>) override { return 0; }
  void release() override {}
  bool post(NodeId to, std::span<const Verb> verbs) override {
    size_t bytes = 0;
    for (const Verb& verb : verbs) bytes += verb.bytes, follow += verb.follows ? 1 : 0;
    most = std::max(most, bytes);
    return wire_->post(to, verbs);
  }
  size_t poll_completions(std::span<Completion> out) override { return wire_->poll_completions(out); }
  void reset(NodeId to) override { wire_->reset(to); }
  bool pending() const override { return wire_->pending(); }
  size_t most = 0;
  size_t follow = 0;

 private:
  Wire* const wire_;
};

TEST_F(PostsTest, ADoorbellStaysWithinWhatEveryWireTakes) {
  MeasuringWire wire(fabric_.wire(kA, WorkerId(0)));
  own_ = std::move(*Region::create(64 << 20));
  posts_ = std::make_unique<Posts>(PostOptions{2, true, true}, &wire, nullptr, own_->base(), own_->bytes());
  for (const size_t bytes : {size_t{8}, kVerbBytesMax / 4, kVerbBytesMax}) {
    for (int i = 0; i < 100; ++i) {
      Post* post = posts_->make(Post::What::kLog, kB, 3, 7, 0, Post::kVerbsMax * bytes);
      for (size_t v = 0; v < Post::kVerbsMax; ++v) {
        Verb verb;
        verb.kind = VerbKind::kRead;
        verb.bytes = static_cast<uint32_t>(bytes);
        verb.local = post->buffer + v * bytes;
        post->add(verb);
      }
      posts_->send(post);
    }
    step();
  }
  EXPECT_EQ(answered_.size(), 300U);
  EXPECT_GE(wire.most, Post::kVerbsMax * kVerbBytesMax);
  EXPECT_LE(wire.most, kPostBytesMax / 2);
  // Of a doorbell's posts each is for itself: nothing of one waits for another's.
  EXPECT_EQ(wire.follow, 300 * (Post::kVerbsMax - 1));
}

TEST_F(PostsTest, WhatIsRefusedIsTriedAgainInOrder) {
  regions_.revoke(kA);
  write(0, 1);
  write(0, 2);
  step(0);
  write(0, 3);
  step(1);
  EXPECT_TRUE(answered_.empty());
  EXPECT_EQ(at(0), 0U);
  regions_.grant(kA);
  step(Posts::kRetryNs);
  EXPECT_EQ(answered_.size(), 3U);
  EXPECT_EQ(at(0), 3U);
  EXPECT_EQ(posts_->under_way(), 0U);
}

TEST_F(PostsTest, WhatIsDroppedIsNotAnswered) {
  regions_.revoke(kA);
  write(0, 1);
  step(0);
  write(8, 2);
  posts_->drop();
  regions_.grant(kA);
  step(Posts::kRetryNs);
  EXPECT_TRUE(answered_.empty());
  EXPECT_EQ(posts_->under_way(), 0U);
  write(16, 3);
  step(Posts::kRetryNs + 1);
  EXPECT_EQ(at(16), 3U);
  EXPECT_EQ(at(0), 0U);
  EXPECT_EQ(at(8), 0U);
}

}  // namespace
}  // namespace weft
