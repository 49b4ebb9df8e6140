#include "weft/member/initial_members.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "weft/member/view_json.h"

namespace weft {

namespace {

constexpr size_t kTextBytesMax = 64 << 10;

Error bad(const std::string& what) { return {Code::kBadOption, "initial_members: " + what}; }

Result<Member> initial_member_of(const nlohmann::json& json, int nodes) {
  const auto text_of = [&](const char* name) {
    const auto field = json.find(name);
    return field != json.end() && field->is_string() ? field->get<std::string>() : std::string();
  };
  if (!json.is_object() || !json.contains("node") || !json["node"].is_number_unsigned()) return bad("no node");
  const auto node = json["node"].get<uint64_t>();
  if (node >= static_cast<uint64_t>(nodes)) {
    return bad("node " + std::to_string(node) + ", there are " + std::to_string(nodes));
  }
  Member member;
  member.node = NodeId(static_cast<uint8_t>(node));
  const std::string token = text_of("token");
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), member.token, 16);
  if (error != std::errc() || end != token.data() + token.size() || member.token == 0) return bad("token " + token);
  member.address = text_of("address");
  if (member.address.empty() || member.address.size() > kAddressBytesMax) return bad("address " + member.address);
  member.clients = text_of("clients");
  if (member.clients.size() > kAddressBytesMax) return bad("clients " + member.clients);
  if (json.contains("roles")) {
    const std::optional<NodeRoles> roles = roles_by_name(text_of("roles"));
    if (!roles) return bad("roles " + json["roles"].dump());
    member.roles = *roles;
  }
  return member;
}

// How the list's numbers differ from those of `bootstrap`; empty if they do not.
std::string difference(const nlohmann::json& json, const BootstrapOptions& bootstrap) {
  for (const auto& [name, here] : {std::pair{"first", bootstrap.nodes}, std::pair{"replicas", bootstrap.replicas},
                                   std::pair{"partitions", bootstrap.partitions}}) {
    const auto field = json.find(name);
    if (field == json.end() || !field->is_number_unsigned()) return std::string("no ") + name;
    if (field->get<uint64_t>() == static_cast<uint64_t>(here)) continue;
    const bool counts = name == std::string_view("first");
    return std::string("cluster.") + (counts ? "initial_members" : name) + " is " + field->dump() +
           " at the others and " + std::to_string(here) + " here";
  }
  const std::string protocol = json.value("protocol", nlohmann::json()).dump();
  const std::string here = bootstrap.protocol.empty() ? "null" : nlohmann::json(bootstrap.protocol).dump();
  if (protocol != here) return "cluster.protocol is " + protocol + " at the others and " + here + " here";
  return {};
}

Result<std::vector<Member>> initial_members_of(std::string_view text, const BootstrapOptions& bootstrap) {
  std::vector<Member> initial_members;
  if (text.empty()) return initial_members;
  if (text.size() > kTextBytesMax) return bad(std::to_string(text.size()) + " bytes");
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("initial_members") || !json["initial_members"].is_array())
    return bad("no list");
  if (const std::string differs = difference(json, bootstrap); !differs.empty()) return bad(differs);
  for (const auto& entry : json["initial_members"]) {
    const Result<Member> initial_member = initial_member_of(entry, bootstrap.nodes);
    if (!initial_member) return initial_member.error();
    const bool twice = std::any_of(initial_members.begin(), initial_members.end(),
                                   [&](const Member& m) { return m.node == initial_member->node; });
    if (twice) return bad("node " + std::to_string(initial_member->node.value) + " twice");
    initial_members.push_back(*initial_member);
  }
  return initial_members;
}

}  // namespace

Result<View> first_view(const BootstrapOptions& bootstrap, const std::vector<Member>& initial_members) {
  std::vector<NodeRoles> roles(static_cast<size_t>(bootstrap.nodes), NodeRoles::kBoth);
  for (const Member& initial_member : initial_members) roles[initial_member.node.value] = initial_member.roles;
  const auto of_role = [&](bool (*has)(NodeRoles)) { return std::count_if(roles.begin(), roles.end(), has); };
  if (const auto data = of_role(holds_data); data < bootstrap.replicas) {
    return bad(std::to_string(data) + " of " + std::to_string(bootstrap.nodes) + " hold data (node.roles), and " +
               std::to_string(bootstrap.replicas) + " replicas (cluster.replicas) need as many");
  }
  if (of_role(runs_transactions) == 0) return bad("none of them runs transactions (node.roles)");
  View view = make_view(roles, bootstrap.replicas, bootstrap.partitions);
  view.protocol = bootstrap.protocol;
  for (const Member& initial_member : initial_members) {
    view.members[initial_member.node.value].token = initial_member.token;
    view.members[initial_member.node.value].address = initial_member.address;
    view.members[initial_member.node.value].clients = initial_member.clients;
  }
  return view;
}

bool is_initial_members(std::string_view text) {
  const auto json = nlohmann::json::parse(text.substr(0, kTextBytesMax), nullptr, false);
  return json.is_object() && json.contains("initial_members");
}

Result<std::string> add_initial_member(std::string_view text, const Member& self, const BootstrapOptions& bootstrap) {
  Result<std::vector<Member>> initial_members = initial_members_of(text, bootstrap);
  if (!initial_members) return initial_members.error();
  if (self.node.value >= bootstrap.nodes) return std::string();  // it joins later
  const auto place = std::find_if(initial_members->begin(), initial_members->end(),
                                  [&](const Member& m) { return m.node == self.node; });
  if (place == initial_members->end()) {
    initial_members->push_back(self);
  } else if (place->token != self.token) {
    *place = self;
  } else {
    return std::string();
  }
  if (initial_members->size() == static_cast<size_t>(bootstrap.nodes)) {
    const Result<View> view = first_view(bootstrap, *initial_members);
    if (!view) return view.error();
    std::string text_of_view = to_json(*view);
    const Result<View> back = view_from_json(text_of_view);
    if (!back) return bad("no view can be made of them: " + back.error().detail);
    return text_of_view;
  }
  nlohmann::json json = {{"initial_members", nlohmann::json::array()},
                         {"first", bootstrap.nodes},
                         {"replicas", bootstrap.replicas},
                         {"partitions", bootstrap.partitions}};
  if (!bootstrap.protocol.empty()) json["protocol"] = bootstrap.protocol;
  for (const Member& m : *initial_members) {
    json["initial_members"].push_back({{"node", m.node.value}, {"token", token_text(m.token)}, {"address", m.address}});
    if (!m.clients.empty()) json["initial_members"].back()["clients"] = m.clients;
    if (m.roles != NodeRoles::kBoth) json["initial_members"].back()["roles"] = roles_name(m.roles);
  }
  return json.dump(2);
}

}  // namespace weft
