// Dispatcher: parses arriving messages and hands them to the parts of the worker. It checks each message once,
// prefetches the index bins of all keys in the burst, then their records, and then runs the handlers. It closes a peer
// that sent a malformed message.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "weft/base/check.h"
#include "weft/txn/batch.h"
#include "weft/txn/commit_parser.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/slot_table.h"

namespace weft {

class LogReceiver;

class Dispatcher {
 public:
  Dispatcher(WorkerContext& ctx, CommitParser& parser, const SlotTable& slots);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Messages of this kind go to handler(const Batch&, std::span<const Message>) of `owner`.
  template <auto Handler, class Owner>
  void handle(Kind kind, Owner* owner) {
    Route& route = routes_[static_cast<size_t>(kind)];
    WEFT_CHECK(route.owner == nullptr, "messages of a kind go to one part");
    route.owner = owner;
    ctx_.port.set_handler(
        static_cast<uint8_t>(kind),
        [](void* to, std::span<const Message> run) {
          const Route& at = *static_cast<const Route*>(to);
          (static_cast<Owner*>(at.owner)->*Handler)(*at.batch, run);
        },
        &route);
  }
  // The same for kinds that the dispatcher does not know: they are well-formed if parse(const Message&) says so.
  template <auto Parse, auto Handler, class Owner>
  void handle(Kind kind, Owner* owner) {
    handle<Handler>(kind, owner);
    routes_[static_cast<size_t>(kind)].parse = [](const void* from, const Message& message) -> bool {
      return (static_cast<const Owner*>(from)->*Parse)(message);
    };
  }
  // The log's entries are handled before any message: what a peer has logged by verbs comes before its messages about
  // it.
  void set_log(LogReceiver* log) { log_ = log; }

 private:
  struct Route {
    void* owner = nullptr;
    bool (*parse)(const void* owner, const Message& message) = nullptr;
    const Batch* batch = nullptr;
  };

  void on_burst(std::span<Message> burst);
  void parse(Message& message);
  bool parse_reply(const Message& message) const;
  bool parse_get_reply(const Message& message) const;
  bool parse_unlocked(const Message& message) const;
  bool parse_acks(const Message& message) const;
  bool prefetch_slot(uint32_t slot) const;

  WorkerContext& ctx_;
  CommitParser& parser_;
  const SlotTable& slots_;
  const size_t slot_count_;
  LogReceiver* log_ = nullptr;
  Batch batch_;
  std::array<Route, kKindsMax> routes_;
};

}  // namespace weft
