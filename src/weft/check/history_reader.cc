// The reader of histories: a strict parser for this one format, by hand because a history is read element by element
// and a general JSON tree costs several times the check itself. Fields may come in any order, each exactly once;
// numbers are integers; a line is a transaction and nothing else.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "weft/check/history.h"

namespace weft {
namespace {

class LineParser {
 public:
  explicit LineParser(std::string_view line) : begin_(line.data()), at_(begin_), end_(begin_ + line.size()) {}

  // Parses the whole line as one transaction. On failure fault() says what was expected, what was found and where.
  bool parse(TxnRecord& out);
  const std::string& fault() const { return fault_; }

 private:
  enum Field : unsigned { kProcess, kInvoke, kComplete, kType, kOps, kFields };

  bool fail(std::string_view expected);
  bool fail_at(const char* where, std::string_view expected);
  void space();
  bool take(char c);
  bool expect(char c, std::string_view expected);
  bool word(std::string_view text);
  template <class Integer>
  bool integer(Integer& out, std::string_view expected);
  bool string(std::string& out, std::string_view expected);
  bool escape(std::string& out);
  bool hex4(unsigned& out);
  bool field(TxnRecord& out);
  bool type(TxnRecord& out);
  bool ops(TxnRecord& out);
  bool op(TxnRecord::Op& out);
  bool list(TxnRecord::Op& out);

  const char* begin_;
  const char* at_;
  const char* end_;
  unsigned seen_ = 0;           // bit per Field
  bool no_completion_ = false;  // "complete" was null
  std::string scratch_;         // field and operation names
  std::vector<int64_t> elements_;
  std::string fault_;
};

constexpr std::string_view kFieldNames[] = {"process", "invoke", "complete", "type", "ops"};

bool LineParser::fail_at(const char* where, std::string_view expected) {
  at_ = where;
  return fail(expected);
}

bool LineParser::fail(std::string_view expected) {
  fault_ = "expected " + std::string(expected) + ", found ";
  const auto byte = at_ < end_ ? static_cast<unsigned char>(*at_) : 0;
  if (at_ == end_) {
    fault_ += "the end of the line";
  } else if (byte >= 0x20 && byte < 0x7f) {
    fault_ += '\'';
    fault_ += *at_;
    fault_ += '\'';
  } else {
    fault_ += "byte " + std::to_string(byte);
  }
  fault_ += " at column " + std::to_string(at_ - begin_ + 1);
  return false;
}

void LineParser::space() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
}

bool LineParser::take(char c) {
  space();
  if (at_ == end_ || *at_ != c) return false;
  ++at_;
  return true;
}

bool LineParser::expect(char c, std::string_view expected) { return take(c) || fail(expected); }

bool LineParser::word(std::string_view text) {
  space();
  if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

template <class Integer>
bool LineParser::integer(Integer& out, std::string_view expected) {
  space();
  const char* start = at_;
  const auto [rest, error] = std::from_chars(at_, end_, out);
  if (error == std::errc::result_out_of_range) return fail(std::string(expected) + " that fits 64 bits");
  if (error != std::errc()) return fail(expected);
  const char* digit = *start == '-' ? start + 1 : start;
  if (*digit == '0' && rest != digit + 1) return fail(std::string(expected) + " without leading zeros");
  at_ = rest;
  if (at_ < end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E'))
    return fail(std::string(expected) + " without a fraction");
  return true;
}

bool LineParser::hex4(unsigned& out) {
  if (end_ - at_ < 4) return fail_at(end_, "four hexadecimal digits");
  const auto [rest, error] = std::from_chars(at_, at_ + 4, out, 16);
  if (error != std::errc() || rest != at_ + 4) return fail("four hexadecimal digits");
  at_ = rest;
  return true;
}

bool LineParser::escape(std::string& out) {
  constexpr std::string_view kFrom = "\"\\/bfnrt";
  constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
  const size_t simple = at_ < end_ ? kFrom.find(*at_) : std::string_view::npos;
  if (simple != std::string_view::npos) {
    out += kTo[simple];
    ++at_;
    return true;
  }
  if (at_ == end_ || *at_ != 'u') return fail("an escape of JSON after '\\'");
  ++at_;
  unsigned code = 0;
  if (!hex4(code)) return false;
  if (code >= 0xdc00 && code < 0xe000) return fail("a high surrogate before a low one");
  if (code >= 0xd800 && code < 0xdc00) {
    unsigned low = 0;
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with("\\u")) return fail("a low surrogate");
    at_ += 2;
    if (!hex4(low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return fail("a low surrogate");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  const auto put = [&out](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
  return true;
}

bool LineParser::string(std::string& out, std::string_view expected) {
  if (!expect('"', expected)) return false;
  out.clear();
  while (at_ < end_) {
    const char* plain = at_;
    while (at_ < end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20) ++at_;
    out.append(plain, at_);
    if (at_ == end_) break;
    if (*at_ == '"') {
      ++at_;
      return true;
    }
    if (*at_ != '\\') return fail("control characters to be escaped");
    ++at_;
    if (!escape(out)) return false;
  }
  return fail("'\"' at the end of a string");
}

bool LineParser::type(TxnRecord& out) {
  space();
  const char* start = at_;
  constexpr std::string_view kExpected = "a type: \"ok\", \"fail\" or \"info\"";
  if (!string(scratch_, kExpected)) return false;
  if (scratch_ == "ok") {
    out.type = TxnRecord::Type::kOk;
  } else if (scratch_ == "fail") {
    out.type = TxnRecord::Type::kFail;
  } else if (scratch_ == "info") {
    out.type = TxnRecord::Type::kInfo;
  } else {
    return fail_at(start, kExpected);
  }
  return true;
}

bool LineParser::list(TxnRecord::Op& out) {
  if (word("null")) {
    out.list = std::nullopt;
    return true;
  }
  if (!expect('[', "a list of elements or null")) return false;
  elements_.clear();
  if (!take(']')) {
    do {
      if (!integer(elements_.emplace_back(), "an integer element")) return false;
    } while (take(','));
    if (!expect(']', "',' or ']' after an element")) return false;
  }
  out.list.emplace(elements_);
  return true;
}

bool LineParser::op(TxnRecord::Op& out) {
  constexpr std::string_view kExpected = "an operation: \"append\" or \"r\"";
  if (!expect('[', "'[' of an operation")) return false;
  space();
  const char* start = at_;
  if (!string(scratch_, kExpected)) return false;
  const bool append = scratch_ == "append";
  if (!append && scratch_ != "r") return fail_at(start, kExpected);
  out.kind = append ? TxnRecord::Op::Kind::kAppend : TxnRecord::Op::Kind::kRead;
  if (!expect(',', "',' and a key") || !string(out.key, "a key as a string")) return false;
  if (!expect(',', append ? "',' and an element" : "',' and a list or null")) return false;
  if (!(append ? integer(out.element, "an integer element") : list(out))) return false;
  return expect(']', "']' after an operation");
}

bool LineParser::ops(TxnRecord& out) {
  if (!expect('[', "a list of operations")) return false;
  if (take(']')) return true;
  do {
    if (!op(out.ops.emplace_back())) return false;
  } while (take(','));
  return expect(']', "',' or ']' after an operation");
}

bool LineParser::field(TxnRecord& out) {
  space();
  const char* start = at_;
  if (!string(scratch_, "a field name")) return false;
  unsigned which = 0;
  while (which < kFields && kFieldNames[which] != scratch_) ++which;
  if (which == kFields) return fail_at(start, "a field: process, invoke, complete, type or ops");
  if (seen_ >> which & 1) return fail_at(start, "each field once");
  seen_ |= 1U << which;
  if (!expect(':', "':' after a field name")) return false;
  switch (which) {
    case kProcess:
      return integer(out.process, "a process number");
    case kInvoke:
      return integer(out.invoke, "a time in nanoseconds");
    case kComplete:
      no_completion_ = word("null");
      return no_completion_ || integer(out.complete, "a time in nanoseconds or null");
    case kType:
      return type(out);
    default:
      return ops(out);
  }
}

bool LineParser::parse(TxnRecord& out) {
  if (!expect('{', "'{' of a transaction")) return false;
  do {
    if (!field(out)) return false;
  } while (take(','));
  if (!expect('}', "',' or '}' after a field")) return false;
  space();
  if (at_ != end_) return fail("the end of the line after a transaction");
  for (unsigned which = 0; which < kFields; ++which) {
    if (!(seen_ >> which & 1)) return fail("a field \"" + std::string(kFieldNames[which]) + "\"");
  }
  if (no_completion_ && out.type != TxnRecord::Type::kInfo) {
    return fail("a completion time: only an info transaction has none");
  }
  if (auto fault = fault_of(out)) {
    fault_ = std::move(*fault);
    return false;
  }
  return true;
}

Error bad_line(std::string_view name, size_t line, std::string_view fault) {
  return {Code::kBadFile, std::string(name) + ":" + std::to_string(line) + ": " + std::string(fault)};
}

}  // namespace

Result<History> parse_history(std::string_view text, std::string_view name) {
  History history;
  if (text.empty()) return bad_line(name, 1, "expected a transaction, found the end of the file");
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    LineParser parser(text.substr(0, newline));
    if (!parser.parse(history.txns.emplace_back())) return bad_line(name, history.txns.size(), parser.fault());
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
  }
  if (const auto twice = double_append(history)) {
    return bad_line(name, twice->second + 1,
                    "expected an element not appended before: " + std::to_string(twice->element) + " to \"" +
                        twice->key + "\" is appended on line " + std::to_string(twice->first + 1) + " too");
  }
  return history;
}

Result<History> read_history(const std::string& path) {
  const auto fault = [&path](const char* what) {
    return Error{Code::kBadFile, path + ": cannot " + what + ": " + std::generic_category().message(errno)};
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return fault("open");
  std::string text;
  constexpr size_t kChunk = 1 << 20;
  for (;;) {
    const size_t old = text.size();
    text.resize(old + kChunk);
    const size_t got = std::fread(text.data() + old, 1, kChunk, file.get());
    text.resize(old + got);
    if (got < kChunk) break;
  }
  if (std::ferror(file.get()) != 0) return fault("read");
  return parse_history(text, path);
}

}  // namespace weft
