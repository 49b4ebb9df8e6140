// What TPC-C draws: numbers that are drawn unevenly, and last names.
#include <array>
#include <cstring>
#include <string_view>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_full_rows.h"
#include "weft/bench/tpcc_load.h"
#include "weft/bench/tpcc_rows.h"

namespace weft::bench::tpcc {
namespace {

// NURand's A, and the C of what is loaded and of what is run, which differ as clause 2.1.6.1 wants it.
constexpr uint64_t kNameSpread = 255, kNameShiftOfLoad = 157, kNameShiftOfRun = 223;
constexpr uint64_t kCustomerSpread = 1'023, kCustomerShift = 259;
constexpr uint64_t kItemSpread = 8'191, kItemShift = 7'911;

}  // namespace

std::string_view last_name(uint32_t number, std::array<char, 16>* room) {
  constexpr std::string_view kSyllables[] = {"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                             "ESE", "ANTI",  "CALLY", "ATION", "EING"};
  size_t at = 0;
  for (const uint32_t digit : {number / 100 % 10, number / 10 % 10, number % 10}) {
    std::memcpy(room->data() + at, kSyllables[digit].data(), kSyllables[digit].size());
    at += kSyllables[digit].size();
  }
  return {room->data(), at};
}

uint32_t draw_unevenly(Random& random, uint64_t spread, uint64_t shift, uint32_t from, uint32_t to) {
  const uint64_t drawn = random.between(0, spread) | random.between(from, to);
  return static_cast<uint32_t>((drawn + shift) % (to - from + 1) + from);
}

uint32_t draw_customer(Random& random, uint32_t customers) {
  return draw_unevenly(random, kCustomerSpread, kCustomerShift, 1, customers);
}

uint32_t draw_item(Random& random, uint32_t items) { return draw_unevenly(random, kItemSpread, kItemShift, 1, items); }

uint32_t draw_last_name(Random& random, uint32_t customers) {
  return draw_unevenly(random, kNameSpread, kNameShiftOfRun, 0, last_names(customers) - 1);
}

uint32_t last_name_number(uint32_t customer, Random& random) {
  if (customer <= kLastNames) return customer - 1;
  return draw_unevenly(random, kNameSpread, kNameShiftOfLoad, 0, kLastNames - 1);
}

uint32_t warehouse_here(const Session& session, uint32_t warehouses, uint32_t from) {
  for (uint32_t i = 0; i < warehouses; ++i) {
    const uint32_t w = (from + i) % warehouses;
    if (session.primary_of(Tpcc::kWarehouse, key_of(w, 0, 0)) == session.node()) return w;
  }
  return from;
}

uint32_t another_warehouse(Random& random, uint32_t warehouse, uint32_t warehouses) {
  if (warehouses == 1) return warehouse;
  const auto drawn = static_cast<uint32_t>(random.below(warehouses - 1));
  return drawn >= warehouse ? drawn + 1 : drawn;
}

}  // namespace weft::bench::tpcc
