#include "weft/server/warnings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/server/address.h"

namespace weft {
namespace {

std::vector<std::string> warned(const std::string& listen, bool root = false, FabricKind kind = FabricKind::kTcp,
                                const TcpTlsFiles& tls = {}) {
  LoadedConfig loaded;
  loaded.config.fabric.kind = kind;
  loaded.config.fabric.listen = listen;
  loaded.config.fabric.tls = tls;
  std::vector<std::string> out;
  for (const StartWarning& warning : start_warnings(loaded, root)) out.emplace_back(warning.event);
  return out;
}

TEST(StartWarnings, AFabricThatOthersReachHasTls) {
  using Events = std::vector<std::string>;
  for (const char* listen : {"0.0.0.0:7400", "10.0.0.1:7400", "[::]:7400", "192.168.127.1:0"}) {
    EXPECT_EQ(warned(listen), Events{"fabric_without_tls"}) << listen;
    EXPECT_EQ(warned(listen, false, FabricKind::kVerbs), Events{"fabric_without_tls"}) << listen;
    EXPECT_EQ(warned(listen, false, FabricKind::kTcp, {"ca", "certificate", "key"}), Events()) << listen;
  }
  for (const char* listen : {"127.0.0.1:7400", "127.8.9.10:0", "[::1]:7400"}) EXPECT_EQ(warned(listen), Events());
  EXPECT_EQ(warned("@name", false, FabricKind::kShm), Events());
}

TEST(StartWarnings, RootIsSaid) {
  EXPECT_EQ(warned("127.0.0.1:7400", true), std::vector<std::string>{"running_as_root"});
}

TEST(StartWarnings, SoIsWhatTheFileIsAbout) {
  LoadedConfig loaded;
  loaded.config.fabric.listen = "127.0.0.1:7400";
  loaded.warnings = {"node.toml: something"};
  const std::vector<StartWarning> found = start_warnings(loaded, false);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].event, std::string("config_warning"));
  EXPECT_EQ(found[0].why, "node.toml: something");
}

}  // namespace
}  // namespace weft
