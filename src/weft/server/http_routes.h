// HttpRoutes: what a control thread serves over HTTP (implemented in http.h). Everything happens in step(), on the
// calling thread; nothing blocks.
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
  // GET `path` answers what `text` returns then. An empty function removes the page.
  virtual void route(const std::string& path, std::string_view type, Text text) = 0;
  virtual int fd() const = 0;  // readable when step() has work to do
  virtual void step() = 0;
  virtual uint64_t requests() const = 0;         // that were answered
  virtual uint64_t wrong_passwords() const = 0;  // that came with them
};

}  // namespace weft
