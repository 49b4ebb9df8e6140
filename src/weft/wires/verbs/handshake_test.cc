#include "weft/wires/verbs/handshake.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/random.h"
#include "weft/fabric/region.h"

namespace weft {
namespace {

VerbsMessage sample(VerbsMessageKind kind) {
  VerbsMessage message;
  message.kind = kind;
  message.region = 3;
  message.grant = 5;
  message.asked = 7;
  message.region_key = 9;
  message.domain = Domain::kFar;
  message.region_base = uint64_t{1} << 40;
  message.region_bytes = 2 << 20;
  message.address = {17, 19, 21, IBV_MTU_1024, {}};
  message.address.gid.raw[15] = 23;
  return message;
}

TEST(VerbsHandshakeTest, WhatIsSaidIsHeard) {
  for (uint8_t kind = 1; kind <= 6; ++kind) {
    const VerbsMessage messages = sample(static_cast<VerbsMessageKind>(kind));
    const std::string bytes = verbs_encode(messages);
    ASSERT_EQ(bytes.size(), kVerbsMessageBytes);
    VerbsMessage heard;
    TcpFault fault;
    ASSERT_TRUE(verbs_decode(as_bytes(bytes), &heard, &fault)) << fault.text;
    EXPECT_EQ(verbs_encode(heard), bytes);
    EXPECT_EQ(heard.address.gid.raw[15], 23);
    EXPECT_EQ(heard.domain, Domain::kFar);
    EXPECT_EQ(heard.region_base, uint64_t{1} << 40);
  }
}

TEST(VerbsHandshakeTest, NonsenseIsNamed) {
  const auto refused = [](const std::string& bytes, const std::string& words) {
    VerbsMessage heard;
    TcpFault fault;
    EXPECT_FALSE(verbs_decode(as_bytes(bytes), &heard, &fault));
    EXPECT_NE(std::string(fault.text).find(words), std::string::npos) << fault.text;
  };
  const auto changed = [](VerbsMessageKind kind, auto change) {
    VerbsMessage message = sample(kind);
    change(message);
    return verbs_encode(message);
  };
  const std::string sound = verbs_encode(sample(VerbsMessageKind::kHello));
  refused({}, "0 bytes, must be 64");
  refused(sound.substr(1), "63 bytes, must be 64");
  refused(sound + "x", "65 bytes, must be 64");
  refused(changed(VerbsMessageKind::kGrant, [](auto& m) { m.version = 3; }),
          "verbs version is 3 at the other side and 2");
  refused(changed(VerbsMessageKind::kGrant, [](auto& m) { m.domain = static_cast<Domain>(kDomains); }),
          "access domain 2, must be below 2");
  refused(verbs_encode(sample(static_cast<VerbsMessageKind>(0))), "kind 0");
  refused(verbs_encode(sample(static_cast<VerbsMessageKind>(7))), "kind 7");
  refused(changed(VerbsMessageKind::kHello, [](auto& m) { m.address.number = 1 << 24; }), "queue pair 16777216");
  refused(changed(VerbsMessageKind::kAsk, [](auto& m) { m.address.number = 0; }), "queue pair 0");
  refused(changed(VerbsMessageKind::kOpen, [](auto& m) { m.address.sequence = 1 << 24; }), "from packet 16777216");
  refused(changed(VerbsMessageKind::kHello, [](auto& m) { m.address.mtu = 6; }), "an MTU of kind 6, must be 1 to 5");
  refused(changed(VerbsMessageKind::kHello, [](auto& m) { m.address.mtu = 0; }), "an MTU of kind 0");
  refused(changed(VerbsMessageKind::kRegion, [](auto& m) { m.region = Regions::kRegionsMax; }),
          "region 256, must be below 256");
  refused(changed(VerbsMessageKind::kRegion, [](auto& m) { m.region_base = ~uint64_t{0}; }), "goes round the end");
}

TEST(VerbsHandshakeTest, AnyBytesAreDecodedOrNamed) {
  Random random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = verbs_encode(sample(static_cast<VerbsMessageKind>(random.between(1, 6))));
    for (uint64_t n = random.between(1, 8); n != 0; --n)
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    VerbsMessage heard;
    TcpFault fault;
    if (verbs_decode(as_bytes(bytes), &heard, &fault)) {
      EXPECT_LT(heard.kind == VerbsMessageKind::kRegion ? heard.region : 0, Regions::kRegionsMax);
    } else {
      EXPECT_NE(fault.text[0], '\0');
    }
  }
}

}  // namespace
}  // namespace weft
