// HotKeyQueues: group commit for keys that several connections of one worker access at the same time.
//
// A transaction does not wait for a lock that another one holds: it aborts and is retried. Without queues, many
// connections at one key would mostly abort each other. So the first one that conflicts on a key opens a queue for it
// and becomes its leader, and other connections of this worker that come to the key then join the queue. The leader
// runs the commands of those behind it in its own transaction: the more wait, the more each transaction does. When all
// commands of the leader's batch are done the next one leads; an empty queue is removed.
//
// A leader waits for nobody, and nobody is in two queues, so no queue waits for another. A leader that conflicts on
// another key gives up the lead and continues without a queue. A transaction of several connections that fails has no
// effect, and all of them stay in the queue; then fewer join the next batch: none behind the one that caused the
// failure, if that is known.
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
  bool exec = false;  // the commands between MULTI and EXEC
  size_t keys() const { return list->keys(first, count); }
};

class HotKeyQueues {
 public:
  struct Waiter {
    CommandBatch batch;
    std::coroutine_handle<> handle;
    bool answered = false;  // by a leader that ran its commands; otherwise it leads when it resumes
    bool alone = false;     // it makes a shared batch fail, so it runs alone
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

    // The leader's commands and those of the next waiters, up to the given number of keys and bytes together. A leader
    // that could not join a batch does not take others along either.
    std::span<const CommandBatch> form_batch(const Waiter& leader, size_t keys_max, size_t bytes_max);
    // The first `count` waiters have their replies.
    void answered(size_t count, Worker* worker);
    // The batch failed because of this member; 0: because of the leader, or of no single one.
    void split(size_t batch);
    // False: those behind the leader would not have had the conflict that it had.
    bool conflicted_on_key(const Outcome& outcome) const;

   private:
    friend class HotKeyQueues;
    std::string_view key_;  // in the map
    std::deque<Waiter*> waiting_;
    std::vector<CommandBatch> batches_;  // in progress
    size_t batches_max_ = SIZE_MAX;      // per transaction; shrinks after failures
  };

  // The queue of a key of the commands; nullptr if there is none.
  HotKeyQueue* find(const CommandBatch& batch);
  // The queue of the key on which the transaction conflicted: a new one, which the caller leads, if there is none.
  // nullptr: it is not a key of the commands.
  HotKeyQueue* of(const Outcome& outcome, TableId table, const CommandBatch& batch, bool* leads);
  // The leader has the replies of its batch.
  void leave(HotKeyQueue* queue, Worker* worker);

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library looks for it
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  std::unordered_map<std::string, HotKeyQueue, Hash, std::equal_to<>> hot_keys_;
};

}  // namespace weft
