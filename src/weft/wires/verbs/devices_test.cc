// The reports on a machine without RDMA, as most machines that run these tests.
#include "weft/wires/verbs/devices.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/wires/verbs/nic.h"

namespace weft {
namespace {

void expect_words(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(VerbsLibraryTest, AMissingLibraryNamesThePackage) {
  const auto none = VerbsLibrary::load("libibverbs-that-is-not-there.so.1");
  ASSERT_FALSE(none);
  expect_words(none.error().text(), "libibverbs-that-is-not-there.so.1");
  expect_words(none.error().text(), "install Debian's packages libibverbs1 and ibverbs-providers");
}

TEST(VerbsLibraryTest, AnotherLibraryIsRefused) {
  const auto other = VerbsLibrary::load("libc.so.6");
  ASSERT_FALSE(other);
  expect_words(other.error().text(), "libc.so.6 has no ibv_get_device_list");
}

TEST(VerbsDevicesTest, WhatIsMissingComesWithTheFix) {
  const VerbsDevices found = verbs_devices();
  EXPECT_EQ(found.devices.empty(), !found.problem.empty());
  EXPECT_FALSE(verbs_lines(found).empty());
  if (found.devices.empty()) {
    EXPECT_EQ(found.names(), "none");
    if (const auto library = VerbsLibrary::load(); library) {
      const auto nic = VerbsNic::open(**library, {});
      ASSERT_FALSE(nic);
      EXPECT_EQ(nic.error().detail, found.problem);
    }
  }
}

VerbsGid gid(int index, const std::string& type, bool ipv4) {
  VerbsGid made;
  made.index = index;
  made.type = type;
  made.gid.raw[0] = ipv4 ? 0 : 0xfe;
  made.gid.raw[10] = made.gid.raw[11] = ipv4 ? 0xff : 0;
  made.gid.raw[15] = 1;
  return made;
}

TEST(VerbsDevicesTest, TheBestGidOfAPort) {
  VerbsPort port;
  EXPECT_EQ(port.best_gid(), nullptr);
  port.gids = {gid(0, "IB/RoCE v1", true), gid(1, "RoCE v2", false), gid(3, "RoCE v2", true), gid(4, "RoCE v2", true)};
  port.attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  EXPECT_EQ(port.best_gid()->index, 3) << "the first of RoCE v2 with an IPv4 address";
  port.gids.resize(2);
  EXPECT_EQ(port.best_gid()->index, 1);
  port.attributes.link_layer = IBV_LINK_LAYER_INFINIBAND;
  EXPECT_EQ(port.best_gid()->index, 0);
  EXPECT_EQ(port.find_gid(1)->index, 1);
  EXPECT_EQ(port.find_gid(2), nullptr);
}

}  // namespace
}  // namespace weft
