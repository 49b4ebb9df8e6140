#include "weft/check/history.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <string>

#include "weft/base/random.h"
#include "weft/check/random_history.h"

namespace weft {
namespace {

constexpr char kLine[] =
    R"({"process":3,"invoke":1200,"complete":1900,"type":"ok","ops":[["append","x",5],["r","y",[1,4]]]})";

std::string fault(std::string_view text) {
  const Result<History> history = parse_history(text, "h.jsonl");
  if (history) return "accepted";
  EXPECT_EQ(history.error().code, Code::kBadFile);
  return history.error().detail;
}

std::string ok_with(const std::string& ops) {
  return R"({"process":0,"invoke":1,"complete":2,"type":"ok","ops":)" + ops + "}";
}

TEST(History, ReadsTheDesignPagesExample) {
  const Result<History> history = parse_history(std::string(kLine) + "\n", "h");
  ASSERT_TRUE(history);
  ASSERT_EQ((*history).txns.size(), 1U);
  const TxnRecord& txn = (*history).txns[0];
  EXPECT_EQ(txn.process, 3U);
  EXPECT_EQ(txn.invoke, 1200U);
  EXPECT_EQ(txn.complete, 1900U);
  EXPECT_EQ(txn.type, TxnRecord::Type::kOk);
  ASSERT_EQ(txn.ops.size(), 2U);
  EXPECT_EQ(txn.ops[0], TxnRecord::Op::append("x", 5));
  EXPECT_EQ(txn.ops[1], TxnRecord::Op::read("y", std::vector<int64_t>{1, 4}));
  std::string again;
  append_json(txn, again);
  EXPECT_EQ(again, std::string(kLine) + "\n");
}

TEST(History, FieldsInAnyOrderSpacesAndMissingLastNewline) {
  const Result<History> history = parse_history(
      " { \"ops\" : [ [ \"r\" , \"x\" , [ ] ] ] , \"type\":\"ok\",\t\"complete\":2,\"invoke\":2,\"process\":0 } \r\n" +
          ok_with("[]"),
      "h");
  ASSERT_TRUE(history) << history.error().detail;
  EXPECT_EQ((*history).txns.size(), 2U);
  EXPECT_EQ((*history).txns[0].ops[0], TxnRecord::Op::read("x", std::vector<int64_t>{}));
}

TEST(History, InfoHasNoCompletion) {
  const Result<History> history = parse_history(
      R"({"process":1,"invoke":5,"complete":null,"type":"info","ops":[["r","x",null],["append","x",-7]]})", "h");
  ASSERT_TRUE(history) << history.error().detail;
  EXPECT_EQ((*history).txns[0].type, TxnRecord::Type::kInfo);
  EXPECT_EQ((*history).txns[0].ops[0], TxnRecord::Op::read("x", std::nullopt));
  EXPECT_EQ((*history).txns[0].ops[1], TxnRecord::Op::append("x", -7));
}

TEST(History, KeysSurviveTheirEscapes) {
  std::string key;
  for (int c = 1; c < 256; ++c) key += static_cast<char>(c);
  key += '\0';
  TxnRecord txn;
  txn.ops.push_back(TxnRecord::Op::append(key, std::numeric_limits<int64_t>::min()));
  txn.ops.push_back(TxnRecord::Op::append("", std::numeric_limits<int64_t>::max()));
  std::string line;
  append_json(txn, line);
  const Result<History> history = parse_history(line, "h");
  ASSERT_TRUE(history) << history.error().detail;
  EXPECT_EQ((*history).txns[0], txn);

  const Result<History> escapes =
      parse_history(ok_with(R"([["append","\"\\\/\b\f\n\r\t\u00e9\u20AC\ud83d\ude00",1]])"), "h");
  ASSERT_TRUE(escapes) << escapes.error().detail;
  EXPECT_EQ((*escapes).txns[0].ops[0].key, "\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(History, FaultsNameLineAndExpectation) {
  const std::string good = std::string(kLine) + "\n";
  EXPECT_EQ(fault(""), "h.jsonl:1: expected a transaction, found the end of the file");
  EXPECT_EQ(fault("\n"), "h.jsonl:1: expected '{' of a transaction, found the end of the line at column 1");
  EXPECT_EQ(fault(good + "\n"), "h.jsonl:2: expected '{' of a transaction, found the end of the line at column 1");
  EXPECT_EQ(fault(good + "garbage"), "h.jsonl:2: expected '{' of a transaction, found 'g' at column 1");
  EXPECT_EQ(fault("{}"), "h.jsonl:1: expected a field name, found '}' at column 2");
  EXPECT_EQ(fault(R"({"proces":1})"),
            "h.jsonl:1: expected a field: process, invoke, complete, type or ops, found '\"' at column 2");
  EXPECT_EQ(fault(R"({"process":1,"process":1})"), "h.jsonl:1: expected each field once, found '\"' at column 14");
  EXPECT_EQ(fault(R"({"process":1})"),
            "h.jsonl:1: expected a field \"invoke\", found the end of the line at column 14");
  EXPECT_EQ(fault(ok_with("[]") + "x"),
            "h.jsonl:1: expected the end of the line after a transaction, found 'x' at column 59");
  EXPECT_EQ(fault(ok_with("[]") + "\n\x01"), "h.jsonl:2: expected '{' of a transaction, found byte 1 at column 1");
}

TEST(History, FaultsOfOperations) {
  const auto expects = [](const std::string& ops, const std::string& expectation) {
    EXPECT_NE(fault(ok_with(ops)).find("expected " + expectation), std::string::npos) << fault(ok_with(ops));
  };
  expects("7", "a list of operations");
  expects("[7]", "'[' of an operation");
  expects(R"([["w","x",1]])", "an operation: \"append\" or \"r\"");
  expects(R"([["append",7,1]])", "a key as a string");
  expects(R"([["append","x"]])", "',' and an element");
  expects(R"([["append","x","5"]])", "an integer element");
  expects(R"([["append","x",[5]]])", "an integer element");
  expects(R"([["append","x",1.5]])", "an integer element without a fraction");
  expects(R"([["append","x",1e3]])", "an integer element without a fraction");
  expects(R"([["append","x",01]])", "an integer element without leading zeros");
  expects(R"([["append","x",+1]])", "an integer element");
  expects(R"([["append","x",9223372036854775808]])", "an integer element that fits 64 bits");
  expects(R"([["append","x",1,2]])", "']' after an operation");
  expects(R"([["append","x",1])", "',' or ']' after an operation");
  expects(R"([["r","x"]])", "',' and a list or null");
  expects(R"([["r","x",5]])", "a list of elements or null");
  expects(R"([["r","x",[1,]]])", "an integer element");
  expects(R"([["r","x",[1 2]]])", "',' or ']' after an element");
  expects(R"([["r","x",null]])", "a list for the read of \"x\"");
  expects("[[\"r\",\"x\ny\",[]]]", "'\"' at the end of a string");
  expects("[[\"r\",\"x\ty\",[]]]", "control characters to be escaped");
  expects(R"([["r","\x",[]]])", "an escape of JSON");
  expects(R"([["r","\u12",[]]])", "four hexadecimal digits");
  expects(R"([["r","\ud800",[]]])", "a low surrogate");
  expects(R"([["r","\ud800\u0041",[]]])", "a low surrogate");
  expects(R"([["r","\udc00",[]]])", "a high surrogate");
}

TEST(History, FaultsOfTransactions) {
  EXPECT_EQ(fault(R"({"process":0,"invoke":5,"complete":4,"type":"ok","ops":[]})"),
            "h.jsonl:1: expected a completion at or after invoke 5, found 4");
  EXPECT_NE(fault(R"({"process":0,"invoke":5,"complete":null,"type":"fail","ops":[]})").find("only an info"),
            std::string::npos);
  EXPECT_NE(fault(R"({"process":0,"invoke":5,"complete":6,"type":"maybe","ops":[]})")
                .find("expected a type: \"ok\", \"fail\" or \"info\""),
            std::string::npos);
  EXPECT_NE(fault(R"({"process":0,"invoke":5,"complete":6,"type":"info","ops":[["r","x",[1]]]})")
                .find("expected null for the read of \"x\""),
            std::string::npos);
  EXPECT_NE(fault(R"({"process":-1,"invoke":5,"complete":6,"type":"ok","ops":[]})").find("expected a process number"),
            std::string::npos);
}

TEST(History, AnElementIsAppendedOnce) {
  EXPECT_EQ(fault(ok_with(R"([["append","x",1],["append","y",1]])") + "\n" + ok_with(R"([["append","x",1]])")),
            "h.jsonl:2: expected an element not appended before: 1 to \"x\" is appended on line 1 too");
  EXPECT_EQ(fault(ok_with(R"([["append","x",1],["append","x",1]])")),
            "h.jsonl:1: expected an element not appended before: 1 to \"x\" is appended on line 1 too");
}

TEST(History, EveryPrefixOfALineIsRefused) {
  for (size_t n = 0; n < sizeof kLine - 1; ++n) {
    EXPECT_NE(fault(std::string_view(kLine).substr(0, n)), "accepted") << n;
  }
}

// Whatever the reader accepts, the writer writes in a form that the reader reads as the same.
void accepts_only_what_it_can_write(const std::string& text) {
  const Result<History> history = parse_history(text, "h");
  if (!history) {
    EXPECT_TRUE(history.error().detail.starts_with("h:")) << history.error().detail;
    EXPECT_NE(history.error().detail.find("expected "), std::string::npos) << history.error().detail;
    return;
  }
  std::string written;
  for (const TxnRecord& txn : (*history).txns) append_json(txn, written);
  Result<History> again = parse_history(written, "h");
  ASSERT_TRUE(again) << again.error().detail << "\n" << text;
  for (size_t t = 0; t < (*history).txns.size(); ++t) {
    TxnRecord expected = (*history).txns[t];
    if (expected.type == TxnRecord::Type::kInfo) expected.complete = 0;
    EXPECT_EQ((*again).txns[t], expected) << text;
  }
}

TEST(History, EveryByteReplacedByEveryByte) {
  for (size_t i = 0; i < sizeof kLine - 1; ++i) {
    for (int c = 0; c < 256; ++c) {
      std::string line = kLine;
      line[i] = static_cast<char>(c);
      accepts_only_what_it_can_write(line);
    }
  }
}

TEST(History, RandomDamage) {
  constexpr std::string_view kTokens[] = {"{",     "}",          "[",   "]",    ",",      ":",
                                          "\"",    "\\",         "\\u", "null", "\"ok\"", "\"info\"",
                                          "\"r\"", "\"append\"", "-",   "0",    "1",      "18446744073709551616",
                                          "\n",    " ",          "e",   "."};
  Random random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text =
        random.chance(50) ? std::string(kLine) + "\n" + ok_with(R"([["append","\u00e9",6]])") + "\n" : "";
    for (uint64_t n = random.between(1, 6); n > 0; --n) {
      const size_t at = random.below(text.size() + 1);
      switch (random.below(3)) {
        case 0:
          text.insert(at, kTokens[random.below(std::size(kTokens))]);
          break;
        case 1:
          text.erase(at, random.below(8));
          break;
        default:
          text.insert(at, text.substr(random.below(text.size() + 1), random.below(40)));
      }
    }
    accepts_only_what_it_can_write(text);
  }
}

TEST(History, RandomHistoriesSurviveTheFile) {
  const History history = checking::RandomHistory(11, {.txns = 300}).make();
  std::string text;
  for (const TxnRecord& txn : history.txns) append_json(txn, text);
  const std::string path = testing::TempDir() + "weft_history_" + std::to_string(getpid()) + ".jsonl";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  const Result<History> read = read_history(path);
  std::remove(path.c_str());
  ASSERT_TRUE(read) << read.error().detail;
  ASSERT_EQ((*read).txns.size(), history.txns.size());
  for (size_t t = 0; t < history.txns.size(); ++t) {
    TxnRecord expected = history.txns[t];
    if (expected.type == TxnRecord::Type::kInfo) expected.complete = 0;
    EXPECT_EQ((*read).txns[t], expected);
  }
}

TEST(History, AFileThatCannotBeRead) {
  const Result<History> missing = read_history("/nonexistent/h.jsonl");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().detail, "/nonexistent/h.jsonl: cannot open: No such file or directory");
  const Result<History> directory = read_history("/");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Code::kBadFile);
}

}  // namespace
}  // namespace weft
