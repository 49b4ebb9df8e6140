// The messages of scans, as bytes: the decoders believe no length, no table and no range.
#pragma once

#include "weft/base/bytes.h"
#include "weft/fabric/message.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/scan_page.h"

namespace weft {

constexpr size_t scan_bounds_bytes(size_t from, size_t to) { return padded(from) + padded(to); }
// Writes both; returns the end. The padding is 0.
std::byte* put_bounds(std::byte* to_bytes, ByteView from, ByteView to);

// A bound may be a key and one byte more: the first key above it.
PartitionId partition_of_range(const Table& table, ByteView from);

// What is asked of this node, which must be the primary of the range. False: no correct peer asks for it.
bool take_range(const WorkerContext& ctx, const Message& message, ScanRequest* request, PageRange* out);

// The scans of a kCheckScans. `rest`: what follows them, the bytes before it.
bool take_checks_size(const Message& message, size_t* rest);
bool take_check(const WorkerContext& ctx, const std::byte** at, const std::byte* end, ScanCheck* out, uint16_t* scan);

size_t check_bytes(const ScanCheck& check);
std::byte* put_check(std::byte* to, const ScanCheck& check, uint16_t scan);

}  // namespace weft
