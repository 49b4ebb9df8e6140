#include "weft/txn/log_ring.h"

#include "weft/base/hash.h"

namespace weft {

namespace {

uint64_t seed_of(const RingHeader& header) {
  return mix64(header.position ^ uint64_t{header.epoch} << 32) ^
         mix64(uint64_t{header.bytes} << 32 | uint64_t{header.skip}) ^ mix64(uint64_t{header.tag} + 1);
}

}  // namespace

LogRingWriter::Place LogRingWriter::place(size_t entry) {
  reserved_ -= 2 * entry;
  Place place;
  const uint64_t left = bytes_ - tail_ % bytes_;
  if (left < entry) {
    place.skip_at = tail_ % bytes_;
    place.skip = static_cast<uint32_t>(left);
    place.skip_position = tail_;
    tail_ += left;
  }
  place.at = tail_ % bytes_;
  place.position = tail_;
  tail_ += entry;
  return place;
}

void ring_seal(std::byte* entry, RingHeader header) {
  const size_t body = header.skip != 0 ? 0 : header.bytes;
  header.check = hash_bytes(entry + sizeof header, body, seed_of(header));
  store(entry, header);
}

bool LogRingReader::is_complete(uint32_t epoch, std::byte* scratch, RingHeader* header) const {
  const std::byte* const at = memory_ + position_ % bytes_;
  copy_from_shared(reinterpret_cast<std::byte*>(header), at, sizeof *header);
  if (header->position != position_ || header->epoch != epoch) return false;
  const uint64_t left = bytes_ - position_ % bytes_;
  if (header->skip != 0) return header->bytes == left && header->check == hash_bytes(scratch, 0, seed_of(*header));
  if (header->bytes > bytes_ / 4 || ring_entry_bytes(header->bytes) > left) return false;
  copy_from_shared(scratch, at + sizeof *header, header->bytes);
  return header->check == hash_bytes(scratch, header->bytes, seed_of(*header));
}

bool LogRingReader::next(uint32_t epoch, std::byte* scratch, Entry* entry) {
  RingHeader header;
  while (is_complete(epoch, scratch, &header)) {
    position_ += header.skip != 0 ? header.bytes : ring_entry_bytes(header.bytes);
    if (header.skip != 0) continue;
    *entry = {header.tag, {scratch, header.bytes}};
    return true;
  }
  return false;
}

}  // namespace weft
