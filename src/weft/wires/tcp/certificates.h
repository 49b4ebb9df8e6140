// What stands in certificates, apart from their use in TLS (tcp_tls.h): above all the name of a node, a URI among the
// subject's alternative names,
//
//   weft://CLUSTER/node/ID        openssl ... -addext subjectAltName=URI:weft://orders/node/3
//
// compared letter by letter. A certificate may have several, for a machine whose node changes.
#pragma once

#include <string>

#include "weft/types.h"

struct x509_st;

namespace weft {

std::string node_name(const std::string& cluster, NodeId node);

// What is wrong with this certificate for that node, as in "names weft://orders/node/1, expected ..."; empty: nothing.
std::string naming_fault(const x509_st* certificate, const std::string& cluster, NodeId node);
// The same of the first certificate in a PEM file, which can be read.
std::string naming_fault(const std::string& file, const std::string& cluster, NodeId node);

// True if one of the certificates in the file signed itself: who trusts the file trusts it. A file that cannot be read
// has none.
bool has_root(const std::string& file);

// True if who trusts the authorities in `file` trusts what one of those in `other` signed, too.
bool trusts_authority(const std::string& file, const std::string& other);

}  // namespace weft
