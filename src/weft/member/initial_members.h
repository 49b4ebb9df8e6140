// The beginning of a cluster: its nodes say that they are there, and when all have, there is a first view. Where a
// membership keeps only one text, that text is the list of initial_members until it is a view:
//
//   {"initial_members": [{"node": 0, "token": "00000000000000a7", "address": "10.0.0.1:7400"}],
//    "first": 3, "replicas": 2, "partitions": 6}
//
// The numbers are those of the first initial_member; who has others is none, and changes nothing.
// Whoever finds himself missing adds himself, and whoever completes the list writes the first view instead. A process
// that starts again takes the place of the one before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/member/view.h"
#include "weft/status.h"

namespace weft {

struct BootstrapOptions {
  int nodes = 0;  // of the first view; 0: this process founds nothing
  int replicas = 1;
  int partitions = 1;
};

View first_view(const BootstrapOptions& bootstrap, const std::vector<Member>& initial_members);

bool is_initial_members(std::string_view text);
// What the text becomes when `self` has seen it (empty: there is none yet); nothing if it stays. An error names what is
// wrong with it.
Result<std::string> add_initial_member(std::string_view text, const Member& self, const BootstrapOptions& bootstrap);

}  // namespace weft
