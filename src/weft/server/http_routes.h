// HttpRoutes: what a control thread shows over HTTP (http.h has the one there is). Everything happens in step(), on the
// thread that calls it; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weft {

class HttpRoutes {
 public:
  using Text = std::function<std::string()>;

  virtual ~HttpRoutes() = default;
  // GET `path` answers what `text` gives then. An empty function takes the page away.
  virtual void route(const std::string& path, std::string_view type, Text text) = 0;
  virtual int fd() const = 0;  // readable when step() has something to do
  virtual void step() = 0;
  virtual uint64_t requests() const = 0;         // that were answered
  virtual uint64_t wrong_passwords() const = 0;  // that came with them
};

}  // namespace weft
