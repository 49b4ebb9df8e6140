// The memory that clients make a worker hold, and its limits.
//
// It counts what is really allocated, including spare buffer capacity, of every connection that is not closed for it
// already, beyond the little that each may keep. It does so every turn, so a limit is exceeded by at most one turn's
// work and one reply. Only the client that holds most is closed: its memory is free at once, except for what a
// transaction in progress still uses.
#include <algorithm>
#include <string>

#include "weft/redis/frontend.h"

namespace weft {

namespace {

constexpr size_t kReaderKeptBytes = 64 << 10;  // of a reader that is in use and empty

size_t beyond(size_t bytes, size_t kept) { return bytes > kept ? bytes - kept : 0; }

}  // namespace

void RedisFrontend::shrink_if_idle(Client& client) const {
  if (session_.now_ns() < client.shrinks_ns) return;
  client.shrinks_ns = client.output.empty() ? UINT64_MAX : session_.now_ns() + kIdleNs;
  client.reader.shrink();
  if (client.output.empty()) client.output.drop();
  std::string().swap(client.reply);
  client.batch.shrink();
  client.queued.shrink();
}

size_t RedisFrontend::buffer_bytes() const {
  size_t bytes = 0;
  for (const Client& client : clients_) {
    bytes += client.reader.memory_bytes() + client.output.memory_bytes() + client.reply.capacity();
  }
  return bytes;
}

size_t Client::output_memory() const {
  return beyond(output.memory_bytes(), ClientOutput::kKeptBytes) + beyond(reply.capacity(), ClientOutput::kKeptBytes) +
         (monitors ? monitored.capacity() : 0);
}

size_t Client::input_memory() const {
  size_t bytes = beyond(reader.memory_bytes(), kReaderKeptBytes) + queued.memory_bytes();
  for (const WatchedKey& key : watched) bytes += sizeof key + key.key.capacity();
  return bytes;
}

void RedisFrontend::count_memory(Client& client) {
  if (client.dead) client.output.drop();
  if (!client.work.running() && client.reader.idle() && client.reader.memory_bytes() > kReaderKeptBytes) {
    client.reader.shrink();
  }
  const size_t output = client.dead ? 0 : client.output_memory();
  const size_t input = client.dead ? 0 : client.input_memory();
  output_memory_ += output - client.counted_output;
  input_memory_ += input - client.counted_input;
  client.counted_output = output;
  client.counted_input = input;
}

void RedisFrontend::forget_memory(Client& client) {
  output_memory_ -= std::exchange(client.counted_output, 0);
  input_memory_ -= std::exchange(client.counted_input, 0);
}

// Returns whether a client had to be closed.
bool RedisFrontend::enforce_memory_limits() {
  FrontendShared::Counted& counted = shared_->counted[txn_worker_->context().id.value];
  counted.output_bytes.store(output_memory_, std::memory_order_relaxed);
  counted.input_bytes.store(input_memory_, std::memory_order_relaxed);
  const auto workers = static_cast<size_t>(txn_worker_->node()->workers());
  bool some = false;
  while (output_memory_ > options_.output_total_bytes / workers) {
    Client* const most = largest_holder(&Client::counted_output);
    if (most == nullptr) break;
    close_for_output(*most);
    some = true;
  }
  while (input_memory_ > options_.input_total_bytes / workers) {
    Client* const most = largest_holder(&Client::counted_input);
    if (most == nullptr || most->closing) break;
    close_for_input(*most);
    some = true;
  }
  return some;
}

Client* RedisFrontend::largest_holder(size_t Client::*counted) {
  Client* most = nullptr;
  for (Client& client : clients_) {
    if (client.dead || client.*counted == 0) continue;
    if (most == nullptr || client.*counted > most->*counted) most = &client;
  }
  return most;
}

void RedisFrontend::log_closed(const Client& client, const char* why, uint64_t limit, uint64_t held,
                               uint64_t its_own) const {
  if (EventLog* const events = txn_worker_->context().events) {
    events->emit(
        Level::kWarn, "client_closed",
        {{"client", client.address}, {"why", why}, {"limit", limit}, {"held_bytes", held}, {"its_own_bytes", its_own}});
  }
}

// An error cannot be inserted into a partial reply, and a client that does not read would not see it: it is logged.
void RedisFrontend::close_for_output(Client& client) {
  log_closed(client, "client.output_total_bytes: answers that clients have not read", options_.output_total_bytes,
             output_memory_, client.counted_output);
  if (!client.output.begun()) {
    const std::string text = "-ERR clients do not read their answers: client.output_total_bytes is " +
                             std::to_string(options_.output_total_bytes) + "\r\n";
    static_cast<void>(client.stream.send(text.data(), text.size()));
  }
  drop(client);
}

void RedisFrontend::close_for_input(Client& client) {
  log_closed(client, "client.input_total_bytes: commands that are not complete yet", options_.input_total_bytes,
             input_memory_, client.counted_input);
  if (client.work.running()) return drop(client);
  client.end_multi();
  client.queued.shrink();
  client.reader = RespReader(options_.resp);
  client.has_input = false;
  refuse(client, "ERR clients have sent too much of commands that are not complete: client.input_total_bytes is " +
                     std::to_string(options_.input_total_bytes));
  count_memory(client);
  wake(client);
}

// Closes it at once. Work in progress is aborted when it comes to its next command.
void RedisFrontend::drop(Client& client) {
  client.dead = client.dropped = true;
  std::string().swap(client.reply);
  count_memory(client);
  wake(client);
}

}  // namespace weft
