// OBJECT and MEMORY: what tools ask about a key and about the memory of a node.
//
// A string's encoding is what Redis chooses for its bytes on SET. Redis keeps a string made by APPEND or SETRANGE as
// raw, which is not visible here.
#include <algorithm>
#include <string>

#include "weft/redis/command_help.h"
#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"
#include "weft/store/blocks.h"
#include "weft/store/dlht_bin.h"

namespace weft {
namespace {

std::string_view encoding_of(const Keyspace::Found& found) {
  constexpr size_t kEmbeddedBytesMax = 44;
  if (found.type != ValueType::kString) return "raw";
  if (parse_integer(found.bytes)) return "int";
  return found.bytes.size() <= kEmbeddedBytesMax ? "embstr" : "raw";
}

void object_encoding(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const Keyspace::Found found = keys.find(arguments[2]);
  found.exists ? reply.bulk(encoding_of(found)) : reply.null();
}

// Redis shares small integers, and shows that by this number. Nothing is shared here, but tools expect this reply.
void object_refcount(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  constexpr int64_t kShared = 2147483647;
  constexpr int64_t kSharedIntegers = 10'000;
  const Keyspace::Found found = keys.find(arguments[2]);
  if (!found.exists) return reply.null();
  const auto integer = found.type == ValueType::kString ? parse_integer(found.bytes) : std::nullopt;
  reply.integer(integer && *integer >= 0 && *integer < kSharedIntegers ? kShared : 1);
}

void object_idletime(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  if (!keys.find(arguments[2]).exists) return reply.null();
  reply.error("ERR idle time not tracked: no key is evicted, and a read leaves no trace");
}

void object_freq(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  if (!keys.find(arguments[2]).exists) return reply.null();
  reply.error(
      "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
      "between policies at runtime LRU and LFU data will take some time to adjust.");
}

// Of one replica: its block, and its slot in the index.
void memory_usage(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  for (size_t i = 3; i < arguments.size(); i += 2) {
    if (!same_word(arguments[i], "samples") || i + 1 == arguments.size()) return reply.error(kSyntaxError);
    const auto samples = integer_argument(arguments[i + 1], reply);
    if (!samples) return;
    if (*samples < 0) return reply.error(kSyntaxError);
  }
  const Keyspace::Found found = keys.find(arguments[2]);
  if (!found.exists) return reply.null();
  const size_t header = found.deadline_ms == kNoDeadline ? 1 : kValueHeaderBytesMax;
  const size_t record = record_bytes(arguments[2].size(), header + found.bytes.size());
  reply.integer(static_cast<int64_t>(block_bytes(block_class_of(record)) + sizeof(dlht::Slot)));
}

// Of this node. What Redis counts and does not exist here is 0.
void memory_stats(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const Table& table = front.table();
  const uint64_t clients = front.shared().output_bytes() + front.shared().input_bytes();
  const uint64_t data = table.memory_bytes();
  const uint64_t records = table.records();
  const uint64_t all = data + clients;
  struct Row {
    const char* name;
    uint64_t value;
  };
  const Row rows[] = {
      {"peak.allocated", all},
      {"total.allocated", all},
      {"startup.allocated", 0},
      {"replication.backlog", 0},
      {"clients.slaves", 0},
      {"clients.normal", clients},
      {"cluster.links", 0},
      {"aof.buffer", 0},
      {"lua.caches", 0},
      {"functions.caches", 0},
      {"overhead.total", clients},
      {"keys.count", records},
      {"keys.bytes-per-key", records == 0 ? 0 : data / records},
      {"dataset.bytes", data},
  };
  reply.map(std::size(rows) + 3);
  for (const Row& row : rows) {
    reply.bulk(row.name);
    reply.integer(static_cast<int64_t>(row.value));
  }
  reply.bulk("dataset.percentage");
  reply.real(all == 0 ? 0 : 100.0 * static_cast<double>(data) / static_cast<double>(all));
  reply.bulk("peak.percentage");
  reply.real(100);
  reply.bulk("fragmentation");
  reply.real(1);
}

void memory_doctor(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  constexpr uint64_t kMuchPercent = 90;
  std::string text;
  const auto look = [&](std::string_view what, uint64_t held, std::string_view limit, uint64_t max) {
    if (max == 0 || held / kMuchPercent < max / 100) return;
    text.append(" * ").append(what).append(": ").append(std::to_string(held)).append(" bytes; ");
    text.append(limit).append(" is ").append(std::to_string(max)).append(".\n");
  };
  const FrontendOptions& options = front.options();
  look("The store is nearly full", front.table().memory_bytes(), "its limit", front.table().memory_bytes_max());
  look("Clients do not read their answers", front.shared().output_bytes(), "client.output_total_bytes",
       options.output_total_bytes);
  look("Clients sent much of commands that are not complete", front.shared().input_bytes(), "client.input_total_bytes",
       options.input_total_bytes);
  if (const uint64_t refused = front.shared().stats.totals(0).errors[error_place("OOM")]; refused != 0) {
    text.append(" * Writes were refused for want of memory: ").append(std::to_string(refused));
    text.append(" times. What values of one size took is not used for other sizes.\n");
  }
  reply.verbatim(text.empty() ? "I found no memory problem in this node.\n" : "I found this in this node:\n" + text);
}

// It happens anyway when clients have released much memory (server.cc).
void memory_purge(RedisFrontend&, Client&, Arguments, RespWriter& reply) { reply.simple("OK"); }

void memory_malloc_stats(RedisFrontend&, Client&, Arguments, RespWriter& reply) {
  reply.bulk("Stats not supported for the current allocator");
}

constexpr KeyRange kSecond{2, 2, 1};
constexpr const char* kKeys = "keys";
constexpr const char* kServer = "server";

constexpr Command kObjectCommands[] = {
    {"memory", -2, kHasSubcommands, {}, kServer, "about memory"},
    {"memory|doctor", 2, 0, {}, kServer, "which limits of memory are near", nullptr, memory_doctor},
    {"memory|help", 2, kFast, {}, kServer, "what there is", nullptr, reply_help},
    {"memory|malloc-stats", 2, 0, {}, kServer, "not supported, and says so", nullptr, memory_malloc_stats},
    {"memory|purge",
     2,
     0,
     {},
     kServer,
     "taken, and nothing: the memory of clients is given back anyhow, that of records is kept",
     nullptr,
     memory_purge},
    {"memory|stats", 2, 0, {}, kServer, "the memory of this node", nullptr, memory_stats},
    {"memory|usage", -3, 0, kSecond, kServer, "bytes that a key takes at each of its replicas (SAMPLES)", memory_usage},
    {"object", -2, kHasSubcommands, {}, kKeys, "about a key's value"},
    {"object|encoding", 3, 0, kSecond, kKeys, "int, embstr or raw, as Redis would have it", object_encoding},
    {"object|freq", 3, 0, kSecond, kKeys, "an error: it is not tracked", object_freq},
    {"object|help", 2, kFast, {}, kKeys, "what there is", nullptr, reply_help},
    {"object|idletime", 3, 0, kSecond, kKeys, "an error: it is not tracked", object_idletime},
    {"object|refcount", 3, 0, kSecond, kKeys, "1, or what Redis says of small integers", object_refcount},
};

}  // namespace

std::span<const Command> object_commands() { return kObjectCommands; }

}  // namespace weft
