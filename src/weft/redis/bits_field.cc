// BITFIELD: integers of any width at any offset in a string.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/redis/bits.h"
#include "weft/redis/command_text.h"

namespace weft {
namespace {

__extension__ using FieldValue = __int128;  // holds every sum of two 64-bit numbers

enum class Operation : uint8_t { kGet, kSet, kAdd };
enum class Overflow : uint8_t { kWrap, kSaturate, kFail };

struct FieldStep {
  Operation operation;
  Overflow overflow;
  bool is_signed;
  uint64_t bits;
  uint64_t at;
  int64_t amount;
};

bool parse_type(std::string_view text, FieldStep* step, RespWriter& reply) {
  step->is_signed = text.starts_with('i');
  const auto bits = text.empty() ? std::optional<int64_t>() : parse_integer(text.substr(1));
  const bool known = step->is_signed || text.starts_with('u');
  if (!known || !bits || *bits < 1 || *bits > (step->is_signed ? 64 : 63)) {
    reply.error("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
    return false;
  }
  step->bits = static_cast<uint64_t>(*bits);
  return true;
}

bool parse_overflow(std::string_view text, Overflow* overflow, RespWriter& reply) {
  if (same_word(text, "wrap")) {
    *overflow = Overflow::kWrap;
  } else if (same_word(text, "sat")) {
    *overflow = Overflow::kSaturate;
  } else if (same_word(text, "fail")) {
    *overflow = Overflow::kFail;
  } else {
    reply.error("ERR Invalid OVERFLOW type specified");
    return false;
  }
  return true;
}

bool parse(Arguments words, std::vector<FieldStep>* steps, RespWriter& reply) {
  Overflow overflow = Overflow::kWrap;
  for (size_t i = 0; i < words.size();) {
    const size_t rest = words.size() - i - 1;
    FieldStep step{};
    step.overflow = overflow;
    if (same_word(words[i], "get") && rest >= 2) {
      step.operation = Operation::kGet;
    } else if (same_word(words[i], "set") && rest >= 3) {
      step.operation = Operation::kSet;
    } else if (same_word(words[i], "incrby") && rest >= 3) {
      step.operation = Operation::kAdd;
    } else if (same_word(words[i], "overflow") && rest >= 1) {
      if (!parse_overflow(words[i + 1], &overflow, reply)) return false;
      i += 2;
      continue;
    } else {
      reply.error(kSyntaxError);
      return false;
    }
    if (!parse_type(words[i + 1], &step, reply)) return false;
    const auto at = bit_offset(words[i + 2], static_cast<int64_t>(step.bits), reply);
    if (!at) return false;
    step.at = *at;
    i += 3;
    if (step.operation != Operation::kGet) {
      const auto amount = integer_argument(words[i++], reply);
      if (!amount) return false;
      step.amount = *amount;
    }
    steps->push_back(step);
  }
  return true;
}

FieldValue read_field(std::string_view bytes, const FieldStep& step) {
  uint64_t value = 0;
  for (uint64_t i = 0; i < step.bits; ++i) value = value << 1 | (bit_at(bytes, step.at + i) ? 1 : 0);
  if (step.is_signed && step.bits < 64 && (value >> (step.bits - 1) & 1) != 0) value |= ~uint64_t{0} << step.bits;
  return step.is_signed ? FieldValue{static_cast<int64_t>(value)} : FieldValue{value};
}

void write_field(std::string& bytes, const FieldStep& step, FieldValue value) {
  const auto low = static_cast<uint64_t>(value);
  for (uint64_t i = 0; i < step.bits; ++i) set_bit(bytes, step.at + i, (low >> (step.bits - 1 - i) & 1) != 0);
}

// Brings the value into the range of the field by the overflow rule; false: it does not fit, and the rule is to fail.
// Redis computes in 64 bits how far a signed number is from the upper end: a SET far below the lower end counts as
// above it.
bool bring_into_range(const FieldStep& step, FieldValue* value) {
  const FieldValue high = (FieldValue{1} << (step.is_signed ? step.bits - 1 : step.bits)) - 1;
  const FieldValue low = step.is_signed ? -high - 1 : 0;
  if (*value >= low && *value <= high) return true;
  if (step.overflow == Overflow::kFail) return false;
  if (step.overflow == Overflow::kSaturate) {
    const bool far_below = step.is_signed && step.operation == Operation::kSet && high - *value > INT64_MAX;
    *value = *value > high || far_below ? high : low;
    return true;
  }
  const FieldValue size = FieldValue{1} << step.bits;
  FieldValue wrapped = *value % size;
  if (wrapped < 0) wrapped += size;
  *value = wrapped > high ? wrapped - size : wrapped;
  return true;
}

void run(std::string& bytes, const FieldStep& step, RespWriter& reply) {
  const FieldValue old = read_field(bytes, step);
  if (step.operation == Operation::kGet) return reply.integer(static_cast<int64_t>(old));
  const FieldValue given = step.is_signed ? FieldValue{step.amount} : FieldValue{static_cast<uint64_t>(step.amount)};
  FieldValue value = step.operation == Operation::kSet ? given : old + step.amount;
  if (!bring_into_range(step, &value)) return reply.null();
  reply.integer(static_cast<int64_t>(step.operation == Operation::kSet ? old : value));
  write_field(bytes, step, value);
}

void bitfield_of(Keyspace& keys, Arguments arguments, RespWriter& reply, bool reads_only) {
  std::vector<FieldStep> steps;
  if (!parse(arguments.subspan(2), &steps, reply)) return;
  uint64_t end = 0;  // of what is written, in bits
  for (const FieldStep& step : steps) {
    if (step.operation != Operation::kGet) end = std::max(end, step.at + step.bits);
  }
  if (end != 0 && reads_only) return reply.error("ERR BITFIELD_RO only supports the GET subcommand");
  Keyspace::Found old;
  if (!keys.find_string(arguments[1], &old, reply)) return;
  if (!old.exists) old = {};
  if (end != 0 && !keys.fits((end + 7) / 8, reply)) return;
  std::string bytes(old.bytes);
  bytes.resize(std::max<size_t>(bytes.size(), (end + 7) / 8));
  constexpr uint64_t kStepNs = 200;
  keys.add_work(steps.size() * kStepNs);
  reply.array(steps.size());
  for (const FieldStep& step : steps) run(bytes, step, reply);
  if (end != 0 && (!old.exists || bytes != old.bytes)) keys.put(arguments[1], bytes, old.deadline_ms, reply);
}

void bitfield(Keyspace& keys, Arguments arguments, RespWriter& reply) { bitfield_of(keys, arguments, reply, false); }
void bitfield_ro(Keyspace& keys, Arguments arguments, RespWriter& reply) { bitfield_of(keys, arguments, reply, true); }

constexpr Command kFieldCommands[] = {
    {"bitfield", -2, kWrites | kMayGrow, kOneKey, "bits", "integers of any width in a string (GET SET INCRBY OVERFLOW)",
     bitfield},
    {"bitfield_ro", -2, kFast, kOneKey, "bits", "BITFIELD with GET alone", bitfield_ro},
};

}  // namespace

std::span<const Command> field_commands() { return kFieldCommands; }

}  // namespace weft
