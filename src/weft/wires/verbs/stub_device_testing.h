// The stand-in for libibverbs and an RDMA driver, for tests: include this.
#pragma once

#include "weft/wires/verbs/stub_objects_testing.h"  // what is made, found out and freed
#include "weft/wires/verbs/stub_verbs_testing.h"    // the class
#include "weft/wires/verbs/stub_work_testing.h"     // what is posted, carried out and completed
