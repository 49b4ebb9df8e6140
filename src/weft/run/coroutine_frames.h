// Coroutine frames of one worker: free lists by size class over blocks that are never freed, so that after the first
// few transactions the worker loop allocates nothing. Only the owning worker uses a pool; a Scope makes it the pool of
// the running thread while the worker's code runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  void* allocate(size_t bytes);
  static void free(void* frame) noexcept;

  uint64_t blocks_made() const { return blocks_made_; }

  class Scope {
   public:
    explicit Scope(FramePool* pool);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FramePool* const before_;
  };

 private:
  static constexpr size_t kClassBytes = 128;
  static constexpr size_t kClasses = 64;  // frames up to 8 KiB; larger ones come from the heap

  struct Block {
    FramePool* owner;  // nullptr: from the heap
    Block* next;       // while free
    size_t size_class;
    size_t padding;
  };
  static_assert(sizeof(Block) == 32);

  std::array<Block*, kClasses> free_{};
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  uint64_t blocks_made_ = 0;
};

}  // namespace weft
