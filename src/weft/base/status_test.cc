#include "weft/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace weft {
namespace {

constexpr int kCodes = static_cast<int>(Code::kOs) + 1;

TEST(Status, EveryCodeHasItsOwnNameAndText) {
  std::set<std::string_view> names;
  std::set<std::string_view> texts;
  for (int i = 0; i < kCodes; ++i) {
    const Code code = static_cast<Code>(i);
    EXPECT_NE(code_name(code), "unknown-code") << i;
    EXPECT_TRUE(names.insert(code_name(code)).second) << code_name(code);
    EXPECT_TRUE(texts.insert(code_text(code)).second) << code_text(code);
  }
}

TEST(Status, ACodeOfAnotherVersionIsNamedNotTrusted) {
  EXPECT_EQ(code_name(static_cast<Code>(200)), "unknown-code");
  EXPECT_FALSE(code_retryable(static_cast<Code>(200)));
}

TEST(Status, OnlyWhatPassesByItselfIsRetryable) {
  std::set<std::string_view> retryable;
  for (int i = 0; i < kCodes; ++i) {
    if (code_retryable(static_cast<Code>(i))) retryable.insert(code_name(static_cast<Code>(i)));
  }
  EXPECT_EQ(retryable, (std::set<std::string_view>{"busy", "epoch", "locked", "peer-lost", "version-moved"}));
}

TEST(Status, TextNamesCodeMeaningAndDetail) {
  EXPECT_EQ((Error{Code::kLocked, "key 17 by node 2"}.text()),
            "locked: another transaction holds the key: key 17 by node 2");
  EXPECT_EQ((Error{Code::kBusy, ""}.text()), "busy: no budget for one more transaction");
}

TEST(Result, HoldsAValueOrAnError) {
  Result<std::string> good = std::string("abc");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->size(), 3U);
  *good += "d";
  EXPECT_EQ(*std::as_const(good), "abcd");

  const Result<std::string> bad = Error{Code::kBadFile, "line 3"};
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kBadFile);
  EXPECT_EQ(bad.error().detail, "line 3");
}

TEST(Result, HoldsWhatOnlyMoves) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(7);
  ASSERT_TRUE(r);
  const std::unique_ptr<int> taken = std::move(*r);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, OfNothing) {
  EXPECT_TRUE(Result<void>());
  const Result<void> bad = Error{Code::kPeerUnreachable, ""};
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kPeerUnreachable);
}

}  // namespace
}  // namespace weft
