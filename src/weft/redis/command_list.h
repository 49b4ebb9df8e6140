// CommandList: commands that wait to be run together, in order of arrival: those of one read from a socket, whose
// bytes stay in the reader, or those between MULTI and EXEC, whose bytes are copied.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/redis/commands.h"

namespace weft {

class CommandList {
 public:
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  size_t keys() const { return keys_; }    // that they name, counting repetitions
  size_t bytes() const { return bytes_; }  // of their arguments
  // That the given ones name.
  size_t keys(size_t first, size_t count) const { return keys_before(first + count) - keys_before(first); }
  // How many commands from the given one on name no more keys than that together; at least one.
  size_t count_within(size_t first, size_t keys_max) const {
    size_t end = first + 1;
    while (end < size() && keys(first, end + 1 - first) <= keys_max) ++end;
    return end - first;
  }
  bool only_data() const { return only_data_; }
  bool writes() const { return writes_; }  // one of them does

  // The arguments' bytes outlive the list.
  void add(const Command* command, Arguments arguments) {
    note(command, arguments);
    words_.insert(words_.end(), arguments.begin(), arguments.end());
  }
  // Copies the arguments' bytes. A list has all its commands from add(), or all from copy().
  void copy(const Command* command, Arguments arguments) {
    note(command, arguments);
    for (const std::string_view argument : arguments) {
      copies_.append(argument);
      sizes_.push_back(argument.size());
    }
  }
  // After the last copy(), before the first arguments().
  void seal() {
    size_t at = 0;
    for (const size_t size : sizes_) {
      words_.emplace_back(copies_.data() + at, size);
      at += size;
    }
    sizes_.clear();
  }
  void clear() {
    items_.clear();
    words_.clear();
    copies_.clear();
    if (copies_.capacity() > kKeptBytes) std::string().swap(copies_);
    sizes_.clear();
    keys_ = bytes_ = 0;
    only_data_ = true;
    writes_ = false;
  }
  size_t memory_bytes() const {
    return items_.capacity() * sizeof(Item) + words_.capacity() * sizeof(std::string_view) + heap_bytes(copies_) +
           sizes_.capacity() * sizeof(size_t);
  }
  void shrink() {
    if (!empty()) return;
    const CommandList gone = std::move(*this);  // a string that is assigned a short one keeps its memory
    *this = CommandList();
  }

  const Command& command(size_t i) const { return *items_[i].command; }
  Arguments arguments(size_t i) const { return {words_.data() + items_[i].first, items_[i].count}; }

 private:
  static constexpr size_t kKeptBytes = 16 << 10;
  struct Item {
    const Command* command;
    size_t first, count;  // in words_
    size_t keys_before;   // that the commands before it name
  };

  size_t keys_before(size_t i) const { return i < items_.size() ? items_[i].keys_before : keys_; }
  void note(const Command* command, Arguments arguments) {
    const size_t first = items_.empty() ? 0 : items_.back().first + items_.back().count;
    items_.push_back({command, first, arguments.size(), keys_});
    only_data_ &= command->data != nullptr;
    writes_ |= (command->flags & kWrites) != 0;
    keys_ += keys_named(*command, arguments.size());
    for (const std::string_view argument : arguments) bytes_ += argument.size();
  }

  std::vector<Item> items_;
  std::vector<std::string_view> words_;
  std::string copies_;
  std::vector<size_t> sizes_;  // of copies_, until sealed
  size_t keys_ = 0;
  size_t bytes_ = 0;
  bool only_data_ = true;  // none is about the connection or the node
  bool writes_ = false;
};

}  // namespace weft
