#include "weft/fabric/port.h"

#include "weft/base/check.h"

namespace weft {

Port::Port(const PortOptions& options, Wire* wire, CostModel* cost_model)
    : batching_(options.batching),
      sender_(options, wire, cost_model, &counters_),
      receiver_(options, wire, cost_model, &counters_, &sender_) {}

void Port::set_handler(uint8_t kind, Handler handler, void* context) {
  WEFT_CHECK(kind < kKindsMax && handler != nullptr, "kinds are below kKindsMax");
  handlers_[kind] = {handler, context};
  receiver_.allow_kind(kind);
}

void Port::set_burst_hook(BurstHook hook, void* context) {
  hook_ = hook;
  hook_context_ = context;
}

void Port::set_bad_peer(BadPeer hook, void* context) { receiver_.set_bad_peer(hook, context); }

bool Port::poll() {
  WEFT_CHECK(!delivering_, "a handler does not poll");
  sender_.post_staged();
  sender_.retry();
  const bool any = receiver_.gather() != 0;
  if (any) {
    delivering_ = true;
    deliver();
    delivering_ = false;
  }
  receiver_.finish();
  return any;
}

void Port::deliver() {
  const std::span<Message> burst = receiver_.messages();
  delivered_ = 0;
  if (batching_) announce(burst);
  for (size_t at = 0, end; at < burst.size(); at = end) {
    const uint8_t kind = burst[at].kind;
    end = at + 1;
    if (kind == Receiver::kDropped) continue;  // a handler has set a new epoch
    if (batching_) {
      while (end < burst.size() && burst[end].kind == kind) ++end;
    } else {
      announce(burst.subspan(at, 1));
    }
    const Entry& entry = handlers_[kind];
    WEFT_CHECK(entry.handler != nullptr, "a loopback message has a kind without handler");
    delivered_ = end;
    entry.handler(entry.context, burst.subspan(at, end - at));
  }
}

void Port::announce(std::span<Message> burst) {
  counters_.bursts += 1;
  counters_.burst_messages += burst.size();
  if (hook_ != nullptr) hook_(hook_context_, burst);
}

void Port::reset_peer(NodeId peer) {
  WEFT_CHECK(!delivering_, "a handler does not reset a peer");
  sender_.reset_peer(peer);
  receiver_.reset_peer(peer);
}

void Port::set_epoch(Epoch epoch) {
  WEFT_CHECK(epoch >= receiver_.epoch(), "epochs only grow");
  if (epoch == receiver_.epoch()) return;
  sender_.set_epoch(epoch);
  receiver_.set_epoch(epoch);
  if (delivering_) receiver_.drop_stale(delivered_);
}

}  // namespace weft
