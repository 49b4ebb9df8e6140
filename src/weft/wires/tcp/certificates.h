// The content of certificates, apart from their use in TLS (tls.h): above all the name of a node, a URI among the
// subject's alternative names,
//
//   weft://CLUSTER/node/ID        openssl ... -addext subjectAltName=URI:weft://orders/node/3
//
// compared exactly. A certificate may have several, for a machine whose node changes.
#pragma once

#include <string>

#include "weft/types.h"

struct x509_st;

namespace weft {

std::string node_name(const std::string& cluster, NodeId node);

// What is wrong with this certificate for that node, as in "names weft://orders/node/1, expected ..."; empty: nothing.
std::string naming_fault(const x509_st* certificate, const std::string& cluster, NodeId node);
// The same for the first certificate in a PEM file, which must be readable.
std::string naming_fault(const std::string& file, const std::string& cluster, NodeId node);

// True if one of the certificates in the file is self-signed: trusting the file means trusting it. False for a file
// that cannot be read.
bool has_root(const std::string& file);

// True if trusting the authorities in `file` implies trusting what one of those in `other` signed.
bool trusts_authority(const std::string& file, const std::string& other);

}  // namespace weft
