// HotKeyQueues: group commit for keys that several connections of one worker access at the same time.
//
// A transaction does not wait for a lock that another one holds: it aborts and is retried. Without queues, many
// connections at one key would mostly abort each other. So the first one that conflicts on a key opens a queue for it
// and becomes its leader, and other connections of this worker that come to the key then join the queue. The leader
// runs the commands of those behind it in its own transaction: the more wait, the more each transaction does. When all
// commands of the leader's batch are done the next one leads. A queue that nobody is in stays for some more
// transactions of its key: the next one leads it without a conflict.
//
// A leader waits a little for others that were in the last batch and have just been answered, since one transaction for
// all is less work than two; but no longer than a quarter of the time that the last batch took, in which the key was in
// other nodes' hands most of the time.
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
#include <utility>
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
  static constexpr uint32_t kKept = 16;   // leaders of a queue that nobody waits in, until it is removed
  static constexpr size_t kIdleMax = 16;  // queues that nobody leads; more are removed at once
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
      bool await_ready() const noexcept { return !std::exchange(queue->led_, true); }
      void await_suspend(std::coroutine_handle<> h) const {
        waiter->handle = h;
        queue->waiting_.push_back(waiter);
        queue->kept_ = kKept;
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

    std::string_view key() const { return key_; }
    // The leader's batch, which took so long, is about to be answered.
    void took(uint64_t ns, uint64_t now_ns) {
      expected_ = waiting_.size() + 1;
      gather_until_ns_ = now_ns + ns / 4;
    }
    // Whether the next leader waits for others.
    bool gathers(uint64_t now_ns) const { return waiting_.size() + 1 < expected_ && now_ns < gather_until_ns_; }

   private:
    friend class HotKeyQueues;
    size_t expected_ = 0;           // who took part when the last batch was answered
    uint64_t gather_until_ns_ = 0;  // they are not waited for any longer
    std::string_view key_;          // in the map
    std::deque<Waiter*> waiting_;
    std::vector<CommandBatch> batches_;  // in progress
    size_t batches_max_ = SIZE_MAX;      // per transaction; shrinks after failures
    bool led_ = true;                    // somebody leads
    bool listed_ = false;                // in idle_
    uint32_t kept_ = kKept;              // so many leaders more, if nobody comes to wait
  };

  // Removes the queues that nobody leads.
  void forget_idle();

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
  void remove(HotKeyQueue* queue);
  std::vector<HotKeyQueue*> idle_;  // those that nobody leads, and some that somebody leads again
};

}  // namespace weft
