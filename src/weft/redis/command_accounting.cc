// Accounting of commands that ran: INFO's statistics, the slow log and monitors. Also applies what CONFIG SET has
// changed.
//
// For the slow log a command takes from when its turn came until it is answered, including the time that its
// transaction waited for others and for other nodes. Commands that ran together took as long as all of them together.
#include <algorithm>
#include <string>
#include <string_view>

#include "weft/redis/frontend.h"

namespace weft {

FrontendOptions LiveOptions::read(uint64_t* version) const {
  const std::scoped_lock lock(mutex_);
  if (version != nullptr) *version = this->version();
  return options_;
}

void RedisFrontend::note_errors(Client& client) {
  for (const auto& [command, word] : client.errors.seen) stats_->errors[error_place(word)].add(1);
  client.errors.seen.clear();
}

// A command that was refused before it ran.
void RedisFrontend::note_rejected(Arguments arguments) {
  if (const Command* const command = find_command(arguments)) stats_->rows[command->id].rejected.add(1);
}

// A command that is not about data.
void RedisFrontend::note_call(Client& client, const Command& command, Arguments arguments) {
  CommandStats::Row& row = stats_->rows[command.id];
  row.calls.add(1);
  if (!client.errors.seen.empty()) row.failed.add(1);
  const uint64_t ns = took_ns(client);
  // the commands that it ran are listed themselves
  const bool is_slow = slow(ns) && std::string_view(command.name) != "exec";
  if (monitored_ || is_slow) show(client, command, arguments, is_slow ? ns : UINT64_MAX);
}

// Commands that ran in a transaction. An EXEC that did not commit had no effect; the error counts for EXEC.
void RedisFrontend::note_ran(const CommandBatch& batch, const Outcome& outcome) {
  Client& client = *batch.client;
  const uint64_t ns = took_ns(client);
  client.began_ns = scheduler_.now_ns();
  if (batch.exec && !outcome.committed()) return;
  const bool full = outcome.code == Code::kTableFull;
  const size_t end = batch.first + batch.count;
  const auto row = [&](size_t i) -> CommandStats::Row& { return stats_->rows[batch.list->command(i).id]; };
  for (size_t i = batch.first; i < end && !full; ++i) row(i).calls.add(1);
  if (!outcome.committed()) {
    for (size_t i = batch.first; i < end; ++i) (full ? row(i).rejected : row(i).failed).add(1);
  } else {
    for (const auto& [i, word] : client.reply_errors.seen) {
      stats_->errors[error_place(word)].add(1);
      row(i).failed.add(1);
    }
  }
  if (full || (!monitored_ && !slow(ns))) return;
  for (size_t i = batch.first; i < end; ++i) {
    show(client, batch.list->command(i), batch.list->arguments(i), slow(ns) ? ns : UINT64_MAX);
  }
}

// Passes it to the slow log and monitors; `ns` is UINT64_MAX if it was not slow.
void RedisFrontend::show(Client& client, const Command& command, Arguments arguments, uint64_t ns) {
  constexpr int64_t kSecondUs = 1'000'000;
  constexpr uint64_t kShowNs = 500;
  constexpr uint64_t kShownByteNs = 2;
  const int64_t now_us = wall_us();
  const size_t before = shown_.size();
  if (monitored_ && (command.flags & kAdmin) == 0) {
    append_monitored(&shown_, command, arguments, client.address, now_us);
  }
  scheduler_.charge(client.share, kShowNs + kShownByteNs * (shown_.size() - before), "showing a command");
  if (ns == UINT64_MAX) return;
  shared_->slowlog.add(
      {0, now_us / kSecondUs, ns / 1000, slowlog_arguments(command, arguments), client.address, client.name},
      options_.slowlog_length);
}

bool RedisFrontend::begin_monitor(Client& client) {
  if (!shared_->monitors.begin(txn_worker_->context().id)) return false;
  client.monitors = monitored_ = true;
  monitors_.push_back(&client);
  shared_->live.touch();
  return true;
}

void RedisFrontend::end_monitor(Client& client) {
  if (!client.monitors) return;
  client.monitors = false;
  std::string().swap(client.monitored);
  std::erase(monitors_, &client);
  if (monitors_.empty()) monitors_flush_ns_ = UINT64_MAX;
  shared_->monitors.end(txn_worker_->context().id);
  shared_->live.touch();
}

// Between two replies of theirs, never in the middle of one.
void RedisFrontend::flush_monitors() {
  const WorkerId self = txn_worker_->context().id;
  if (!shown_.empty()) shared_->monitors.leave(self, shown_);
  const bool whole = monitors_.empty() || shared_->monitors.take(self, &shown_);
  for (Client* const client : monitors_) {
    if (client->dead || client->closing) continue;
    client->monitored += shown_;
    if (!client->work.running() && !client->monitored.empty()) {
      client->output.last().append(client->monitored);
      ClientOutput::clear(client->monitored);
      wake(*client);
    }
    const size_t held = client->unread_bytes() + client->monitored.size();
    if (whole && held <= options_.output_held_bytes) continue;
    log_closed(*client, "client.output_held_bytes: a monitor that does not read what it asked for",
               options_.output_held_bytes, output_memory_, held);
    drop(*client);
  }
  ClientOutput::clear(shown_);
  if (!monitors_.empty()) monitors_flush_ns_ = session_.now_ns() + Monitors::kPollNs;
}

}  // namespace weft
