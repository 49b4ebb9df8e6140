#include "weft/bench/workload.h"

#include <charconv>

#include "weft/base/check.h"
#include "weft/bench/micro.h"
#include "weft/bench/retwis.h"
#include "weft/bench/smallbank.h"
#include "weft/bench/tatp.h"
#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_full.h"
#include "weft/bench/tpcc_rows.h"
#include "weft/bench/tpce.h"

namespace weft::bench {
namespace {

constexpr std::string_view kMicro = "micro-";

// "micro-4-2" -> 4 and 2. False if it is anything else.
bool parse_micro(std::string_view name, uint32_t* gets, uint32_t* puts) {
  if (!name.starts_with(kMicro)) return false;
  const char* const end = name.data() + name.size();
  const auto first = std::from_chars(name.data() + kMicro.size(), end, *gets);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, end, *puts);
  return second.ec == std::errc() && second.ptr == end;
}

Error bad(std::string detail) { return {Code::kBadOption, std::move(detail)}; }

}  // namespace

void Tally::add(const Tally& other) {
  for (size_t i = 0; i < kKindsOfTxnMax; ++i) {
    committed[i] += other.committed[i];
    refused[i] += other.refused[i];
  }
  net += other.net;
  failed += other.failed;
  if (wrong.empty()) wrong = other.wrong;
  audits += other.audits;
}

Task<Outcome> Workload::audit(Session&, uint64_t, Effect&) const {
  WEFT_CHECK(false, "who audits has an audit");
  co_return Outcome();
}

size_t pick_kind(std::span<const TxnKind> kinds, uint64_t percent) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (percent < kinds[i].percent) return i;
    percent -= kinds[i].percent;
  }
  WEFT_CHECK(false, "the shares of a mix add up to 100");
  return 0;
}

Result<std::unique_ptr<Workload>> make_workload(std::string_view name, const WorkloadOptions& options) {
  uint32_t gets = 0, puts = 0;
  if (name == "smallbank") {
    if (options.keys < 2) return bad("smallbank needs at least 2 accounts, " + std::to_string(options.keys) + " given");
    const uint64_t bytes = options.value_bytes != 0 ? options.value_bytes : SmallBank::kValueBytes;
    if (bytes != SmallBank::kValueBytes && bytes != SmallBank::kShortValueBytes) {
      return bad("--value-bytes " + std::to_string(bytes) + ": smallbank has balances of 8 or 4 bytes");
    }
    return std::unique_ptr<Workload>(
        std::make_unique<SmallBank>(options.keys, options.skew, static_cast<uint32_t>(bytes)));
  }
  if (name == "tatp") {
    if (options.keys < 1) return bad("tatp needs at least 1 subscriber, 0 given");
    return std::unique_ptr<Workload>(std::make_unique<Tatp>(options.keys));
  }
  if (name == "tpcc-no") {
    if (options.keys < 1 || options.keys > tpcc::kWarehousesMax) {
      return bad("tpcc-no has 1 to " + std::to_string(tpcc::kWarehousesMax) + " warehouses, " +
                 std::to_string(options.keys) + " given");
    }
    return std::unique_ptr<Workload>(std::make_unique<Tpcc>(static_cast<uint32_t>(options.keys), options.suppliers));
  }
  if (name == "tpcc") {
    if (options.keys < 1 || options.keys > tpcc::kWarehousesMax) {
      return bad("tpcc has 1 to " + std::to_string(tpcc::kWarehousesMax) + " warehouses, " +
                 std::to_string(options.keys) + " given");
    }
    tpcc::Sizes sizes;
    sizes.warehouses = static_cast<uint32_t>(options.keys);
    sizes.orders_max = TpccFull::kOrdersRoom;
    return std::unique_ptr<Workload>(std::make_unique<TpccFull>(sizes));
  }
  if (name == "tpce-cp") {
    if (options.keys < TpceCp::kCustomersMin || options.keys > TpceCp::kCustomersMax) {
      return bad("tpce-cp has " + std::to_string(TpceCp::kCustomersMin) + " to " +
                 std::to_string(TpceCp::kCustomersMax) + " customers in all, " + std::to_string(options.keys) +
                 " given");
    }
    return std::unique_ptr<Workload>(std::make_unique<TpceCp>(options.keys));
  }
  if (name == "retwis") {
    if (options.keys < Retwis::kKeysMax) {
      return bad("--keys: retwis needs at least " + std::to_string(Retwis::kKeysMax) + " records in all, " +
                 std::to_string(options.keys) + " given");
    }
    return std::unique_ptr<Workload>(std::make_unique<Retwis>(options.keys, options.skew));
  }
  if (parse_micro(name, &gets, &puts)) {
    if (gets > Micro::kKeysMax || puts > Micro::kKeysMax || gets + puts < 1 || gets + puts > Micro::kKeysMax) {
      return bad(std::string(name) + ": a micro workload has 1 to " + std::to_string(Micro::kKeysMax) +
                 " gets and puts together");
    }
    if (options.keys < Micro::kKeysMax) {
      return bad(std::string(name) + " needs at least " + std::to_string(Micro::kKeysMax) + " records, " +
                 std::to_string(options.keys) + " given");
    }
    const auto zipf = Zipf::create(options.keys, options.zipf);
    if (!zipf) return zipf.error();
    return std::unique_ptr<Workload>(std::make_unique<Micro>(gets, puts, options.keys, options.zipf));
  }
  return bad("no workload is called '" + std::string(name) + "'; there are " + workload_names());
}

uint64_t default_keys(std::string_view name) {
  if (name == "tpcc-no" || name == "tpcc") return 2;
  if (name == "tpce-cp") return 5'000;
  return name == "tatp" ? 200'000 : 1'000'000;
}

std::string workload_names() {
  return "smallbank, tatp, tpcc, tpcc-no, tpce-cp, retwis and micro-G-P (G gets and P puts, for example micro-4-2)";
}

}  // namespace weft::bench
