// Service: background work of a worker, a little in every iteration of its loop. One virtual call per iteration, never
// per message.
#pragma once

#include <cstdint>

namespace weft {

class Service {
 public:
  virtual ~Service() = default;
  virtual bool step(uint64_t now_ns) = 0;              // true if it did something
  virtual uint64_t deadline_ns() const = 0;            // the latest time of the next step; UINT64_MAX: none is due
  virtual void on_view_ended() {}                      // drop what belongs to the view that ends
  virtual bool has_left_view() const { return true; }  // no work of the view that ended is left; recovery waits for it
  virtual void on_view_active() {}                     // the worker's view is active
};

}  // namespace weft
