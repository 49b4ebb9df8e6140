#include "weft/txn/context.h"

#include "weft/txn/node.h"

namespace weft {

bool WorkerContext::has_lease() const { return worker->clock_ns() < node->lease_until_ns(); }

}  // namespace weft
