#include "weft/redis/resp.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr std::string_view kEnd = "\r\n";

// A number as Redis writes it: no plus, no spaces, no leading zeros, no minus zero.
bool parse_number(std::string_view text, int64_t& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return false;
  const char first = text[text[0] == '-' ? 1 : 0];
  return first != '0' || text == "0";
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }  // isspace() of the C locale

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char unescaped(char c) {
  constexpr std::string_view kLetters = "nrtba", kMeant = "\n\r\t\b\a";
  const size_t at = kLetters.find(c);
  return at == std::string_view::npos ? c : kMeant[at];
}

}  // namespace

// Received bytes.

std::span<char> RespReader::room(size_t least) {
  retire();
  if (begin_ == end_) begin_ = at_ = seen_ = end_ = 0;
  if (capacity_ - end_ < least) {
    const size_t pending = end_ - begin_;
    // Moving pays if at least as much was consumed as is moved; otherwise allocate more memory.
    if (begin_ >= pending && capacity_ - pending >= least) {
      compact();
    } else {
      const size_t wanted = std::min(std::max({2 * capacity_, pending + least, kRoomBytes}), limits_.buffer_bytes_max);
      compact();
      if (wanted > capacity_) resize(wanted);
    }
  }
  return {memory_.get() + end_, capacity_ - end_};
}

void RespReader::filled(size_t bytes) {
  WEFT_CHECK(bytes <= capacity_ - end_, "no more comes than there was room for");
  end_ += bytes;
}

void RespReader::shrink() {
  retire();
  compact();
  if (left_ == 0) arguments_.shrink_to_fit();
  if (end_ == 0) {
    memory_.reset();
    capacity_ = 0;
  } else if (capacity_ > std::max(2 * end_, kRoomBytes)) {
    resize(end_);
  }
}

void RespReader::compact() {
  if (begin_ == 0) return;
  const auto from = reinterpret_cast<uintptr_t>(memory_.get()) + begin_;
  std::memmove(memory_.get(), memory_.get() + begin_, end_ - begin_);
  at_ -= begin_;
  seen_ -= begin_;
  end_ -= begin_;
  begin_ = 0;
  rebase(from);
}

bool RespReader::resize(size_t capacity) {
  const auto from = reinterpret_cast<uintptr_t>(memory_.get());
  auto* const memory = static_cast<char*>(std::realloc(memory_.get(), capacity));
  if (memory == nullptr) return false;
  static_cast<void>(memory_.release());
  memory_.reset(memory);
  capacity_ = capacity;
  rebase(from);
  return true;
}

// The arguments parsed so far were in memory that began at `from`; it begins at memory_ now.
void RespReader::rebase(uintptr_t from) {
  for (std::string_view& argument : arguments_) {
    argument = {memory_.get() + (reinterpret_cast<uintptr_t>(argument.data()) - from), argument.size()};
  }
}

// Parsing of commands.

void RespReader::retire() {
  if (!given_) return;
  given_ = false;
  begin_ = at_;
  arguments_.clear();
}

RespRead RespReader::next() {
  retire();
  if (!error_.empty()) return RespRead::kError;
  Step step = Step::kDone;
  while (step == Step::kDone && arguments_.size() + left_ == 0) {
    begin_ = at_;
    step = at_ == end_ ? Step::kMore : memory_.get()[at_] == '*' ? read_count() : read_inline();
  }
  if (step == Step::kDone && left_ != 0) step = read_arguments();
  if (step == Step::kMore && end_ - begin_ >= limits_.buffer_bytes_max) {
    step = fail("the command is too long: client.query_bytes_max is " + std::to_string(limits_.buffer_bytes_max));
  }
  if (step == Step::kFailed) return RespRead::kError;
  given_ = step == Step::kDone;
  return given_ ? RespRead::kCommand : RespRead::kMore;
}

RespReader::Step RespReader::fail(std::string_view what) {
  error_ = "Protocol error: " + std::string(what);
  arguments_.clear();
  return Step::kFailed;
}

// Done when `last` is at seen_. An unterminated line that may still become too long is not.
RespReader::Step RespReader::find(char last, std::string_view too_long) {
  const size_t limit = std::min(end_, at_ + limits_.line_bytes_max + 1);
  const char* const base = memory_.get();
  if (seen_ < limit) {
    const void* const found = std::memchr(base + seen_, last, limit - seen_);
    seen_ = found == nullptr ? limit : static_cast<size_t>(static_cast<const char*>(found) - base);
  }
  if (seen_ < limit) return Step::kDone;
  if (limit - at_ <= limits_.line_bytes_max) return Step::kMore;
  return fail(std::string(too_long) + ": the limit is " + std::to_string(limits_.line_bytes_max) + " bytes");
}

// "*3\r\n" or "$3\r\n" at at_: its number, from `low` to `high`, is the length `of` something.
RespReader::Step RespReader::number_line(std::string_view too_long, std::string_view of, int64_t low, size_t high,
                                         size_t& value) {
  if (const Step step = find('\r', too_long); step != Step::kDone) return step;
  if (seen_ + 1 == end_) return Step::kMore;
  const char* const base = memory_.get();
  int64_t number = 0;
  if (base[seen_ + 1] != '\n' || !parse_number({base + at_ + 1, seen_ - at_ - 1}, number) || number < low) {
    return fail("invalid " + std::string(of) + " length");
  }
  value = static_cast<size_t>(std::max<int64_t>(number, 0));
  if (value > high) {
    return fail((limits_.unauthenticated ? "unauthenticated " : "invalid ") + std::string(of) +
                " length: the limit is " + std::to_string(high) + ", this is " + std::to_string(value));
  }
  at_ = seen_ = seen_ + 2;
  return Step::kDone;
}

// Most counts have one or two digits: these are parsed directly. False: nothing was consumed, use number_line().
bool RespReader::short_count(size_t high, size_t& value) {
  constexpr size_t kBytes = 5;  // "$12\r\n"
  if (end_ - at_ < kBytes || limits_.line_bytes_max < kBytes) return false;
  const char* const text = memory_.get() + at_ + 1;
  const auto digit = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])) - '0'; };
  size_t number = digit(0);
  size_t digits = 1;
  if (number > 9) return false;
  if (number != 0 && digit(1) <= 9) {
    number = number * 10 + digit(1);
    digits = 2;
  }
  if (text[digits] != '\r' || text[digits + 1] != '\n' || number > high) return false;
  value = number;
  at_ = seen_ = at_ + 1 + digits + kEnd.size();
  return true;
}

RespReader::Step RespReader::read_count() {
  if (short_count(limits_.arguments_max, left_)) return Step::kDone;
  // An array of length 0 or -1 is ignored.
  return number_line("too big mbulk count string", "multibulk", INT64_MIN, limits_.arguments_max, left_);
}

RespReader::Step RespReader::read_arguments() {
  while (left_ != 0) {
    if (bulk_bytes_ == kNoBulk) {
      if (at_ == end_) return Step::kMore;
      const char kind = memory_.get()[at_];
      if (kind != '$') {
        return fail(std::string("expected '$', got '") + (kind >= ' ' && kind < 0x7f ? kind : '?') + "'");
      }
      size_t bytes = 0;
      if (!short_count(limits_.bulk_bytes_max, bytes)) {
        const Step step = number_line("too big bulk count string", "bulk", 0, limits_.bulk_bytes_max, bytes);
        if (step != Step::kDone) return step;
      }
      const size_t whole = at_ - begin_ + bytes + kEnd.size();
      if (whole > limits_.buffer_bytes_max) {
        return fail("the command is too long: client.query_bytes_max is " + std::to_string(limits_.buffer_bytes_max));
      }
      bulk_bytes_ = bytes;
    }
    if (end_ - at_ < bulk_bytes_ + kEnd.size()) return Step::kMore;
    const std::string_view argument(memory_.get() + at_, bulk_bytes_);
    if (std::memcmp(argument.data() + argument.size(), kEnd.data(), kEnd.size()) != 0) {
      return fail("a bulk string does not end with \\r\\n");
    }
    arguments_.push_back(argument);
    at_ = seen_ = at_ + bulk_bytes_ + kEnd.size();
    bulk_bytes_ = kNoBulk;
    --left_;
  }
  return Step::kDone;
}

RespReader::Step RespReader::read_inline() {
  if (const Step step = find('\n', "too big inline request"); step != Step::kDone) return step;
  char* const from = memory_.get() + at_;
  const char* end = memory_.get() + seen_;
  if (end != from && end[-1] == '\r') --end;
  if (!split_line(from, end)) return fail("unbalanced quotes in request");
  if (arguments_.size() > limits_.arguments_max) {
    return fail("too big inline request: the limit is " + std::to_string(limits_.arguments_max) +
                " arguments, these are " + std::to_string(arguments_.size()));
  }
  at_ = seen_ = seen_ + 1;
  return Step::kDone;
}

// The arguments of a line, unquoted in place. False if a quote is not closed, or something follows it directly.
bool RespReader::split_line(char* from, const char* end) {
  for (;;) {
    while (from != end && is_space(*from)) ++from;
    if (from == end) return true;
    if (!take_word(from, end)) return false;
  }
}

bool RespReader::take_word(char*& from, const char* end) {
  char* const word = from;
  char* to = from;  // never ahead of `from`
  char quote = 0;   // the open quote
  for (; from != end; ++from) {
    const char c = *from;
    const size_t rest = static_cast<size_t>(end - from) - 1;
    if (quote == 0) {
      if (c == ' ' || c == '\t' || c == '\r') break;  // sic: \v and \f separate only before a word
      if (c == '"' || c == '\'') {
        quote = c;
      } else {
        *to++ = c;
      }
    } else if (c == quote) {
      if (rest != 0 && !is_space(from[1])) return false;
      quote = 0;
      ++from;
      break;
    } else if (quote == '"' && c == '\\' && rest >= 3 && from[1] == 'x' && hex_digit(from[2]) >= 0 &&
               hex_digit(from[3]) >= 0) {
      *to++ = static_cast<char>(hex_digit(from[2]) * 16 + hex_digit(from[3]));
      from += 3;
    } else if (c == '\\' && rest >= 1 && (quote == '"' || from[1] == '\'')) {
      ++from;
      *to++ = quote == '"' ? unescaped(*from) : '\'';
    } else {
      *to++ = c;
    }
  }
  if (quote != 0) return false;
  arguments_.emplace_back(word, static_cast<size_t>(to - word));
  return true;
}

// Replies.

void RespWriter::line(char kind, std::string_view text) {
  const size_t from = out_->size() + 1;
  out_->push_back(kind);
  out_->append(text);
  const auto is_break = [](char c) { return c == '\r' || c == '\n'; };
  std::replace_if(out_->begin() + static_cast<ptrdiff_t>(from), out_->end(), is_break, ' ');
  out_->append(kEnd);
}

void RespWriter::number(char kind, int64_t value) {
  char digits[24];
  digits[0] = kind;
  char* const end = std::to_chars(digits + 1, std::end(digits) - 2, value).ptr;
  end[0] = '\r';
  end[1] = '\n';
  out_->append(digits, static_cast<size_t>(end + 2 - digits));
}

bool RespWriter::fits(size_t bytes) {
  over_ |= out_->size() > bytes_max_ || bytes > bytes_max_ - out_->size();
  return !over_;
}

void RespWriter::bulk(std::string_view bytes) {
  if (!fits(bytes.size())) return;
  number('$', static_cast<int64_t>(bytes.size()));
  const size_t all = out_->size() + bytes.size() + kEnd.size();
  if (all > out_->capacity()) out_->reserve(std::max(all, out_->size() * 2));  // else the end doubles a long string
  out_->append(bytes).append(kEnd);
}

void RespWriter::null() { out_->append(version_ >= 3 ? "_\r\n" : "$-1\r\n"); }
void RespWriter::null_array() { out_->append(version_ >= 3 ? "_\r\n" : "*-1\r\n"); }

void RespWriter::map(size_t pairs) { version_ >= 3 ? count('%', pairs) : array(2 * pairs); }

void RespWriter::boolean(bool value) {
  version_ >= 3 ? static_cast<void>(out_->append(value ? "#t\r\n" : "#f\r\n")) : integer(value ? 1 : 0);
}

void RespWriter::real(double value) {
  char digits[32];
  const char* const end = std::to_chars(digits, std::end(digits), value).ptr;
  const std::string_view text =
      std::isnan(value) ? std::string_view("nan") : std::string_view(digits, static_cast<size_t>(end - digits));
  version_ >= 3 ? line(',', text) : bulk(text);
}

void RespWriter::verbatim(std::string_view text) {
  if (version_ < 3) return bulk(text);
  if (!fits(text.size())) return;
  number('=', static_cast<int64_t>(text.size() + 4));
  out_->append("txt:").append(text).append(kEnd);
}

}  // namespace weft
