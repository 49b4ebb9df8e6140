#include "weft/run/coroutine_frames.h"

#include <cstdlib>
#include <new>

#include "weft/task.h"

namespace weft {

namespace {
thread_local FramePool* current_pool = nullptr;
}  // namespace

FramePool::Scope::Scope(FramePool* pool) : before_(current_pool) { current_pool = pool; }
FramePool::Scope::~Scope() { current_pool = before_; }

void* FramePool::allocate(size_t bytes) {
  const size_t size_class = (bytes + kClassBytes - 1) / kClassBytes;
  if (size_class >= kClasses) return nullptr;
  Block*& head = free_[size_class];
  if (head == nullptr) {
    constexpr size_t kBlocksAtOnce = 16;
    const size_t block_bytes = sizeof(Block) + size_class * kClassBytes;
    slabs_.push_back(std::make_unique<std::byte[]>(block_bytes * kBlocksAtOnce));
    for (size_t i = 0; i < kBlocksAtOnce; ++i) {
      auto* block = reinterpret_cast<Block*>(slabs_.back().get() + i * block_bytes);
      *block = {this, head, size_class, 0};
      head = block;
    }
    blocks_made_ += kBlocksAtOnce;
  }
  Block* block = head;
  head = block->next;
  return block + 1;
}

void FramePool::free(void* frame) noexcept {
  Block* block = static_cast<Block*>(frame) - 1;
  if (block->owner == nullptr) {
    std::free(block);
    return;
  }
  Block*& head = block->owner->free_[block->size_class];
  block->next = head;
  head = block;
}

namespace detail {

void* allocate_frame(size_t bytes) {
  if (current_pool != nullptr) {
    if (void* frame = current_pool->allocate(bytes)) return frame;
  }
  struct Header {
    FramePool* owner;
    void* rest[3];
  };
  auto* header = static_cast<Header*>(std::malloc(sizeof(Header) + bytes));
  if (header == nullptr) throw std::bad_alloc();
  header->owner = nullptr;
  return header + 1;
}

void free_frame(void* frame) noexcept { FramePool::free(frame); }

}  // namespace detail
}  // namespace weft
