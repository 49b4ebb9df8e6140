// The replies to commands that ran in a transaction, or the error that says why they did not.
#include <string>
#include <string_view>

#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"

namespace weft {

namespace {

constexpr std::string_view kOutOfMemory = "OOM command not allowed when used memory > 'maxmemory'. ";

}  // namespace

void RedisFrontend::take_reply(Client& client) {
  if (client.part_reply != nullptr) client.part_reply->append(client.reply);
  if (client.part_reply != nullptr) return drop_reply(client);
  if (client.replies == Client::Replies::kOn && !client.dropped) client.output.take(client.reply);
  drop_reply(client);
}

void RedisFrontend::answer(const CommandBatch& batch, const Outcome& outcome) {
  Client& client = *batch.client;
  RespWriter reply = out(client);
  note_ran(batch, outcome);
  if (outcome.committed()) {
    client.read_ns = session_.now_ns();
    if (batch.exec) reply.array(batch.count);
    return take_reply(client);
  }
  drop_reply(client);
  if (batch.exec && client.watch_failed && outcome.code == Code::kApplication) return reply.null_array();
  // Each of several that share a transaction has its own reply.
  const std::string why = failure(client, outcome);
  // Reads had no effect, whatever happens to the writes of others in the same transaction.
  const auto reads = [&](size_t i) { return (batch.list->command(i).flags & kWrites) == 0; };
  Outcome unread = outcome;
  if (unread.kind == OutcomeKind::kUnknown) unread.kind = OutcomeKind::kAborted;
  const std::string why_unread = failure(client, unread);
  const size_t end = batch.first + batch.count;
  if (batch.exec) {
    bool all = true;
    for (size_t i = batch.first; i < end; ++i) all = all && reads(i);
    return reply.error(all ? why_unread : why);
  }
  for (size_t i = batch.first; i < end; ++i) reply.error(reads(i) ? why_unread : why);
}

std::string RedisFrontend::no_answer() const {
  return "TRYAGAIN nothing happened within " + std::to_string(txn_worker_->slots().answer_ns() / 1'000'000) +
         " ms (limits.answer_ms)";
}

std::string RedisFrontend::failure(const Client& client, const Outcome& outcome) const {
  if (client.reply_too_long && outcome.code == Code::kApplication) {
    return "ERR the reply is too long, and nothing was done: reply_bytes_max is " +
           std::to_string(options_.reply_bytes_max);
  }
  if (client.too_much_ns != 0 && outcome.code == Code::kApplication) {
    const bool one = std::string_view(client.too_much_of) == "client.command_us_max";
    return "ERR the transaction takes too much work, and nothing was done: " +
           limit_text(client.too_much_of, one ? options_.command_us_max : options_.exec_us_max,
                      client.too_much_ns / 1000);
  }
  if (outcome.code == Code::kAskInstead) {
    return "ABORTED nothing happened: it could not be executed at the primary of its keys; its next try runs here";
  }
  const std::string trouble = txn_worker_->unavailable_reason();
  const std::string why = trouble.empty() ? trouble : ": " + trouble;
  if (outcome.kind == OutcomeKind::kUnknown) return "UNKNOWN " + id_text(outcome.id) + " " + outcome.text() + why;
  const bool over = session_.now_ns() >= answer_by_ns(client);
  if (outcome.code == Code::kNoAnswer || (over && code_retryable(outcome.code))) {
    return no_answer() + ": " + outcome.text() + why;
  }
  if (outcome.kind == OutcomeKind::kAborted) return "ABORTED " + outcome.text();
  if (outcome.code == Code::kPeerUnreachable && txn_worker_->context().views.removed()) return std::string(kRemoved);
  if (outcome.code == Code::kNoTransactions) {
    for (const Member& member : txn_worker_->view().members) {
      if (!member.clients.empty()) return "ERR " + outcome.text() + "; ask " + member.clients;
    }
  }
  if (outcome.code == Code::kTableFull || outcome.code == Code::kBinFull) {
    const bool full = outcome.code == Code::kTableFull;
    return std::string(full ? kOutOfMemory : "ERR ") + outcome.text() + ": " +
           txn_worker_->context().tables.at(outcome.table)->limit_text(outcome.code);
  }
  return "ERR " + outcome.text();
}

}  // namespace weft
