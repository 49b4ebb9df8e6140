#include "weft/fabric/carry_out.h"

#include "weft/base/bytes.h"

namespace weft {

bool carry_out(const Regions::Section& section, const Verb& verb) {
  if (verb.offset % 8 != 0) return false;
  std::byte* const target = section.resolve(verb.region, verb.offset, is_atomic(verb.kind) ? 8 : verb.bytes);
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

}  // namespace weft
