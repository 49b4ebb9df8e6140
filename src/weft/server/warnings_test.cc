#include "weft/server/warnings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft {
namespace {

TEST(StartWarnings, RootIsSaid) {
  const std::vector<StartWarning> found = start_warnings({}, true);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].event, std::string("running_as_root"));
  EXPECT_TRUE(start_warnings({}, false).empty());
}

TEST(StartWarnings, SoIsWhatTheFileIsAbout) {
  LoadedConfig loaded;
  loaded.warnings = {"node.toml: something"};
  const std::vector<StartWarning> found = start_warnings(loaded, false);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].event, std::string("config_warning"));
  EXPECT_EQ(found[0].why, "node.toml: something");
}

}  // namespace
}  // namespace weft
