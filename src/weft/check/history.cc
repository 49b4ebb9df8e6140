#include "weft/check/history.h"

#include <charconv>
#include <utility>

#include "weft/check/key_table.h"

namespace weft {
namespace {

template <class Integer>
void append_integer(Integer value, std::string& out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

void append_string(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_op(const TxnRecord::Op& op, std::string& out) {
  const bool append = op.kind == TxnRecord::Op::Kind::kAppend;
  out += append ? "[\"append\"," : "[\"r\",";
  append_string(op.key, out);
  out += ',';
  if (append) {
    append_integer(op.element, out);
  } else if (!op.list) {
    out += "null";
  } else {
    out += '[';
    for (size_t i = 0; i < op.list->size(); ++i) {
      if (i > 0) out += ',';
      append_integer((*op.list)[i], out);
    }
    out += ']';
  }
  out += ']';
}

std::string_view type_name(TxnRecord::Type type) {
  switch (type) {
    case TxnRecord::Type::kOk:
      return "ok";
    case TxnRecord::Type::kFail:
      return "fail";
    case TxnRecord::Type::kInfo:
      break;
  }
  return "info";
}

}  // namespace

TxnRecord::Op TxnRecord::Op::append(std::string key, int64_t element) {
  return Op{Kind::kAppend, std::move(key), element, std::nullopt};
}

TxnRecord::Op TxnRecord::Op::read(std::string key, std::optional<std::vector<int64_t>> list) {
  return Op{Kind::kRead, std::move(key), 0, std::move(list)};
}

void append_json(const TxnRecord& record, std::string& out) {
  out += "{\"process\":";
  append_integer(record.process, out);
  out += ",\"invoke\":";
  append_integer(record.invoke, out);
  out += ",\"complete\":";
  if (record.type == TxnRecord::Type::kInfo) {
    out += "null";
  } else {
    append_integer(record.complete, out);
  }
  out += ",\"type\":\"";
  out += type_name(record.type);
  out += "\",\"ops\":[";
  for (size_t i = 0; i < record.ops.size(); ++i) {
    if (i > 0) out += ',';
    append_op(record.ops[i], out);
  }
  out += "]}\n";
}

std::optional<std::string> fault_of(const TxnRecord& record) {
  using Type = TxnRecord::Type;
  if (record.type != Type::kInfo && record.complete < record.invoke) {
    return "expected a completion at or after invoke " + std::to_string(record.invoke) + ", found " +
           std::to_string(record.complete);
  }
  for (const TxnRecord::Op& op : record.ops) {
    if (op.kind != TxnRecord::Op::Kind::kRead) continue;
    if (record.type == Type::kOk && !op.list) {
      return "expected a list for the read of \"" + op.key + "\": an ok transaction knows what it read, found null";
    }
    if (record.type == Type::kInfo && op.list) {
      return "expected null for the read of \"" + op.key +
             "\": nobody knows what an info transaction read, found a list";
    }
  }
  return std::nullopt;
}

std::optional<DoubleAppend> double_append(const History& history) {
  size_t appends = 0;
  for (const TxnRecord& txn : history.txns) {
    for (const TxnRecord::Op& op : txn.ops) appends += op.kind == TxnRecord::Op::Kind::kAppend;
  }
  checking::KeyTable keys;
  checking::ElementMap<size_t> appended(appends);
  for (size_t t = 0; t < history.txns.size(); ++t) {
    for (const TxnRecord::Op& op : history.txns[t].ops) {
      if (op.kind != TxnRecord::Op::Kind::kAppend) continue;
      const auto [first, fresh] = appended.insert(keys.intern(op.key), op.element, t);
      if (!fresh) return DoubleAppend{*first, t, op.key, op.element};
    }
  }
  return std::nullopt;
}

std::string txn_name(size_t index) { return "T" + std::to_string(index + 1); }

}  // namespace weft
