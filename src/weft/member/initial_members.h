// Bootstrap of a cluster: its nodes announce themselves, and when all have, the first view is made. A membership that
// keeps only one text keeps the list of initial members in it until it becomes a view:
//
//   {"initial_members": [{"node": 0, "token": "00000000000000a7", "address": "10.0.0.1:7400", "roles": "data"}],
//    "first": 3, "replicas": 2, "partitions": 6, "protocol": "dnl4"}
//
// The numbers and the protocol are those of the first initial member; a process with others is not an initial member
// and changes nothing. A process that is missing from the list adds itself, and the one that completes the list writes
// the first view instead: if as many hold data as there are replicas, and one runs transactions. A restarted process
// replaces the one before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/member/view.h"
#include "weft/status.h"

namespace weft {

struct BootstrapOptions {
  int nodes = 0;  // of the first view; 0: this process does not bootstrap
  int replicas = 1;
  int partitions = 1;
  std::string protocol = {};  // what the view records; empty: nothing
};

// Of all its members; an error if their roles do not suffice.
Result<View> first_view(const BootstrapOptions& bootstrap, const std::vector<Member>& initial_members);

bool is_initial_members(std::string_view text);
// The text that follows `text` (empty: there is none yet) once `self` has seen it; empty if it does not change. An
// error names what is wrong with the text.
Result<std::string> add_initial_member(std::string_view text, const Member& self, const BootstrapOptions& bootstrap);

}  // namespace weft
