// The seven transactions of TATP, one attempt each. workload.h says what a refusal is.
#pragma once

#include "weft/bench/workload.h"

namespace weft::bench::tatp {

Task<Outcome> get_subscriber(Session& session, const Call& call, Effect& effect);
Task<Outcome> get_access(Session& session, const Call& call, Effect& effect);
Task<Outcome> get_new_destination(Session& session, const Call& call, Effect& effect);
Task<Outcome> update_location(Session& session, const Call& call);
Task<Outcome> insert_forwarding(Session& session, const Call& call, Effect& effect);
Task<Outcome> delete_forwarding(Session& session, const Call& call, Effect& effect);

// A stored procedure: changes the subscriber and the facility, or neither if there is no such facility.
void update_subscriber_keys(std::string_view arguments, StoredProcedure::Keys& keys);
Code update_subscriber_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes);

}  // namespace weft::bench::tatp
