// One one-sided verb, carried out on memory of this process: what the wires that have no hardware for it do, at the
// poster (local) or at the target (tcp).
//
// Real loads and stores of 8 bytes (base/bytes.h), and locked instructions for the atomic verbs. The offset is a
// multiple of 8, else the verb is refused; a WRITE whose length is not a multiple of 8 zeroes the rest of its last
// word, since shared objects are padded to 8; `bytes` of the atomic verbs is ignored.
#pragma once

#include "weft/fabric/region.h"
#include "weft/fabric/wire.h"

namespace weft {

constexpr bool is_atomic(VerbKind kind) { return kind == VerbKind::kCompareSwap || kind == VerbKind::kFetchAdd; }

// False if it is refused: no grant, outside the region, or misaligned. Nothing was touched then.
bool carry_out(const Regions::Section& section, const Verb& verb);

}  // namespace weft
