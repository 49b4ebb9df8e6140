// A stored procedure for tests, whose argument is what it does, word by word. A word is a letter and a key of table 0:
//
//   r5  reads it                    u5  appends "+" to it           p5  puts "put" without a read
//   i5  inserts "new" unread        e5  reads and erases it         x5  erases it unread
//   m5  reads it in another round   w5  inserts "late", named when it runs
//   b5  inserts and erases it, named when it runs
//   z5  reads it and appends "z", which it names when it runs       l5  puts 3,000 bytes
//   n5  puts it, although it was not announced
//   k5  reads it and refuses as if it was locked                    o5  reads it or the next one, in turn
//
// `no` refuses, `twice` has another result each time, `long` replies too much, `head5` reads the head of a value,
// `len5` too, and replies the value's length and its head, and `hint5` reads a hint. The reply is what it has read by
// r, u, z and m, each value or "-", in order.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "weft/txn.h"

namespace weft {

inline constexpr TableId kProcedureTable{0};
inline constexpr uint32_t kReplyMax = 64;

// f(word, key)
template <class F>
void for_words(std::string_view arguments, F f) {
  while (!arguments.empty()) {
    const size_t end = arguments.find(' ');
    const std::string_view word = arguments.substr(0, end);
    arguments.remove_prefix(end == std::string_view::npos ? arguments.size() : end + 1);
    const size_t digits = std::min(word.find_first_of("0123456789"), word.size());
    uint64_t key = 0;
    std::from_chars(word.data() + digits, word.data() + word.size(), key);
    f(word.substr(0, digits), key);
  }
}

inline void words_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  for_words(arguments, [&](std::string_view word, uint64_t key) {
    static uint64_t turns = 0;
    if (word == "r" || word == "z" || word == "k") keys.add(kProcedureTable, key);
    if (word == "o") keys.add(kProcedureTable, key + turns++ % 2);
    if (word == "u" || word == "e" || word == "l") keys.add(kProcedureTable, key, Intent::kUpdate);
    if (word == "p" || word == "i" || word == "x") keys.will_write(kProcedureTable, key);
    if (word == "head" || word == "len") keys.add(kProcedureTable, key, Intent::kHead);
    if (word == "hint") keys.add(kProcedureTable, key, Intent::kHint);
  });
}

inline Code words_execute(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  static int runs = 0;
  size_t next = 0, more = 0;
  std::string reply;
  Code code = Code::kOk;
  for_words(arguments, [&](std::string_view word, uint64_t) {
    constexpr std::string_view kReads[] = {"r", "z", "k", "o", "u", "e", "l", "head", "len", "hint"};
    more += std::find(std::begin(kReads), std::end(kReads), word) != std::end(kReads) ? 1U : 0U;
  });
  for_words(arguments, [&](std::string_view word, uint64_t key) {
    const auto take = [&]() -> const Value& {
      reply += values[next].found ? std::string(values[next].bytes) : "-";
      return values[next++];
    };
    if (word == "no") code = Code::kApplication;
    if (word == "k") code = Code::kLocked;
    if (word == "twice") writes.put(kProcedureTable, key, std::to_string(++runs));
    if (word == "long") reply.assign(kReplyMax + 1, 'x');
    if (word == "r" || word == "hint" || word == "k" || word == "o") take();
    if (word == "len") {
      reply += std::to_string(values[next].length) + ":";
      reply += values[next++].bytes;
    }
    if (word == "head") reply += values[next++].bytes;
    if (word == "z") {
      writes.will_write(kProcedureTable, key);
      writes.put(kProcedureTable, key, std::string(take().bytes) + "z");
    }
    if (word == "u") writes.put(kProcedureTable, key, std::string(take().bytes) + "+");
    if (word == "e") {
      ++next;
      writes.erase(kProcedureTable, key);
    }
    if (word == "l") {
      take();
      writes.put(kProcedureTable, key, std::string(3000, 'l'));
    }
    if (word == "p") writes.put(kProcedureTable, key, "put");
    if (word == "i") writes.insert(kProcedureTable, key, "new");
    if (word == "x") writes.erase(kProcedureTable, key);
    if (word == "n") writes.put(kProcedureTable, key, "never");
    if (word == "b") {
      writes.will_write(kProcedureTable, key);
      writes.insert(kProcedureTable, key, "both");
      writes.erase(kProcedureTable, key);
    }
    if (word == "w") {
      writes.will_write(kProcedureTable, key);
      writes.insert(kProcedureTable, key, "late");
    }
    if (word == "m") {
      if (more < values.size()) {
        reply += values[more].found ? std::string(values[more].bytes) : "-";
      } else {
        writes.read_more(kProcedureTable, key);
      }
      ++more;
    }
  });
  writes.reply(reply);
  return code;
}

inline StoredProcedure words_procedure() {
  return {.name = "words", .keys = words_keys, .execute = words_execute, .reply_bytes_max = kReplyMax};
}

}  // namespace weft
