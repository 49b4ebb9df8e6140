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
struct Part {
  Client* client = nullptr;
  const CommandList* list = nullptr;
  size_t first = 0, count = 0;
  bool exec = false;  // what was between MULTI and EXEC
};

class HotKeyQueues {
 public:
  struct Place {
    Part part;
    std::coroutine_handle<> waiter;
    bool answered = false;  // by one who took it along; else it leads when it goes on
    bool alone = false;     // it spoils what it goes along with
  };

  class HotKeyQueue {
   public:
    struct Stand {
      HotKeyQueue* line;
      Place* place;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> h) const {
        place->waiter = h;
        line->waiting_.push_back(place);
      }
      void await_resume() const noexcept {}
    };
    Stand stand(Place* place) { return {this, place}; }

    // The leader's commands, and those of the next in line, as long as they have so many keys and bytes together. Who
    // would not go along takes nobody along either.
    std::span<const Part> gather(const Place& leader, size_t keys_max, size_t bytes_max);
    // The first so many have their answers.
    void answered(size_t count, Worker* worker);
    // What was gathered did not go well, because of that part; 0: of the leader, or of nobody alone.
    void split(size_t part);
    // False: those behind the leader would not have met whom it met.
    bool met_at_its_key(const Outcome& outcome) const;

   private:
    friend class HotKeyQueues;
    std::string_view key_;  // in the map
    std::deque<Place*> waiting_;
    std::vector<Part> parts_;      // under way
    size_t parts_max_ = SIZE_MAX;  // that go together: fewer when that went wrong
  };

  // The line of a key of the list; nullptr if there is none.
  HotKeyQueue* find(const CommandList& list);
  // The line of the key that the transaction has met others at: a new one if there is none, which the caller leads.
  // nullptr: it is no key of the commands.
  HotKeyQueue* of(const Outcome& outcome, TableId table, const Part& part, bool* leads);
  // The leader has all its answers.
  void leave(HotKeyQueue* line, Worker* worker);

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library looks for it
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  std::unordered_map<std::string, HotKeyQueue, Hash, std::equal_to<>> lines_;
};

}  // namespace weft
