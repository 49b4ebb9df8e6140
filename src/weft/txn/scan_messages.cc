#include "weft/txn/scan_messages.h"

#include <algorithm>
#include <cstring>

namespace weft {

namespace {

// Whether these are the bounds of a range of an ordered table whose primary this node is.
bool is_range_here(const WorkerContext& ctx, uint16_t table_id, ByteView from, ByteView to, PartitionId* partition) {
  if (table_id >= ctx.tables.count()) return false;
  const Table& table = *ctx.tables.at(TableId(table_id));
  if (!table.ordered()) return false;
  const size_t most = size_t{ctx.limits.key_bytes_max} + 1;
  const auto fits = [&](ByteView bound) { return table.integer_keys() ? bound.size() == 8 : bound.size() <= most; };
  if (!fits(from) || !fits(to) || table.compare(from, to) >= 0 || !table.share_prefix(from, to)) return false;
  *partition = partition_of_range(table, from);
  return (ctx.views.roles()[partition->value] & kPrimary) != 0;
}

bool take_bounds(const std::byte** at, const std::byte* end, uint32_t from_bytes, uint32_t to_bytes, ByteView* from,
                 ByteView* to) {
  const size_t bytes = scan_bounds_bytes(from_bytes, to_bytes);
  if (static_cast<size_t>(end - *at) < bytes) return false;
  *from = {*at, from_bytes};
  *to = {*at + padded(from_bytes), to_bytes};
  *at += bytes;
  return true;
}

std::byte* put_padded(std::byte* to, ByteView bytes) {
  if (!bytes.empty()) store(to + padded(bytes.size()) - 8, uint64_t{0});
  std::memcpy(to, bytes.data(), bytes.size());
  return to + padded(bytes.size());
}

}  // namespace

std::byte* put_bounds(std::byte* to_bytes, ByteView from, ByteView to) {
  return put_padded(put_padded(to_bytes, from), to);
}

// What decides the partition is at the beginning of both.
PartitionId partition_of_range(const Table& table, ByteView from) {
  return table.hashed(from.first(std::min<size_t>(from.size(), kKeyBytesMax))).partition;
}

bool take_range(const WorkerContext& ctx, const Message& m, ScanRequest* request, PageRange* out) {
  if (m.body.size() < sizeof *request) return false;
  *request = load<ScanRequest>(m.body.data());
  const std::byte* at = m.body.data() + sizeof *request;
  const std::byte* const end = m.body.data() + m.body.size();
  if (!take_bounds(&at, end, request->from_bytes, request->to_bytes, &out->from, &out->to) || at != end) return false;
  if (request->items_max == 0 || !is_range_here(ctx, request->table, out->from, out->to, &out->partition)) return false;
  out->table = TableId(request->table);
  out->backward = request->backward != 0;
  out->items_max = request->items_max;
  out->bytes_max = request->room;
  return true;
}

bool take_checks_size(const Message& m, size_t* rest) {
  if (m.body.size() < sizeof(uint64_t)) return false;
  const auto bytes = load<uint64_t>(m.body.data());
  if (bytes == 0 || bytes % 8 != 0 || bytes > m.body.size() - sizeof(uint64_t)) return false;
  *rest = sizeof(uint64_t) + bytes;
  return true;
}

bool take_check(const WorkerContext& ctx, const std::byte** at, const std::byte* end, ScanCheck* out, uint16_t* scan) {
  if (static_cast<size_t>(end - *at) < sizeof(ScanCheckHead)) return false;
  const auto head = load<ScanCheckHead>(*at);
  *at += sizeof head;
  if (!take_bounds(at, end, head.from_bytes, head.to_bytes, &out->from, &out->to)) return false;
  if (!is_range_here(ctx, head.table, out->from, out->to, &out->partition)) return false;
  out->table = TableId(head.table);
  out->digest = {head.digest[0], head.digest[1]};
  out->items = head.items;
  out->has_erases = head.has_erases != 0;
  out->erases = head.erases;
  *scan = head.scan;
  return true;
}

size_t check_bytes(const ScanCheck& check) {
  return sizeof(ScanCheckHead) + scan_bounds_bytes(check.from.size(), check.to.size());
}

std::byte* put_check(std::byte* to, const ScanCheck& check, uint16_t scan) {
  ScanCheckHead head{};
  head.digest[0] = check.digest.low;
  head.digest[1] = check.digest.high;
  head.erases = check.erases;
  head.items = check.items;
  head.table = check.table.value;
  head.scan = scan;
  head.from_bytes = static_cast<uint32_t>(check.from.size());
  head.to_bytes = static_cast<uint32_t>(check.to.size()) & 0x7fffffffU;
  head.has_erases = check.has_erases ? 1 : 0;
  store(to, head);
  return put_bounds(to + sizeof head, check.from, check.to);
}

}  // namespace weft
