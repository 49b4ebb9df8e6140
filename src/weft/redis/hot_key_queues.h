// HotKeyQueues: for keys that several connections of one worker come to at the same time.
//
// A lock that is held by another is no lock to wait for: the transaction aborts and is tried again. Left to themselves,
// many connections at one key would mostly abort each other. So the first one that meets another at a key opens a line
// for it, which it leads, and whoever of this worker comes to the key then stands in it. The leader takes along those
// behind it, in one transaction: the more wait, the more each transaction does. When all that the leader has to do is
// done the next one leads; the line ends when nobody is there.
//
// Who leads waits for nobody, and nobody stands in two lines, so no line waits for another. Who leads and meets others
// elsewhere gives up the lead, and goes on without a line. A transaction of several connections that fails does
// nothing, and all of them are still in line; then fewer go along: none behind the one that is the reason, if that is
// known.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/redis/command_list.h"
#include "weft/run/worker.h"
#include "weft/txn.h"

namespace weft {

struct Client;

// Commands of one connection that run in one transaction.
struct CommandBatch {
  Client* client = nullptr;
  const CommandList* list = nullptr;
  size_t first = 0, count = 0;
  bool exec = false;  // what was between MULTI and EXEC
};

class HotKeyQueues {
 public:
  struct Waiter {
    CommandBatch batch;
    std::coroutine_handle<> handle;
    bool answered = false;  // by one who took it along; else it leads when it goes on
    bool alone = false;     // it spoils what it goes along with
  };

  class HotKeyQueue {
   public:
    struct Enqueue {
      HotKeyQueue* queue;
      Waiter* waiter;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> h) const {
        waiter->handle = h;
        queue->waiting_.push_back(waiter);
      }
      void await_resume() const noexcept {}
    };
    Enqueue enqueue(Waiter* waiter) { return {this, waiter}; }

    // The leader's commands, and those of the next in line, as long as they have so many keys and bytes together. Who
    // would not go along takes nobody along either.
    std::span<const CommandBatch> form_batch(const Waiter& leader, size_t keys_max, size_t bytes_max);
    // The first so many have their answers.
    void answered(size_t count, Worker* worker);
    // What was gathered did not go well, because of that part; 0: of the leader, or of nobody alone.
    void split(size_t batch);
    // False: those behind the leader would not have met whom it met.
    bool conflicted_on_key(const Outcome& outcome) const;

   private:
    friend class HotKeyQueues;
    std::string_view key_;  // in the map
    std::deque<Waiter*> waiting_;
    std::vector<CommandBatch> batches_;  // under way
    size_t batches_max_ = SIZE_MAX;      // that go together: fewer when that went wrong
  };

  // The line of a key of the list; nullptr if there is none.
  HotKeyQueue* find(const CommandList& list);
  // The line of the key that the transaction has met others at: a new one if there is none, which the caller leads.
  // nullptr: it is no key of the commands.
  HotKeyQueue* of(const Outcome& outcome, TableId table, const CommandBatch& batch, bool* leads);
  // The leader has all its answers.
  void leave(HotKeyQueue* queue, Worker* worker);

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library looks for it
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  std::unordered_map<std::string, HotKeyQueue, Hash, std::equal_to<>> hot_keys_;
};

}  // namespace weft
