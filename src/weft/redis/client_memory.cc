// The memory that clients make a node hold, and its limits.
//
// It counts what is really allocated, including spare buffer capacity, of every connection that is not closed for it
// already, beyond the little that each may keep, every turn. The limits are of all workers together: the one whose
// clients hold most enforces them.
//
// Above a limit clients that have come to a stop are closed, the largest first: those that read nothing of their
// answers, or send nothing more of their commands, for kStalledNs, and do not wait for an answer. Many that do read,
// and get long answers, may be above it for a while. Above twice the limit whoever holds most is closed. Its memory is
// free at once, except for what a transaction in progress still uses.
#include <algorithm>
#include <string>

#include "weft/redis/frontend.h"

namespace weft {

namespace {

constexpr size_t kReaderKeptBytes = 64 << 10;  // of a reader that is in use and empty
constexpr uint64_t kStalledNs = 200'000'000;

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
  if (client.counted_output == 0) client.wrote_ns = session_.now_ns();  // it had nothing to read until now
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
  FrontendShared::Counted& own = counted();
  own.output_bytes.store(output_memory_, std::memory_order_relaxed);
  own.input_bytes.store(input_memory_, std::memory_order_relaxed);
  bool some = false;
  while (Client* const client = client_to_close(&FrontendShared::Counted::output_bytes, options_.output_total_bytes,
                                                &Client::counted_output, &Client::wrote_ns)) {
    close_for_output(*client);
    own.output_bytes.store(output_memory_, std::memory_order_relaxed);
    some = true;
  }
  while (Client* const client = client_to_close(&FrontendShared::Counted::input_bytes, options_.input_total_bytes,
                                                &Client::counted_input, &Client::received_ns)) {
    if (client->closing) break;
    close_for_input(*client);
    own.input_bytes.store(input_memory_, std::memory_order_relaxed);
    some = true;
  }
  return some;
}

Client* RedisFrontend::client_to_close(std::atomic<uint64_t> FrontendShared::Counted::*held, size_t limit,
                                       size_t Client::*counted_bytes, uint64_t Client::*progress_ns) {
  const uint64_t own = (counted().*held).load(std::memory_order_relaxed);
  if (own == 0) return nullptr;
  const uint64_t all = shared_->sum(held);
  if (all <= limit) return nullptr;
  for (const FrontendShared::Counted& other : shared_->counted) {
    if ((other.*held).load(std::memory_order_relaxed) > own) return nullptr;
  }
  schedule_scan(session_.now_ns() + kStalledNs);  // to look again, though nothing happens
  Client* most = nullptr;
  for (Client& client : clients_) {
    if (client.dead || client.*counted_bytes == 0) continue;
    const bool waits_for_us = client.work.running() && !client.output_waiter;
    if (all <= 2 * limit && (waits_for_us || session_.now_ns() < client.*progress_ns + kStalledNs)) continue;
    if (most == nullptr || client.*counted_bytes > most->*counted_bytes) most = &client;
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
             shared_->output_bytes(), client.counted_output);
  if (!client.output.begun()) {
    const std::string text = "-ERR clients hold too much of answers that are not read: client.output_total_bytes is " +
                             std::to_string(options_.output_total_bytes) + "\r\n";
    static_cast<void>(client.stream.send(text.data(), text.size()));
  }
  drop(client);
}

void RedisFrontend::close_for_input(Client& client) {
  log_closed(client, "client.input_total_bytes: commands that are not complete yet", options_.input_total_bytes,
             shared_->input_bytes(), client.counted_input);
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
