// What stands in files of certificates (PEM), apart from their use in TLS (tcp_tls.h).
#pragma once

#include <string>

namespace weft {

// True if one of the certificates in the file signed itself: who trusts the file trusts it. A file that cannot be read
// has none.
bool has_root(const std::string& file);

}  // namespace weft
