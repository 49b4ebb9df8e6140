#include "weft/txn/one_sided.h"

#include <charconv>
#include <string>
#include <utility>

#include "weft/base/check.h"
#include "weft/txn/verb_requests.h"

namespace weft {

Result<std::optional<VerbCreditOptions>> verb_credit_of(const Options& options) {
  const std::string& text = options.verb_credit;
  VerbCreditOptions credit;
  if (text == "off" || (text.empty() && options.fabric != "verbs")) return std::optional<VerbCreditOptions>();
  if (text == "auto" || text.empty()) return std::optional(credit);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, credit.limit);
  if (error != std::errc() || stop != end || credit.limit < 1 || credit.limit > kVerbCreditMax) {
    return Error{Code::kBadOption,
                 "verb_credit is \"" + text + "\", must be auto, off, or 1 to " + std::to_string(kVerbCreditMax)};
  }
  return std::optional(credit);
}

namespace {

std::optional<VerbCredit> make_credit(const Options& options, uint64_t period_ns, PlantedBugs bugs) {
  std::optional<VerbCreditOptions> credit = *verb_credit_of(options);
  if (!credit) return std::nullopt;
  if (period_ns != 0) {
    credit->completions_min = static_cast<uint32_t>(credit->completions_min * period_ns / credit->period_ns);
    credit->period_ns = period_ns;
  }
  credit->bugs = bugs;
  return VerbCredit(*credit);
}

}  // namespace

OneSided::OneSided(WorkerContext& ctx, const RowSet& rows, const Options& options, VerbMemory& memory,
                   LocationCache locations, const Planner& planner, const MessageTransport& messages, SlotTable& slots,
                   uint64_t credit_period_ns)
    : ctx_(ctx),
      memory_(memory),
      planner_(planner),
      slots_(slots),
      locations_(std::move(locations)),
      credit_(make_credit(options, credit_period_ns, ctx.bugs)),
      verb_issuer_(
          VerbIssuerOptions{ctx.nodes, Domain::kEngine, kSlotsMax, options.doorbell_batching, options.pipelined_verbs,
                            credit_ ? &*credit_ : nullptr, ctx.conflicts.measures() ? &ctx.conflicts : nullptr},
          ctx.wire, ctx.cost_model, memory.request_buffers(ctx.id), memory.request_bytes()),
      log_writer_(rows.logs_by_verb() ? std::make_optional<LogWriter>(ctx, memory, verb_issuer_, messages)
                                      : std::nullopt),
      transport_(ctx, verb_issuer_, locations_, log_writer(), slots) {}

void OneSided::connect(Reads& reads, TxnKeys& keys, CommitParser& parser, Participant& participant) {
  WEFT_CHECK(!reads_ && !log_receiver_, "parts are connected once");
  reads_.emplace(ctx_, verb_issuer_, locations_, planner_, slots_, keys, reads);
  if (log_writer_) log_receiver_.emplace(ctx_, memory_, parser, participant);
}

bool OneSided::poll(Coordinator& coordinator) {
  if (log_receiver_) log_receiver_->drain();
  Answered context{this, &coordinator};
  return verb_issuer_.poll(
      ctx_.now_ns(),
      [](void* to, VerbRequest& request) {
        const auto* answered = static_cast<const Answered*>(to);
        answered->self->on_posted(request, *answered->coordinator);
      },
      &context);
}

void OneSided::on_posted(VerbRequest& request, Coordinator& coordinator) {
  const TxnRequest::Purpose purpose = request.user_as<TxnRequest>().purpose;
  using Purpose = TxnRequest::Purpose;
  if (purpose == Purpose::kRecord || purpose == Purpose::kBin || purpose == Purpose::kLinks) {
    WEFT_CHECK(reads_.has_value(), "parts are connected before verbs are posted");
    reads_->on_posted(request);
    return;
  }
  TxnSlot* slot = transport_.on_posted(request);
  if (slot != nullptr && slot->phase_over()) coordinator.on_answered(*slot);
}

void OneSided::finish_view() {
  WEFT_CHECK(reads_.has_value() && log_writer_.has_value() == log_receiver_.has_value(), "who writes rings reads them");
  if (log_receiver_) {
    if (!ctx_.bugs.has(PlantedBug::kRingNotDrained)) log_receiver_->drain();
    log_writer_->begin_view();
    log_receiver_->begin_view();
  }
  reads_->forget_indexes();
}

}  // namespace weft
