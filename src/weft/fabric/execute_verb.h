// Executes one one-sided verb on memory that this process can reach. Wires without RDMA hardware use it, at the
// initiator (local, shm) or at the target (tcp).
//
// READ and WRITE use loads and stores of 8 bytes (base/bytes.h); the atomic verbs use locked instructions and ignore
// `bytes`. The offset must be a multiple of 8, else the verb is refused. A WRITE whose length is not a multiple of 8
// zeroes the rest of its last word, since shared objects are padded to 8.
#pragma once

#include "weft/base/bytes.h"
#include "weft/fabric/region.h"
#include "weft/fabric/wire.h"

namespace weft {

constexpr bool is_atomic(VerbKind kind) { return kind == VerbKind::kCompareSwap || kind == VerbKind::kFetchAdd; }

// How many bytes of the target the verb touches.
constexpr uint64_t reach(const Verb& verb) { return is_atomic(verb.kind) ? 8 : verb.bytes; }

// `target` is nullptr if there is no grant or the range is outside the region. False if the verb is refused; nothing
// was touched then.
inline bool execute_verb(const Verb& verb, std::byte* target) {
  if (target == nullptr) return false;
  auto* const word = reinterpret_cast<uint64_t*>(target);
  switch (verb.kind) {
    case VerbKind::kRead:
      copy_from_shared(verb.local, target, verb.bytes);
      break;
    case VerbKind::kWrite:
      copy_to_shared(target, verb.local, verb.bytes);
      break;
    case VerbKind::kCompareSwap: {
      uint64_t old = verb.compare;
      __atomic_compare_exchange_n(word, &old, verb.operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      store(verb.local, old);
      break;
    }
    case VerbKind::kFetchAdd:
      store(verb.local, __atomic_fetch_add(word, verb.operand, __ATOMIC_SEQ_CST));
      break;
  }
  return true;
}

inline bool execute_verb(const Regions::Section& section, const Verb& verb) {
  return verb.offset % 8 == 0 && execute_verb(verb, section.resolve(verb.region, verb.offset, reach(verb)));
}

}  // namespace weft
