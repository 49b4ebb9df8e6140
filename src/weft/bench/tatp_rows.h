// The rows of TATP's tables and their keys: plain data, copied in and out of values.
#pragma once

#include <cstdint>

#include "weft/bench/rows.h"

namespace weft::bench::tatp {

struct Subscriber {
  uint64_t number;  // the telephone number, see number_of
  uint8_t hex[5];
  uint8_t bytes[10];
  uint8_t spare1;
  uint16_t bits;
  uint16_t spare2;
  uint32_t msc_location;
  uint32_t vlr_location;
  uint32_t spare3;
};
static_assert(sizeof(Subscriber) == 40);

struct Secondary {
  uint64_t subscriber;
};
static_assert(sizeof(Secondary) == 8);

struct Access {
  uint8_t data1, data2;
  char data3[3], data4[5];
  uint8_t spare[6];
};
static_assert(sizeof(Access) == 16);

struct Facility {
  uint8_t active, error_control, data_a;
  char data_b[5];
};
static_assert(sizeof(Facility) == 8);

struct Forwarding {
  uint8_t end_time;  // hour, 1 .. 24
  char number[15];
};
static_assert(sizeof(Forwarding) == 16);

inline constexpr uint64_t kTypes = 4;   // of access rows and of facilities, 1 .. 4
inline constexpr uint64_t kStarts = 3;  // of forwardings: hour 0, 8 or 16

constexpr uint64_t access_key(uint64_t subscriber, uint64_t type) { return subscriber * kTypes + (type - 1); }
constexpr uint64_t facility_key(uint64_t subscriber, uint64_t type) { return subscriber * kTypes + (type - 1); }
constexpr uint64_t forwarding_key(uint64_t facility, uint64_t start_hour) {
  return facility * kStarts + start_hour / 8;
}

// A telephone number has 15 decimal digits, four bits each; it is the subscriber's id.
constexpr uint64_t number_of(uint64_t subscriber) {
  uint64_t number = 0;
  for (int shift = 0; shift < 60 && subscriber != 0; shift += 4, subscriber /= 10) {
    number |= (subscriber % 10) << shift;
  }
  return number;
}
static_assert(number_of(1234) == 0x1234);

}  // namespace weft::bench::tatp
