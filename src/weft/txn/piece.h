// Pieces: how the messages of a large commit travel. The bytes of such a message (messages.h) are cut wherever a piece
// is full, also within a value, and sent as kPiece messages in order, on one flow. piece_sender.h sends a few in each
// step of the worker; piece_receiver.h puts them together, and the message is there when its last piece is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/fabric/message.h"
#include "weft/txn/messages.h"

namespace weft {

// Starts every piece, whose tag is | 0 16 | kind of the message 8 | slot 8 |. What remains of its body is the message's
// body from `offset` on.
struct PieceHeader {
  uint32_t tag;     // of the message
  uint32_t total;   // bytes of its body, a multiple of 8
  uint32_t offset;  // of this piece in it
  uint32_t keys;    // that the message names

  static uint32_t piece_tag(uint8_t slot, Kind kind) { return slot | static_cast<uint32_t>(kind) << 8; }
  static uint8_t slot_of(uint32_t piece_tag) { return static_cast<uint8_t>(piece_tag); }
  static Kind kind_of(uint32_t piece_tag) { return static_cast<Kind>(static_cast<uint8_t>(piece_tag >> 8)); }
};
static_assert(sizeof(PieceHeader) == 16);

// A piece fills a packet; tests make smaller ones.
inline constexpr uint32_t kPieceBytesMax = kUnfragmentedBytesMax - sizeof(PieceHeader);
inline constexpr uint32_t kPieceBytesLeast = 16;  // a CommitRequest is not cut
static_assert(kPieceBytesMax % 8 == 0);
inline constexpr Flow kPieceFlow = Flow::kExecution;  // commit messages of others need not queue behind them

// Commits with more bytes of keys and values than this travel in pieces.
inline constexpr uint32_t kLargeCommitBytes = 256 << 10;

// What a worker does for large commits in one step: it sends pieces with this many bytes, and at a participant it
// installs keys until they have this many.
inline constexpr size_t kLargeStepBytes = 256 << 10;
// While so much of kPieceFlow waits for the wire to a peer, no more pieces are sent to it.
inline constexpr size_t kPieceWindowBytes = 128 << 10;

// What the headers of pieces of this size add to so many bytes, if each has a packet of its own.
inline constexpr size_t piece_overhead(size_t bytes, uint32_t piece_bytes) {
  return (bytes / piece_bytes + 1) * (sizeof(PacketHeader) + sizeof(MessageHeader) + sizeof(PieceHeader));
}

}  // namespace weft
