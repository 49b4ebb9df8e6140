// A view as text, for a membership that keeps it outside the cluster and for people who look at it:
//
//   {
//     "epoch": 3,
//     "replicas": 2,
//     "protocol": "dnl4",
//     "next_incarnation": 4,
//     "members": [
//       {"node": 0, "incarnation": 1, "token": "00000000000000a7", "address": "10.0.0.1:7400", "roles": ["data",
//       "transactions"]},
//       {"node": 2, "incarnation": 3, "token": "5c0ffee5c0ffee00", "address": "10.0.0.3:7400", "roles": ["data"]}
//     ],
//     "partitions": [
//       {"replicas": [0], "filling": [2]},
//       {"replicas": [2, 0], "filling": []}
//     ]
//   }
//
// `replicas` of a partition are those in sync, the primary first; `filling` are those catching up. While a replica
// moves, the partition has a third field, `"leaving": [0]`: the in-sync replica that is dropped when the one that is
// catching up is in sync. A token is 64 bits, in hex because many readers of JSON keep numbers as doubles. A member
// that answers clients also has `"clients": "host:port"`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "weft/member/view.h"
#include "weft/status.h"

namespace weft {

inline constexpr size_t kProtocolBytesMax = 64;
inline constexpr size_t kAddressBytesMax = 260;         // a host name of 253 and a port
inline constexpr size_t kViewTextBytesMax = 768 << 10;  // ZooKeeper's limit of a node's data is a MiB

std::string to_json(const View& view);

// The text is untrusted input. The result is a view that the changes of view.h could have made:
// V1: at least one member; members in the order of their ids, below kNodesMax, each once.
// V2: incarnations are given once: 1 or more, all different, all below next_incarnation.
// V3: 1 to kPartitionsMax partitions, each with an in-sync replica.
// V4: replicas, in sync or catching up, are members that hold data, each once, at most `replicas` of them. A partition
//     with a draining replica, which is in sync, has `replicas` in-sync ones and another that is catching up.
// An error names the field and the value.
Result<View> view_from_json(std::string_view text);

std::string token_text(uint64_t token);  // 16 hexadecimal digits

}  // namespace weft
