#include "weft/check/token.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "weft/base/random.h"

namespace weft {
namespace {

using Type = TxnRecord::Type;

// Two tokens; the first moves 1 -> 3 -> 5 while readers read.
TokenRun good_run() {
  return {.start = {{0, 1}, {1, 2}},
          .moves = {{.token = 0, .from = 1, .to = 3, .invoke = 10, .complete = 20},
                    {.token = 0, .from = 3, .to = 4, .invoke = 30, .complete = 35, .type = Type::kFail},
                    {.token = 0, .from = 3, .to = 5, .invoke = 40, .complete = 50}},
          .reads = {{5, 15, {{0, 1}, {1, 2}}}, {12, 30, {{1, 2}, {0, 3}}}, {60, 70, {{0, 5}, {1, 2}}}},
          .end = {{1, 2}, {0, 5}}};
}

std::string fault(const TokenRun& run) { return check_token(run).fault; }

TEST(Token, AGoodRun) {
  const TokenVerdict verdict = check_token(good_run());
  EXPECT_TRUE(verdict.valid()) << verdict.fault;
  EXPECT_EQ(verdict.reads, 3U);
  EXPECT_EQ(verdict.moves, 2U);
}

TEST(Token, I1EachTokenOnceAtEveryReader) {
  TokenRun run = good_run();
  run.reads[1].found.pop_back();
  EXPECT_EQ(fault(run), "the reader of 12 to 30 ns found 1 tokens of 2: token 0 is missing");
  run = good_run();
  run.reads[1].found.push_back({0, 1});
  EXPECT_EQ(fault(run), "the reader of 12 to 30 ns found 3 tokens of 2: token 0 on key 1 and on key 3");
  run = good_run();
  run.reads[2].found.push_back({2, 9});
  EXPECT_EQ(fault(run), "the reader of 60 to 70 ns found 3 tokens of 2: token 2 on key 9 is none of them");
  // The count is right and the tokens are not.
  run = good_run();
  run.reads[2].found[1] = {0, 3};
  EXPECT_EQ(fault(run), "the reader of 60 to 70 ns found 2 tokens of 2: token 0 on key 3 and on key 5");
  run.reads[2].found.clear();
  EXPECT_EQ(fault(run), "the reader of 60 to 70 ns found 0 tokens of 2: token 0 is missing");
}

TEST(Token, I1EachTokenOnceAtTheEnd) {
  TokenRun run = good_run();
  run.end.pop_back();
  EXPECT_EQ(fault(run), "the final state found 1 tokens of 2: token 0 is missing");
}

TEST(Token, I2OnlyWhereAMovePutIt) {
  TokenRun run = good_run();
  run.reads[2].found[0] = {0, 4};
  EXPECT_EQ(fault(run), "the reader of 60 to 70 ns found token 0 on key 4, where no move put it that did not fail");
  run = good_run();
  run.reads[0].found[0] = {0, 5};
  EXPECT_EQ(fault(run),
            "the reader of 5 to 15 ns found token 0 on key 5 and completed at 15, but the first move that put it there "
            "was invoked at 40");
}

TEST(Token, I3CommittedMovesExplainTheEnd) {
  TokenRun run = good_run();
  run.end[1] = {0, 3};  // the last committed move is lost
  EXPECT_EQ(fault(run),
            "token 0 on key 3: the start and the committed moves leave it there 0 times, the final state says 1");
  run = good_run();
  run.moves.push_back({.token = 1, .from = 2, .to = 2, .invoke = 80, .complete = 81});
  EXPECT_TRUE(check_token(run).valid());
  run.moves[1].type = Type::kOk;  // two moves take the token from key 3
  EXPECT_EQ(fault(run),
            "token 0 on key 3: the start and the committed moves leave it there -1 times, the final state says 0");
}

TEST(Token, AnUnknownMoveMayHaveHappened) {
  TokenRun run = good_run();
  run.moves[2].type = Type::kInfo;
  EXPECT_TRUE(check_token(run).valid()) << fault(run);
  run.reads[2].found[0] = {0, 3};
  run.end[1] = {0, 3};
  EXPECT_TRUE(check_token(run).valid()) << fault(run);
}

TEST(Token, RandomRunsAreRightAndDamagedOnesAreNot) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const uint64_t tokens = random.between(1, 8);
    TokenRun run;
    std::map<uint64_t, uint64_t> key_of;
    for (uint64_t t = 0; t < tokens; ++t) {
      key_of[t] = t;
      run.start.push_back({t, t});
    }
    const auto look = [&key_of] {
      std::vector<TokenAt> found;
      for (const auto& [token, key] : key_of) found.push_back({token, key});
      return found;
    };
    for (uint64_t moment = 1; moment <= 60; ++moment) {
      if (random.chance(50)) {
        run.reads.push_back({moment * 10 - 9, moment * 10 + 9, look()});
        continue;
      }
      const uint64_t token = random.below(tokens);
      const uint64_t to = 100 * token + random.below(20);
      const Type type = random.chance(80) ? Type::kOk : random.chance(50) ? Type::kFail : Type::kInfo;
      run.moves.push_back({token, key_of[token], to, moment * 10 - 9, moment * 10 + 9, type});
      if (type == Type::kOk || (type == Type::kInfo && random.chance(50))) key_of[token] = to;
    }
    run.reads.push_back({900, 910, look()});
    run.end = look();
    ASSERT_TRUE(check_token(run).valid()) << fault(run);

    std::vector<TokenAt>& found = run.reads[random.below(run.reads.size())].found;
    TokenAt& victim = found[random.below(found.size())];
    switch (random.below(3)) {
      case 0:
        found.erase(found.begin());
        break;
      case 1:
        found.push_back({victim.token, victim.key + 1});
        break;
      default:
        victim.key += 10000;
    }
    EXPECT_FALSE(check_token(run).valid());
  }
}

}  // namespace
}  // namespace weft
