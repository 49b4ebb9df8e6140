// Log rings: where a coordinator's worker logs at another node by one-sided WRITEs. Each worker of a node has one ring
// for every node, in the node's verb region; the worker of the same index at that node writes it without help from this
// node.
//
// An entry is a header and a body, and the body is that of a Replicate message. The entry is there when its header has
// the next position and epoch, and the checksum over all of it matches; until then nothing is there, however much of it
// has landed, in whatever order. So an entry is complete or absent, what an earlier lap or view left in the memory is
// not taken for an entry, and nothing has to be cleared.
//
//   0          8      12     16     20   21       24        32
//   | position | epoch| bytes| tag  |skip| spare  | check   | body ...   padded to 8
//
// An entry does not wrap: if it does not fit before the end of the ring, the writer puts a header with `skip` there and
// goes on at the beginning. Every size is a multiple of 32, so there is always room for that header.
//
// Space: the writer reserves it before the first commit message (rule K3), twice the entry for what may be skipped. The
// reader reports from time to time how far it has read (RingRead, by message). Both start anew with every view.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

struct RingHeader {
  uint64_t position;  // since the view began
  uint32_t epoch;     // of the view
  uint32_t bytes;     // of the body; of a skip: the bytes skipped, this header included
  uint32_t tag;       // of the message
  uint8_t skip;
  uint8_t unused[3];
  uint64_t check;
};
static_assert(sizeof(RingHeader) == 32);

inline constexpr size_t kRingAlign = 32;

constexpr size_t ring_entry_bytes(size_t body) { return align_up(sizeof(RingHeader) + body, kRingAlign); }

// The writer's side of one ring: bookkeeping only; the caller writes by verbs.
class LogRingWriter {
 public:
  explicit LogRingWriter(size_t bytes) : bytes_(bytes) {}

  // The largest entry that may be reserved.
  size_t entry_max() const { return std::min(bytes_ / 4, kVerbBytesMax); }
  [[nodiscard]] bool reserve(size_t entry) {
    if (entry > entry_max() || (tail_ - read_) + reserved_ + 2 * entry > bytes_) return false;
    reserved_ += 2 * entry;
    return true;
  }
  void give_back(size_t entry) { reserved_ -= 2 * entry; }

  struct Place {
    uint64_t skip_at = 0;  // offset in the ring
    uint32_t skip = 0;     // bytes to skip first
    uint64_t skip_position = 0;
    uint64_t at = 0;
    uint64_t position = 0;
  };
  // Returns where a reserved entry goes.
  Place place(size_t entry);
  // Returns false if the reader cannot have read that far.
  bool read_up_to(uint64_t position) {
    if (position < read_ || position > tail_) return false;
    read_ = position;
    return true;
  }
  void begin() { tail_ = read_ = reserved_ = 0; }
  uint64_t under_way() const { return tail_ - read_; }

 private:
  const size_t bytes_;
  uint64_t tail_ = 0;
  uint64_t read_ = 0;
  uint64_t reserved_ = 0;
};

// Completes the header in front of a body of `bytes` bytes (or of a skip, which has no body).
void ring_seal(std::byte* entry, RingHeader header);

// The reader's side of one ring.
class LogRingReader {
 public:
  LogRingReader(const std::byte* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  struct Entry {
    uint32_t tag;
    ByteView body;
  };
  // The next entry, if it is there, copied into `scratch`, which has room for the largest.
  bool next(uint32_t epoch, std::byte* scratch, Entry* entry);
  void begin() { position_ = acknowledged_ = 0; }

  uint64_t position() const { return position_; }
  // Whether the writer should be told how far the ring is read. tell() notes that it was.
  bool acknowledgement_due() const { return position_ - acknowledged_ >= bytes_ / 8; }
  void tell() { acknowledged_ = position_; }

 private:
  bool is_complete(uint32_t epoch, std::byte* scratch, RingHeader* header) const;

  const std::byte* const memory_;
  const size_t bytes_;
  uint64_t position_ = 0;
  uint64_t acknowledged_ = 0;
};

}  // namespace weft
