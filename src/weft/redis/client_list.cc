// CLIENT INFO, LIST and KILL: connections of the entire node, on any worker.
#include "weft/redis/client_list.h"
#include "weft/base/clock.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"

namespace weft {

bool ClientFilter::fits(const Client& client) const {
  if (nobody || client.dead || client.id == without) return false;
  if (ids && !std::binary_search(ids->begin(), ids->end(), client.id)) return false;
  return (address.empty() || address == client.address) &&
         (local_address.empty() || local_address == client.local_address);
}

std::string client_line(const Client& client, uint64_t now_ns) {
  std::string flags;
  if (client.monitors) flags += 'O';
  if (client.in_multi) flags += 'x';
  if (client.closing) flags += 'c';
  if (client.no_evict) flags += 'e';
  if (flags.empty()) flags = "N";
  const size_t buffer = client.reader.memory_bytes();
  const size_t unread = client.reader.unread_bytes();
  const size_t output = client.output.memory_bytes();
  const size_t argv = client.batch.memory_bytes();
  const size_t multi = client.queued.memory_bytes();
  std::string line;
  const auto add = [&](std::string_view name, std::string_view value) { line.append(name).append(value); };
  const auto count = [&](std::string_view name, uint64_t value) { add(name, std::to_string(value)); };
  count("id=", client.id);
  add(" addr=", client.address);
  add(" laddr=", client.local_address);
  count(" fd=", static_cast<uint64_t>(client.stream.fd()));
  add(" name=", client.name);
  count(" age=", (now_ns - client.since_ns) / kSecondNs);
  count(" idle=", (now_ns - client.active_ns) / kSecondNs);
  add(" flags=", flags);
  add(" db=0 sub=0 psub=0 ssub=0 multi=", client.in_multi ? std::to_string(client.queued.size()) : "-1");
  count(" qbuf=", unread);
  count(" qbuf-free=", buffer - std::min(buffer, unread));
  count(" argv-mem=", argv);
  count(" multi-mem=", multi);
  count(" rbs=", output);
  count(" rbp=", output);
  count(" obl=", client.unread_bytes());
  count(" oll=0 omem=", client.output_memory());
  count(" tot-mem=", sizeof client + buffer + output + argv + multi + client.reply.capacity());
  add(" events=", client.output.empty() ? "r" : "rw");
  add(" cmd=", client.last == nullptr ? "NULL" : client.last->name);
  count(" user=default redir=-1 resp=", static_cast<uint64_t>(client.version));
  line += '\n';
  return line;
}

// One page. Called by the frontend that owns the connections.
void RedisFrontend::answer_some(ClientQuery& query) {
  constexpr size_t kLines = 64;
  constexpr size_t kLooked = 512;
  constexpr uint64_t kLineNs = 1500, kLookedNs = 50, kPassedNs = 20;
  size_t lines = 0, looked = 0, passed = 0;
  // They are sorted by id.
  auto at = clients_.begin();
  for (; at != clients_.end() && at->id <= query.after; ++at) ++passed;
  for (; at != clients_.end() && lines < kLines && looked < kLooked; ++at, ++looked) {
    Client& client = *at;
    query.after = client.id;
    if (!query.filter.fits(client)) continue;
    ++lines;
    ++query.found;
    if (!query.kills) {
      query.lines += client_line(client, session_.now_ns());
    } else if (client.id == query.asker) {
      client.closing = true;
    } else {
      client.stream.cut();  // the peer sees it now, whatever it has in flight
      drop(client);
    }
  }
  scheduler_.charge(client_queries_share_, lines * kLineNs + looked * kLookedNs + passed * kPassedNs,
                    "listing clients");
  query.over = at == clients_.end();
  query.done.store(true, std::memory_order_release);
}

// A page or two per turn: however many ask, the worker's own clients get the rest of it.
bool RedisFrontend::answer_client_queries() {
  constexpr int kPagesOfATurn = 2;
  if (client_queries_.empty()) return false;
  int pages = 0;
  do {
    answer_some(*client_queries_.front());
    client_queries_.pop_front();
  } while (++pages < kPagesOfATurn && !client_queries_.empty() && !scheduler_.over(client_queries_share_));
  return true;
}

// All workers, one after the other. Their pages are appended to `lines`; nullptr: not wanted.
Task<void> RedisFrontend::query_workers(const Client& client, std::shared_ptr<ClientQuery> query, std::string* lines) {
  constexpr uint64_t kLookNs = 5'000;
  constexpr uint64_t kLookNsMax = 500'000;
  Node* const node = txn_worker_->node();
  for (int w = 0; w < node->workers(); ++w) {
    RedisFrontend* const front = shared_->fronts[static_cast<size_t>(w)];
    if (front == nullptr) continue;
    query->after = 0;
    query->over = false;
    while (!query->over && !client.dead) {
      query->done.store(false, std::memory_order_relaxed);
      if (front == this) {
        client_queries_.push_back(query);
      } else {
        Mailbox& mailbox = front->txn_worker_->context().worker->mailbox();
        while (!mailbox.post([front, query] { front->client_queries_.push_back(query); }))
          co_await session_.sleep_ns(kLookNs);
        node->state().views.wake();
      }
      for (uint64_t wait_ns = kLookNs; !query->done.load(std::memory_order_acquire);) {
        co_await session_.sleep_ns(wait_ns);
        wait_ns = std::min(wait_ns * 2, kLookNsMax);
      }
      if (lines != nullptr) lines->append(query->lines);
      query->lines.clear();
      if (lines != nullptr && lines->size() > options_.reply_bytes_max) co_return;
    }
  }
}

namespace {

// False: there is no such type, and the reply says so.
bool take_type(std::string_view type, ClientFilter* filter, RespWriter reply) {
  constexpr std::string_view kTypes[] = {"normal", "master", "replica", "slave", "pubsub"};
  if (std::none_of(std::begin(kTypes), std::end(kTypes), [&](auto known) { return same_word(type, known); })) {
    reply.error("ERR Unknown client type '" + std::string(type) + "'");
    return false;
  }
  filter->nobody |= !same_word(type, "normal");
  return true;
}

bool take_ids(Arguments texts, ClientFilter* filter, RespWriter reply) {
  filter->ids.emplace();
  for (const std::string_view text : texts) {
    const auto id = integer_argument(text, reply, "ERR Invalid client ID");
    if (!id) return false;
    if (*id > 0) filter->ids->push_back(static_cast<uint64_t>(*id));
  }
  std::sort(filter->ids->begin(), filter->ids->end());
  return true;
}

Task<void> client_list(RedisFrontend& front, Client& client, Arguments arguments) {
  const auto query = std::make_shared<ClientQuery>();
  RespWriter reply = front.out(client);
  if (arguments.size() == 4 && same_word(arguments[2], "type")) {
    if (!take_type(arguments[3], &query->filter, reply)) co_return;
  } else if (arguments.size() > 3 && same_word(arguments[2], "id")) {
    if (!take_ids(arguments.subspan(3), &query->filter, reply)) co_return;
  } else if (arguments.size() != 2) {
    reply.error(kSyntaxError);
    co_return;
  }
  client.reply.clear();
  Task<void> asking = front.query_workers(client, query, &client.reply);
  co_await asking;
  const std::string text = std::exchange(client.reply, {});
  if (text.size() > front.options().reply_bytes_max) {
    front.out(client).error("ERR the reply is too long: reply_bytes_max is " +
                            std::to_string(front.options().reply_bytes_max) + "; use ID");
    co_return;
  }
  front.out(client).verbatim(text);
}

void client_info(RedisFrontend& front, Client& client, Arguments, RespWriter& reply) {
  reply.verbatim(client_line(client, front.session().now_ns()));
}

// An option of CLIENT KILL and its value. False: it is wrong, and the reply says why.
bool take_option(std::string_view option, std::string_view value, const Client& client, ClientFilter* filter,
                 RespWriter reply) {
  if (same_word(option, "id")) {
    const auto id = parse_integer(value);
    if (id && *id > 0) {
      filter->ids = {static_cast<uint64_t>(*id)};
      return true;
    }
    reply.error("ERR client-id should be greater than 0");
  } else if (same_word(option, "type")) {
    return take_type(value, filter, reply);
  } else if (same_word(option, "addr")) {
    filter->address = value;
    return true;
  } else if (same_word(option, "laddr")) {
    filter->local_address = value;
    return true;
  } else if (same_word(option, "user")) {
    if (value == "default") return true;
    reply.error("ERR No such user '" + std::string(value) + "'");
  } else if (same_word(option, "skipme") && (same_word(value, "yes") || same_word(value, "no"))) {
    filter->without = same_word(value, "yes") ? client.id : 0;
    return true;
  } else {
    reply.error(kSyntaxError);
  }
  return false;
}

Task<void> client_kill(RedisFrontend& front, Client& client, Arguments arguments) {
  const auto query = std::make_shared<ClientQuery>();
  query->kills = true;
  query->asker = client.id;
  const bool old_form = arguments.size() == 3;
  if (old_form) {
    query->filter.address = arguments[2];
    query->filter.nobody = arguments[2].empty();
  } else {
    query->filter.without = client.id;
    if (arguments.size() % 2 != 0) {
      front.out(client).error(kSyntaxError);
      co_return;
    }
    for (size_t i = 2; i < arguments.size(); i += 2) {
      if (!take_option(arguments[i], arguments[i + 1], client, &query->filter, front.out(client))) co_return;
    }
  }
  Task<void> asking = front.query_workers(client, query, nullptr);
  co_await asking;
  RespWriter reply = front.out(client);
  if (!old_form) {
    reply.integer(static_cast<int64_t>(query->found));
  } else {
    query->found == 0 ? reply.error("ERR No such client") : reply.simple("OK");
  }
}

// The other nodes' clients would continue to write the same keys, so nothing could rely on it.
void client_pause(RedisFrontend&, Client&, Arguments, RespWriter& reply) {
  reply.error("ERR CLIENT PAUSE is not supported: the other nodes would go on serving the same keys");
}

void client_unpause(RedisFrontend&, Client&, Arguments, RespWriter& reply) { reply.simple("OK"); }

constexpr uint32_t kFlags = kAdmin | kNoMulti;

constexpr Command kClientListCommands[] = {
    {"client|info", 2, kFast, {}, "connection", "this connection, in a line", nullptr, client_info},
    {"client|kill",
     -3,
     kFlags,
     {},
     "connection",
     "ends connections of this node (ID ADDR LADDR TYPE USER SKIPME, or the address alone)",
     nullptr,
     nullptr,
     client_kill},
    {"client|list",
     -2,
     kFlags,
     {},
     "connection",
     "the connections of this node, a line each (TYPE ID)",
     nullptr,
     nullptr,
     client_list},
    {"client|pause", -3, kAdmin, {}, "connection", "not supported, and says so", nullptr, client_pause},
    {"client|unpause", 2, kAdmin, {}, "connection", "taken, and nothing: no client is paused", nullptr, client_unpause},
};

}  // namespace

std::span<const Command> client_list_commands() { return kClientListCommands; }

}  // namespace weft
