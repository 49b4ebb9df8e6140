// CLUSTER: the view, as clients of a Redis cluster expect it. Any node answers for any key, so there is never a MOVED
// redirection; a client that follows the slots talks to the primary of its keys and saves a hop. Where no replica
// answers clients (memory nodes), each partition's slots are divided between the nodes that do.
//
// Slots are CRC16 of the key, 16384 of them; partition p of n has those from p * 16384 / n on, rounded up.
#include <algorithm>
#include <string>
#include <vector>

#include "weft/redis/command_help.h"
#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"
#include "weft/redis/replicas_here.h"

namespace weft {
namespace {

struct SlotRange {
  uint32_t first, last;
};

SlotRange slots_of(size_t partition, size_t partitions) {
  const auto start = [&](size_t p) { return static_cast<uint32_t>((p * kRedisSlots + partitions - 1) / partitions); };
  return {start(partition), start(partition + 1) - 1};
}
bool empty(const SlotRange& range) { return range.first > range.last; }

// Forty hexadecimal digits that identify a member permanently.
std::string id_of(const Member& member) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string id(40, '0');
  for (size_t i = 0; i < 16; ++i) id[i] = kHex[member.token >> (60 - 4 * i) & 15];
  for (size_t i = 0; i < 8; ++i) id[32 + i] = kHex[member.incarnation >> (28 - 4 * i) & 15];
  return id;
}

ClientAddress clients_at(const Member& member) {
  const size_t colon = member.clients.rfind(':');
  if (colon == std::string::npos) return {};
  ClientAddress at{member.clients.substr(0, colon), parse_integer(member.clients.substr(colon + 1)).value_or(0)};
  if (at.host.starts_with('[') && at.host.ends_with(']')) at.host = at.host.substr(1, at.host.size() - 2);
  // A node that listens on all addresses does not know its own: empty means the one that the client used.
  if (at.host == "0.0.0.0" || at.host == "::") at.host.clear();
  return at;
}

// The replicas of a partition that answer clients, the primary first.
std::vector<const Member*> served_by(const View& view, const Placement& placement) {
  std::vector<const Member*> members;
  for (size_t i = 0; i < placement.count; ++i) {
    const Member* const member = view.find(placement.replicas[i]);
    if (member != nullptr && !member->clients.empty()) members.push_back(member);
  }
  return members;
}

// Consecutive slots, and the members that clients ask for their keys, the first of them before the others.
struct Served {
  SlotRange range;
  std::vector<const Member*> members;
};

std::vector<Served> served_slots(const View& view) {
  std::vector<const Member*> all;
  for (const Member& member : view.members) {
    if (!member.clients.empty()) all.push_back(&member);
  }
  std::vector<Served> out;
  for (size_t p = 0; p < view.partitions.size(); ++p) {
    const SlotRange range = slots_of(p, view.partitions.size());
    if (empty(range)) continue;
    if (std::vector<const Member*> members = served_by(view, view.partitions[p]); !members.empty()) {
      out.push_back({range, std::move(members)});
      continue;
    }
    const size_t slots = range.last - range.first + 1;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto start = [&](size_t part) { return range.first + static_cast<uint32_t>(part * slots / all.size()); };
      const SlotRange part = {start(i), start(i + 1) - 1};
      if (!empty(part)) out.push_back({part, {all[i]}});
    }
  }
  return out;
}

void slots(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const std::vector<Served> shown = served_slots(front.txn_worker()->view());
  reply.array(shown.size());
  for (const auto& [range, members] : shown) {
    reply.array(2 + members.size());
    reply.integer(range.first);
    reply.integer(range.last);
    for (const Member* member : members) {
      const ClientAddress at = clients_at(*member);
      reply.array(4);
      reply.bulk(at.host);
      reply.integer(at.port);
      reply.bulk(id_of(*member));
      reply.array(0);
    }
  }
}

// A shard is the set of slots with the same first member.
void shards(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const View& view = front.txn_worker()->view();
  const std::vector<Served> all = served_slots(view);
  std::vector<const Member*> primaries;
  for (const Member& member : view.members) {
    if (!member.clients.empty()) primaries.push_back(&member);
  }
  reply.array(primaries.size());
  for (const Member* primary : primaries) {
    std::vector<SlotRange> ranges;
    for (const Served& served : all) {
      if (served.members.front() == primary) ranges.push_back(served.range);
    }
    reply.map(2);
    reply.bulk("slots");
    reply.array(2 * ranges.size());
    for (const SlotRange& range : ranges) {
      reply.integer(range.first);
      reply.integer(range.last);
    }
    reply.bulk("nodes");
    reply.array(1);
    const ClientAddress at = clients_at(*primary);
    reply.map(7);
    reply.bulk("id");
    reply.bulk(id_of(*primary));
    reply.bulk("port");
    reply.integer(at.port);
    reply.bulk("ip");
    reply.bulk(at.host);
    reply.bulk("endpoint");
    reply.bulk(at.host);
    reply.bulk("role");
    reply.bulk("master");
    reply.bulk("replication-offset");
    reply.integer(0);
    reply.bulk("health");
    reply.bulk("online");
  }
}

void nodes(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const View& view = front.txn_worker()->view();
  const std::vector<Served> all = served_slots(view);
  std::string text;
  for (const Member& member : view.members) {
    if (member.clients.empty()) continue;
    const ClientAddress at = clients_at(member);
    text += id_of(member) + " " + at.host + ":" + std::to_string(at.port) + "@" + std::to_string(at.port) + " " +
            (member.node == front.txn_worker()->context().self ? "myself,master" : "master") + " - 0 0 " +
            std::to_string(view.epoch.value) + " connected";
    for (const auto& [range, members] : all) {
      if (members.front() != &member) continue;
      text += " " + std::to_string(range.first);
      if (range.last != range.first) text += "-" + std::to_string(range.last);
    }
    text += "\n";
  }
  reply.verbatim(text);
}

void info(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const View& view = front.txn_worker()->view();
  const auto line = [](std::string_view name, uint64_t value) {
    return std::string(name) + ":" + std::to_string(value) + "\r\n";
  };
  reply.verbatim(std::string("cluster_state:") + (front.txn_worker()->unavailable_reason().empty() ? "ok" : "fail") +
                 "\r\n" + line("cluster_slots_assigned", kRedisSlots) + line("cluster_slots_ok", kRedisSlots) +
                 line("cluster_slots_pfail", 0) + line("cluster_slots_fail", 0) +
                 line("cluster_known_nodes", view.members.size()) + line("cluster_size", view.members.size()) +
                 line("cluster_current_epoch", view.epoch.value) + line("cluster_my_epoch", view.epoch.value));
}

void keyslot(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  reply.integer(redis_slot(as_bytes(arguments[2])));
}

void myid(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const Member* const self = front.txn_worker()->view().find(front.txn_worker()->context().self);
  self == nullptr ? reply.error("ERR this node was removed from the view") : reply.bulk(id_of(*self));
}

// The nodes that have a replica of a partition whose primary is this node, and answer clients. Every acknowledged
// write is on each of them.
void role(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const std::vector<ClientAddress> replicas = replicas_here(*front.txn_worker());
  reply.array(3);
  reply.bulk("master");
  reply.integer(0);
  reply.array(replicas.size());
  for (const ClientAddress& at : replicas) {
    reply.array(3);
    reply.bulk(at.host);
    reply.bulk(std::to_string(at.port));
    reply.bulk("0");
  }
}

// Acknowledged writes are on all replicas already, so there is nothing to wait for. The reply is the number of
// replicas besides the primary, for the partition that currently has the fewest.
void wait(RedisFrontend& front, Client&, Arguments arguments, RespWriter& reply) {
  constexpr std::string_view kNotATimeout = "ERR timeout is not an integer or out of range";
  if (!integer_argument(arguments[1], reply)) return;
  const auto timeout_ms = integer_argument(arguments[2], reply, kNotATimeout);
  if (!timeout_ms) return;
  if (*timeout_ms < 0) return reply.error("ERR timeout is negative");
  int64_t least = kReplicasMax;
  for (const Placement& placement : front.txn_worker()->view().partitions) {
    least = std::min<int64_t>(least, placement.count - 1);
  }
  reply.integer(least);
}

void ok(RedisFrontend&, Client&, Arguments, RespWriter& reply) { reply.simple("OK"); }

constexpr Command kClusterCommands[] = {
    {"asking", 1, kFast, {}, "cluster", "taken, and nothing: no slot is on its way", nullptr, ok},
    {"cluster", -2, kHasSubcommands, {}, "cluster", "the view, as clients of a Redis cluster see it"},
    {"cluster|help", 2, kFast, {}, "cluster", "what there is", nullptr, reply_help},
    {"cluster|info", 2, kFast, {}, "cluster", "whether the cluster works, and its size", nullptr, info},
    {"cluster|keyslot", 3, kFast, {}, "cluster", "the slot of a key", nullptr, keyslot},
    {"cluster|myid", 2, kFast, {}, "cluster", "the node's id", nullptr, myid},
    {"cluster|nodes",
     2,
     0,
     {},
     "cluster",
     "the nodes, a line each, with the slots they are primary of",
     nullptr,
     nodes},
    {"cluster|shards", 2, 0, {}, "cluster", "the slots by the node that is their primary", nullptr, shards},
    {"cluster|slots",
     2,
     0,
     {},
     "cluster",
     "ranges of slots, and the nodes that have them, the primary first",
     nullptr,
     slots},
    {"readonly", 1, kFast, {}, "cluster", "taken, and nothing: every node answers reads", nullptr, ok},
    {"readwrite", 1, kFast, {}, "cluster", "taken, and nothing", nullptr, ok},
    {"role",
     1,
     kFast,
     {},
     "cluster",
     "master, and the nodes that have replicas of what it is primary of",
     nullptr,
     role},
    {"wait",
     3,
     0,
     {},
     "cluster",
     "at once: how many replicas beside the primary have what was answered",
     nullptr,
     wait},
};

}  // namespace

std::vector<ClientAddress> replicas_here(const TxnWorker& txn_worker) {
  const View& view = txn_worker.view();
  NodeSet holders;
  for (const Placement& placement : view.partitions) {
    if (placement.primary() == txn_worker.context().self) holders |= placement.in_sync;
  }
  std::vector<ClientAddress> replicas;
  for (const Member& member : view.members) {
    const bool other = member.node != txn_worker.context().self && holders.contains(member.node);
    if (other && !member.clients.empty()) replicas.push_back(clients_at(member));
  }
  return replicas;
}

std::span<const Command> cluster_commands() { return kClusterCommands; }

}  // namespace weft
