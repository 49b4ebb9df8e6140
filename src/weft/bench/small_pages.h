// SmallPages: while such an object exists, this process gets no huge pages.
#pragma once

#include <sys/prctl.h>

namespace weft::bench {

// Simulated nodes have many small regions: huge pages would cost more than everything else.
class SmallPages {
 public:
  SmallPages() : before_(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0)) { prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); }
  ~SmallPages() { prctl(PR_SET_THP_DISABLE, before_ > 0 ? 1 : 0, 0, 0, 0); }
  SmallPages(const SmallPages&) = delete;
  SmallPages& operator=(const SmallPages&) = delete;

 private:
  const int before_;
};

}  // namespace weft::bench
