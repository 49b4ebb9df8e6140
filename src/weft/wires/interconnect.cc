#include "weft/wires/interconnect.h"

#include <algorithm>
#include <optional>

namespace weft {

namespace {

std::optional<uint64_t> value_of(const HandshakeParams& params, const std::string& name) {
  const auto it =
      std::find_if(params.fields.begin(), params.fields.end(), [&](const auto& field) { return field.first == name; });
  if (it == params.fields.end()) return std::nullopt;
  return it->second;
}

std::string said(std::optional<uint64_t> value) { return value ? std::to_string(*value) : "not known"; }
std::string at_node(NodeId node) { return " at node " + std::to_string(node.value); }

}  // namespace

std::string printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

std::string mismatch(NodeId a, const HandshakeParams& of_a, NodeId b, const HandshakeParams& of_b) {
  if (of_a.cluster != of_b.cluster) {
    return "cluster is \"" + printable(of_a.cluster) + "\"" + at_node(a) + " and \"" + printable(of_b.cluster) + "\"" +
           at_node(b);
  }
  for (const HandshakeParams* one : {&of_a, &of_b}) {
    for (const auto& field : one->fields) {
      const auto in_a = value_of(of_a, field.first);
      const auto in_b = value_of(of_b, field.first);
      if (in_a == in_b) continue;
      return printable(field.first) + " is " + said(in_a) + at_node(a) + " and " + said(in_b) + at_node(b);
    }
  }
  return {};
}

}  // namespace weft
