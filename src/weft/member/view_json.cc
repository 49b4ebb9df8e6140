#include "weft/member/view_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr size_t kTokenDigits = 16;
constexpr std::string_view kData = "data", kTransactions = "transactions";
constexpr size_t kDepthMax = 4;  // the view, a list, a member or a partition, a list in it

// The longest lines: every number with the most digits, every character of an address escaped.
constexpr size_t kMemberLineMax = 160 + 4 * kAddressBytesMax, kPartitionLineMax = 72 + 4 * (kReplicasMax + 2);
static_assert(512 + 4 * kNodesMax + kNodesMax * kMemberLineMax + kPartitionsMax * kPartitionLineMax <
              kViewTextBytesMax);

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace); }

template <class List, class Write>
std::string joined(const List& list, const char* between, const Write& write) {
  std::string out;
  for (const auto& item : list) out.append(out.empty() ? "" : between).append(write(item));
  return out;
}

template <class Nodes>
std::string list_of(const Nodes& nodes) {
  return joined(nodes, ", ", [](NodeId node) { return std::to_string(node.value); });
}

std::string roles_of(const Member& member) {
  std::vector<std::string_view> roles;
  if (holds_data(member.roles)) roles.push_back(kData);
  if (runs_transactions(member.roles)) roles.push_back(kTransactions);
  return joined(roles, ", ", [](std::string_view role) { return quoted(std::string(role)); });
}

std::string line_of(const Member& member) {
  return "    {\"node\": " + std::to_string(member.node.value) +
         ", \"incarnation\": " + std::to_string(member.incarnation) + ", \"token\": \"" + token_text(member.token) +
         "\", \"address\": " + quoted(member.address) +
         (member.clients.empty() ? "" : ", \"clients\": " + quoted(member.clients)) + ", \"roles\": [" +
         roles_of(member) + "]}";
}

std::string line_of(const Placement& placement) {
  const std::vector<NodeId> whole(placement.replicas.begin(), placement.replicas.begin() + placement.count);
  return "    {\"replicas\": [" + list_of(whole) + "], \"filling\": [" + list_of(placement.catching_up) + "]" +
         (placement.draining.empty() ? "" : ", \"leaving\": [" + list_of(placement.draining) + "]") + "}";
}

std::string line_of(const Change& change) {
  return R"({"cause": ")" + std::string(cause_name(change.cause)) + R"(", "by": )" + std::to_string(change.by.value) +
         R"(, "of": [)" + list_of(change.of) + "]}";
}

// What the parsed tree no longer shows: where the text stops being JSON, duplicate fields, and unlimited nesting.
class Syntax final : public nlohmann::json_sax<Json> {
 public:
  const std::string& fault() const { return fault_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*elements*/) override { return deeper(); }
  bool end_object() override { return end(); }
  bool start_array(size_t /*elements*/) override { return deeper(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    return fail("the field " + quoted(name.substr(0, 32)) + " is there twice");
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& /*why*/) override {
    return fail("not JSON at byte " + std::to_string(position));
  }

 private:
  bool deeper() {
    if (open_.size() == kDepthMax) return fail("lists and objects are nested deeper than " + std::to_string(kDepthMax));
    open_.emplace_back();
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  bool fail(const std::string& why) {
    fault_ = why;
    return false;
  }

  std::vector<std::set<std::string>> open_;  // fields seen, for each open object
  std::string fault_;
};

// Reads the tree. Each function returns false when something is invalid; fault() says what, the first time.
class Reader {
 public:
  bool read(const Json& in, View& out);
  const std::string& fault() const { return fault_; }

 private:
  bool fail(const std::string& where, const Json& value, const std::string& why);
  bool fields(const std::string& where, const Json& in, std::initializer_list<const char*> names,
              std::initializer_list<const char*> optional = {});
  bool list(const std::string& where, const Json& in, size_t min, size_t max);
  template <class Integer>
  bool integer(const std::string& where, const Json& in, uint64_t min, uint64_t max, Integer& out);
  bool text(const std::string& where, const Json& in, size_t bytes_max);
  bool change(const Json& in, Change& out);
  bool member(const std::string& where, const Json& in, const View& view, Member& out);
  bool token(const std::string& where, const Json& in, uint64_t& out);
  bool roles(const std::string& where, const Json& in, Member& out);
  bool placement(const std::string& where, const Json& in, const View& view, Placement& out);
  bool replica(const std::string& where, const Json& in, const View& view, const Placement& so_far, NodeId& out);

  std::string fault_;
};

std::string at(const std::string& list, size_t i) { return list + "[" + std::to_string(i) + "]"; }

bool Reader::fail(const std::string& where, const Json& value, const std::string& why) {
  std::string shown = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > 64) shown = shown.substr(0, 61) + "...";
  fault_ = where + " is " + shown + ": " + why;
  return false;
}

bool Reader::fields(const std::string& where, const Json& in, std::initializer_list<const char*> names,
                    std::initializer_list<const char*> optional) {
  if (!in.is_object()) return fail(where, in, "expected an object");
  for (const char* name : names) {
    if (!in.contains(name)) return fail(where, in, "the field \"" + std::string(name) + "\" is missing");
  }
  for (const auto& field : in.items()) {
    const auto has = [&](std::initializer_list<const char*> list) {
      return std::find(list.begin(), list.end(), field.key()) != list.end();
    };
    if (!has(names) && !has(optional)) {
      return fail(where, in, "the field " + quoted(field.key().substr(0, 32)) + " is unknown");
    }
  }
  return true;
}

bool Reader::list(const std::string& where, const Json& in, size_t min, size_t max) {
  if (!in.is_array()) return fail(where, in, "expected a list");
  if (in.size() >= min && in.size() <= max) return true;
  return fail(where, in,
              "it has " + std::to_string(in.size()) + " entries, expected " + std::to_string(min) + " to " +
                  std::to_string(max));
}

template <class Integer>
bool Reader::integer(const std::string& where, const Json& in, uint64_t min, uint64_t max, Integer& out) {
  if (in.is_number_unsigned() && in.get<uint64_t>() >= min && in.get<uint64_t>() <= max) {
    out = static_cast<Integer>(in.get<uint64_t>());
    return true;
  }
  return fail(where, in, "expected a whole number from " + std::to_string(min) + " to " + std::to_string(max));
}

bool Reader::text(const std::string& where, const Json& in, size_t bytes_max) {
  if (!in.is_string()) return fail(where, in, "expected a string");
  const std::string& string = in.get_ref<const std::string&>();
  if (string.size() > bytes_max) {
    return fail(where, in,
                "it has " + std::to_string(string.size()) + " bytes, the limit is " + std::to_string(bytes_max));
  }
  if (std::all_of(string.begin(), string.end(), [](char c) { return c > ' ' && c <= '~'; })) return true;
  return fail(where, in, "expected printable characters without spaces");
}

bool Reader::read(const Json& in, View& out) {
  if (!fields("view", in, {"epoch", "replicas", "next_incarnation", "members", "partitions"}, {"change", "protocol"})) {
    return false;
  }
  if (in.contains("change") && !change(in["change"], out.change)) return false;
  if (in.contains("protocol")) {
    if (!text("protocol", in["protocol"], kProtocolBytesMax)) return false;
    out.protocol = in["protocol"].get<std::string>();
  }
  if (!integer("epoch", in["epoch"], 1, kEpochMax, out.epoch.value)) return false;
  if (!integer("replicas", in["replicas"], 1, kReplicasMax, out.replicas)) return false;
  if (!integer("next_incarnation", in["next_incarnation"], 2, UINT32_MAX, out.next_incarnation)) return false;
  const Json& members = in["members"];
  if (!list("members", members, 1, kNodesMax)) return false;
  for (size_t i = 0; i < members.size(); ++i) {
    Member next;
    if (!member(at("members", i), members[i], out, next)) return false;
    out.members.push_back(std::move(next));
  }
  const Json& partitions = in["partitions"];
  if (!list("partitions", partitions, 1, kPartitionsMax)) return false;
  for (size_t p = 0; p < partitions.size(); ++p) {
    out.partitions.emplace_back();
    if (!placement(at("partitions", p), partitions[p], out, out.partitions.back())) return false;
  }
  return true;
}

// Its nodes may no longer be members.
bool Reader::change(const Json& in, Change& out) {
  if (!fields("change", in, {"cause", "by", "of"})) return false;
  const Json& cause = in["cause"];
  for (int c = 1; c < kCauses; ++c) {
    if (cause == cause_name(static_cast<Cause>(c))) out.cause = static_cast<Cause>(c);
  }
  if (out.cause == Cause::kNone) return fail("change.cause", cause, "no cause has this name");
  if (!integer("change.by", in["by"], 0, kNodesMax - 1, out.by.value)) return false;
  const Json& of = in["of"];
  if (!list("change.of", of, 0, kNodesMax)) return false;
  for (size_t i = 0; i < of.size(); ++i) {
    NodeId node;
    if (!integer(at("change.of", i), of[i], 0, kNodesMax - 1, node.value)) return false;
    out.of.add(node);
  }
  return true;
}

bool Reader::member(const std::string& where, const Json& in, const View& view, Member& out) {
  if (!fields(where, in, {"node", "incarnation", "token", "address", "roles"}, {"clients"})) return false;
  const bool served = in.contains("clients");
  const Json& node = in["node"];
  if (!integer(where + ".node", node, 0, kNodesMax - 1, out.node.value)) return false;
  if (view.find(out.node) != nullptr) return fail(where + ".node", node, "this node is a member already");
  if (!view.members.empty() && out.node < view.members.back().node) {
    return fail(where + ".node", node, "members stand in the order of their ids");
  }
  const Json& incarnation = in["incarnation"];
  if (!integer(where + ".incarnation", incarnation, 1, view.next_incarnation - 1, out.incarnation)) return false;
  for (const Member& other : view.members) {
    if (other.incarnation == out.incarnation) {
      return fail(where + ".incarnation", incarnation, "node " + std::to_string(other.node.value) + " has it");
    }
  }
  if (!text(where + ".address", in["address"], kAddressBytesMax)) return false;
  out.address = in["address"].get<std::string>();
  if (served && !text(where + ".clients", in["clients"], kAddressBytesMax)) return false;
  if (served) out.clients = in["clients"].get<std::string>();
  return token(where + ".token", in["token"], out.token) && roles(where + ".roles", in["roles"], out);
}

bool Reader::token(const std::string& where, const Json& in, uint64_t& out) {
  if (!text(where, in, kTokenDigits)) return false;
  const std::string& digits = in.get_ref<const std::string&>();
  std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  if (digits == token_text(out)) return true;
  return fail(where, in, "expected " + std::to_string(kTokenDigits) + " hexadecimal digits");
}

bool Reader::roles(const std::string& where, const Json& in, Member& out) {
  bool data = false;
  bool transactions = false;
  if (!list(where, in, 1, 2)) return false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].is_string() || (in[i] != kData && in[i] != kTransactions)) {
      return fail(at(where, i), in[i],
                  "expected " + quoted(std::string(kData)) + " or " + quoted(std::string(kTransactions)));
    }
    bool& role = in[i] == kData ? data : transactions;
    if (role) return fail(at(where, i), in[i], "this role is there twice");
    role = true;
  }
  out.roles = !transactions ? NodeRoles::kData : !data ? NodeRoles::kTransactions : NodeRoles::kBoth;
  return true;
}

bool Reader::placement(const std::string& where, const Json& in, const View& view, Placement& out) {
  if (!fields(where, in, {"replicas", "filling"}, {"leaving"})) return false;
  const bool moves = in.contains("leaving");
  const Json& whole = in["replicas"];
  if (!list(where + ".replicas", whole, moves ? view.replicas : 1, view.replicas)) return false;
  for (size_t i = 0; i < whole.size(); ++i) {
    NodeId node;
    if (!replica(at(where + ".replicas", i), whole[i], view, out, node)) return false;
    out.replicas[out.count++] = node;
    out.in_sync.add(node);
  }
  const Json& catching_up = in["filling"];
  if (!list(where + ".filling", catching_up, moves ? 1 : 0, moves ? 1 : view.replicas - whole.size())) return false;
  for (size_t i = 0; i < catching_up.size(); ++i) {
    NodeId node;
    if (!replica(at(where + ".filling", i), catching_up[i], view, out, node)) return false;
    out.catching_up.add(node);
  }
  if (!moves) return true;
  const Json& draining = in["leaving"];
  NodeId node;
  if (!list(where + ".leaving", draining, 1, 1)) return false;
  if (!integer(at(where + ".leaving", 0), draining[0], 0, kNodesMax - 1, node.value)) return false;
  if (!out.is_in_sync(node)) return fail(at(where + ".leaving", 0), draining[0], "it is no whole replica");
  out.draining.add(node);
  return true;
}

bool Reader::replica(const std::string& where, const Json& in, const View& view, const Placement& so_far, NodeId& out) {
  if (!integer(where, in, 0, kNodesMax - 1, out.value)) return false;
  const Member* member = view.find(out);
  if (member == nullptr) return fail(where, in, "no member has this id");
  if (!holds_data(member->roles)) return fail(where, in, "this member does not hold data");
  if (so_far.is_in_sync(out) || so_far.is_catching_up(out)) return fail(where, in, "this partition has it twice");
  return true;
}

}  // namespace

std::string token_text(uint64_t token) {
  std::array<char, kTokenDigits> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), token, 16);
  const std::string text(digits.data(), end);
  return std::string(kTokenDigits - text.size(), '0') + text;
}

std::string to_json(const View& view) {
  const auto line = [](const auto& item) { return line_of(item); };
  return "{\n  \"epoch\": " + std::to_string(view.epoch.value) + ",\n  \"replicas\": " + std::to_string(view.replicas) +
         (view.protocol.empty() ? "" : ",\n  \"protocol\": " + quoted(view.protocol)) +
         ",\n  \"next_incarnation\": " + std::to_string(view.next_incarnation) +
         (view.change.cause == Cause::kNone ? "" : ",\n  \"change\": " + line_of(view.change)) +
         ",\n  \"members\": [\n" + joined(view.members, ",\n", line) + "\n  ],\n  \"partitions\": [\n" +
         joined(view.partitions, ",\n", line) + "\n  ]\n}\n";
}

Result<View> view_from_json(std::string_view text) {
  const auto bad = [](const std::string& why) { return Error{Code::kBadPacket, "view: " + why}; };
  if (text.size() > kViewTextBytesMax) {
    return bad("the text has " + std::to_string(text.size()) + " bytes, the limit is " +
               std::to_string(kViewTextBytesMax));
  }
  Syntax syntax;
  if (!Json::sax_parse(text, &syntax)) return bad(syntax.fault());
  Reader reader;
  View view;
  if (!reader.read(Json::parse(text, nullptr, false), view)) return bad(reader.fault());
  return view;
}

}  // namespace weft
