// Views as text: what we write reads back the same, and any other text gives an error or a view that satisfies V1 to
// V4 of view_json.h.
#include "weft/member/view_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

Member draw_member(Random& random, NodeId node) {
  NodeRoles roles = random.chance(80) ? NodeRoles::kBoth : NodeRoles::kTransactions;
  if (roles == NodeRoles::kBoth && random.chance(20)) roles = NodeRoles::kData;
  Member member{node, 0, roles, random.next() >> random.below(64), {}, {}};
  const std::string alphabet = "abcXYZ0123456789.:/@-_\"\\<>";
  for (uint64_t n = random.below(random.chance(5) ? kAddressBytesMax + 1 : 30); n > 0; --n) {
    member.address += alphabet[random.below(alphabet.size())];
  }
  if (random.chance(50)) member.clients = "127.0.0.1:" + std::to_string(random.below(65'536));
  return member;
}

// One change, as an agent would propose it.
View changed(Random& random, const View& view) {
  const NodeId node(static_cast<uint8_t>(random.below(kNodesMax)));
  const bool there = view.find(node) != nullptr;
  if (!there) return with_member(view, draw_member(random, node));
  if (random.chance(50)) {
    std::vector<PartitionId> caught_up;
    for (size_t p = 0; p < view.partitions.size(); ++p) {
      if (view.partitions[p].is_catching_up(node) && random.chance(70))
        caught_up.emplace_back(static_cast<uint16_t>(p));
    }
    return with_replica_in_sync(view, node, caught_up);
  }
  const Result<View> without = without_members(view, NodeSet::of(node));
  return without ? *without : view;
}

View draw_view(Random& random) {
  const auto nodes = static_cast<int>(random.between(1, random.chance(10) ? kNodesMax : 6));
  const auto replicas = static_cast<int>(random.between(1, static_cast<uint64_t>(std::min(nodes, kReplicasMax))));
  View view = make_view(nodes, replicas, static_cast<int>(random.between(1, random.chance(2) ? kPartitionsMax : 20)));
  if (random.chance(2)) view.protocol = "fasst";
  for (Member& member : view.members) member.token = random.next();
  for (uint64_t n = random.below(40); n > 0; --n) view = changed(random, view);
  if (random.chance(50)) {
    view.change = {static_cast<Cause>(random.between(1, kCauses - 1)),
                   NodeId(static_cast<uint8_t>(random.below(nodes))),
                   NodeSet::from_bits(random.below(uint64_t{1} << kNodesMax))};
  }
  return view;
}

// V1 to V4, written a second time.
void expect_invariants(const View& view) {
  ASSERT_GE(view.epoch.value, 1U);
  ASSERT_TRUE(view.replicas >= 1 && view.replicas <= kReplicasMax);
  ASSERT_FALSE(view.members.empty());
  std::set<uint32_t> incarnations;
  NodeSet data;
  for (size_t i = 0; i < view.members.size(); ++i) {
    const Member& member = view.members[i];
    ASSERT_LT(member.node.value, kNodesMax);
    ASSERT_TRUE(i == 0 || view.members[i - 1].node < member.node);
    ASSERT_TRUE(member.incarnation >= 1 && member.incarnation < view.next_incarnation);
    ASSERT_TRUE(incarnations.insert(member.incarnation).second);
    ASSERT_LE(member.address.size(), kAddressBytesMax);
    if (holds_data(member.roles)) data.add(member.node);
  }
  ASSERT_TRUE(!view.partitions.empty() && view.partitions.size() <= kPartitionsMax);
  for (const Placement& placement : view.partitions) {
    ASSERT_GE(placement.count, 1);
    NodeSet whole;
    for (size_t r = 0; r < placement.count; ++r) whole.add(placement.replicas[r]);
    ASSERT_EQ(whole, placement.in_sync);
    ASSERT_EQ(whole.size(), placement.count);
    ASSERT_EQ(whole & placement.catching_up, NodeSet{});
    ASSERT_EQ((whole | placement.catching_up) - data, NodeSet{});
    ASSERT_EQ(placement.draining - whole, NodeSet{});
    ASSERT_LE(placement.count, view.replicas);
    ASSERT_LE(placement.draining.size(), 1);
    ASSERT_LE((whole | placement.catching_up).size(), view.replicas + placement.draining.size());
    if (!placement.draining.empty()) {
      ASSERT_EQ(placement.count, view.replicas);
      ASSERT_EQ(placement.catching_up.size(), 1);
    }
  }
}

TEST(ViewJson, ReadsForPeople) {
  View view = make_view(2, 1, 2);
  view.members[0].token = 0xa7;
  view.members[0].address = "10.0.0.1:7400";
  view.members[1].roles = NodeRoles::kData;
  view.replicas = 2;
  view.protocol = "dnl1";
  view.partitions[0].catching_up = node_set({1});
  EXPECT_EQ(to_json(view), R"({
  "epoch": 1,
  "replicas": 2,
  "protocol": "dnl1",
  "next_incarnation": 3,
  "members": [
    {"node": 0, "incarnation": 1, "token": "00000000000000a7", "address": "10.0.0.1:7400", "roles": ["data", "transactions"]},
    {"node": 1, "incarnation": 2, "token": "0000000000000000", "address": "", "roles": ["data"]}
  ],
  "partitions": [
    {"replicas": [0], "filling": [1]},
    {"replicas": [1], "filling": []}
  ]
}
)");
}

TEST(ViewJson, RandomViewsComeBackTheSame) {
  Random random(1);
  for (int round = 0; round < (kSanitized ? 100 : 400); ++round) {
    const View view = draw_view(random);
    ASSERT_NO_FATAL_FAILURE(expect_invariants(view));
    const Result<View> back = view_from_json(to_json(view));
    ASSERT_TRUE(back) << back.error().text();
    ASSERT_EQ(*back, view);
  }
}

TEST(ViewJson, TheLargestViewFits) {
  View view = make_view(kNodesMax, kReplicasMax, kPartitionsMax);
  view.next_incarnation = UINT32_MAX;
  for (Member& member : view.members) {
    member.incarnation = UINT32_MAX - 1 - member.node.value;
    member.token = UINT64_MAX;
    member.address = member.clients = std::string(kAddressBytesMax, '"');
  }
  for (Placement& placement : view.partitions) {
    placement.catching_up = NodeSet::of(NodeId(placement.is_in_sync(NodeId(62)) ? 62 - kReplicasMax : 62));
    placement.draining = NodeSet::of(placement.primary());
  }
  view.protocol = std::string(kProtocolBytesMax, '"');
  view.change = {Cause::kMisconduct, NodeId(62), NodeSet::below(NodeId(kNodesMax))};
  const std::string text = to_json(view);
  ASSERT_LE(text.size(), kViewTextBytesMax);
  const Result<View> back = view_from_json(text);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, view);
}

TEST(ViewJson, OrderOfFieldsAndSpaceDoNotMatter) {
  const View view = make_view(3, 2, 3);
  const Result<View> back = view_from_json(nlohmann::json::parse(to_json(view)).dump());
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, view);
}

// A view of nodes 0, 1 and 2, of which 2 holds no data, with 2 replicas and two partitions; node 1 is catching up on
// the second.
nlohmann::json good() {
  View view = make_view(2, 2, 2);
  Member third = {NodeId(2), 0, NodeRoles::kTransactions, 0xabc, "host:1", {}};
  view = with_member(view, third);
  view.partitions[1] = {{NodeId(0)}, 1, node_set({0}), node_set({1}), {}};
  return nlohmann::json::parse(to_json(view));
}

struct Broken {
  const char* path;   // a JSON pointer
  const char* value;  // replaces what is there; "" removes it
  const char* says;   // part of the error
};

constexpr Broken kBroken[] = {
    {"/epoch", "0", "epoch is 0: expected a whole number from 1 to 2147483647"},
    {"/epoch", "4294967296", "epoch is 4294967296"},
    {"/epoch", "-1", "epoch is -1"},
    {"/epoch", "1.0", "epoch is 1.0"},
    {"/epoch", "\"1\"", "epoch is \"1\""},
    {"/epoch", "null", "epoch is null"},
    {"/epoch", "", "the field \"epoch\" is missing"},
    {"/protocol", "1", "protocol is 1: expected a string"},
    {"/protocol", "\"a b\"", "protocol is \"a b\": expected printable characters without spaces"},
    {"/more", "1", "the field \"more\" is unknown"},
    {"", "[]", "view is []: expected an object"},
    {"", "17", "view is 17"},
    {"/replicas", "0", "replicas is 0: expected a whole number from 1 to 8"},
    {"/replicas", "9", "replicas is 9"},
    {"/next_incarnation", "3", "members[2].incarnation is 3: expected a whole number from 1 to 2"},
    {"/next_incarnation", "1", "next_incarnation is 1"},
    {"/members", "{}", "members is {}: expected a list"},
    {"/members", "[]", "members is []: it has 0 entries, expected 1 to 63"},
    {"/members/0", "7", "members[0] is 7: expected an object"},
    {"/members/0/node", "", "the field \"node\" is missing"},
    {"/members/0/extra", "true", "the field \"extra\" is unknown"},
    {"/members/2/node", "63", "members[2].node is 63: expected a whole number from 0 to 62"},
    {"/members/2/node", "256", "members[2].node is 256"},
    {"/members/2/node", "1", "members[2].node is 1: this node is a member already"},
    {"/members/0/node", "5", "members[1].node is 1: members stand in the order"},
    {"/members/1/incarnation", "0", "members[1].incarnation is 0"},
    {"/members/1/incarnation", "1", "members[1].incarnation is 1: node 0 has it"},
    {"/members/0/token", "12", "members[0].token is 12: expected a string"},
    {"/members/0/token", "\"12\"", "expected 16 hexadecimal digits"},
    {"/members/0/token", "\"000000000000000g\"", "expected 16 hexadecimal digits"},
    {"/members/0/token", "\"000000000000000A\"", "expected 16 hexadecimal digits"},
    {"/members/0/token", "\"00000000000000000\"", "it has 17 bytes, the limit is 16"},
    {"/members/0/address", "[]", "members[0].address is []: expected a string"},
    {"/members/0/clients", "[]", "members[0].clients is []: expected a string"},
    {"/members/0/clients", "\"a b\"", "expected printable characters"},
    {"/members/0/address", "\"a b\"", "expected printable characters"},
    {"/members/0/address", "\"\\u00e9\"", "expected printable characters"},
    {"/members/0/roles", "[]", "members[0].roles is []: it has 0 entries, expected 1 to 2"},
    {"/members/0/roles", "[\"data\", \"data\"]", "members[0].roles[1] is \"data\": this role is there twice"},
    {"/members/0/roles", "[\"king\"]", "members[0].roles[0] is \"king\": expected \"data\" or \"transactions\""},
    {"/members/0/roles", "[1]", "members[0].roles[0] is 1"},
    {"/partitions", "[]", "partitions is []: it has 0 entries, expected 1 to 4096"},
    {"/partitions", "5", "partitions is 5"},
    {"/partitions/0", "null", "partitions[0] is null"},
    {"/partitions/0/replicas", "[]", "partitions[0].replicas is []: it has 0 entries, expected 1 to 2"},
    {"/partitions/0/replicas", "[0, 1, 2]", "it has 3 entries"},
    {"/partitions/0/replicas", "[0, 9]", "partitions[0].replicas[1] is 9: no member has this id"},
    {"/partitions/0/replicas", "[0, 64]", "partitions[0].replicas[1] is 64: expected a whole number from 0 to 62"},
    {"/partitions/0/replicas", "[0, 2]", "partitions[0].replicas[1] is 2: this member does not hold data"},
    {"/partitions/0/replicas", "[1, 1]", "partitions[0].replicas[1] is 1: this partition has it twice"},
    {"/partitions/0/filling", "[1]", "partitions[0].filling is [1]: it has 1 entries, expected 0 to 0"},
    {"/partitions/1/filling", "[0]", "partitions[1].filling[0] is 0: this partition has it twice"},
    {"/partitions/1/filling", "[7]", "partitions[1].filling[0] is 7: no member"},
    {"/partitions/1/filling", "\"1\"", "partitions[1].filling is \"1\": expected a list"},
    {"/partitions/0/leaving", "[0]", "partitions[0].filling is []: it has 0 entries, expected 1 to 1"},
    {"/partitions/1/leaving", "[0]", "partitions[1].replicas is [0]: it has 1 entries, expected 2 to 2"},
};

TEST(ViewJson, EveryInconsistencyIsNamed) {
  ASSERT_TRUE(view_from_json(good().dump()));
  for (const Broken& broken : kBroken) {
    nlohmann::json json = good();
    const nlohmann::json::json_pointer pointer(broken.path);
    if (*broken.value == '\0') {
      json[pointer.parent_pointer()].erase(pointer.back());
    } else {
      json[pointer] = nlohmann::json::parse(broken.value);
    }
    const Result<View> view = view_from_json(json.dump());
    ASSERT_FALSE(view) << broken.path << " " << broken.value;
    EXPECT_EQ(view.error().code, Code::kBadPacket);
    EXPECT_NE(view.error().detail.find(broken.says), std::string::npos) << view.error().detail << "\n" << broken.says;
    EXPECT_LT(view.error().detail.size(), 300U) << view.error().detail;
  }
}

TEST(ViewJson, SaysWhyItCame) {
  View view = make_view(3, 2, 3);
  EXPECT_EQ(to_json(view).find("change"), std::string::npos);
  view.change = {Cause::kLink, NodeId(2), node_set({1, 3})};
  const std::string text = to_json(view);
  EXPECT_NE(text.find(R"("change": {"cause": "link", "by": 2, "of": [1, 3]})"), std::string::npos) << text;
  const Result<View> back = view_from_json(text);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, view);
  for (const char* bad :
       {R"("link")", R"({})", R"({"cause": "none", "by": 2, "of": []})", R"({"cause": 3, "by": 2, "of": []})",
        R"({"cause": "link", "by": 63, "of": []})", R"({"cause": "link", "by": 2, "of": [63]})",
        R"({"cause": "link", "by": 2, "of": 1})", R"({"cause": "link", "by": 2, "of": [], "to": 1})"}) {
    nlohmann::json json = nlohmann::json::parse(text);
    json["change"] = nlohmann::json::parse(bad);
    const Result<View> wrong = view_from_json(json.dump());
    ASSERT_FALSE(wrong) << bad;
    EXPECT_NE(wrong.error().detail.find("change"), std::string::npos) << wrong.error().detail;
  }
}

TEST(ViewJson, AReplicaMoves) {
  View view = make_view(3, 2, 3);
  view.partitions[0].catching_up = node_set({2});
  view.partitions[0].draining = node_set({1});
  const std::string text = to_json(view);
  EXPECT_NE(text.find(R"({"replicas": [0, 1], "filling": [2], "leaving": [1]})"), std::string::npos) << text;
  const Result<View> back = view_from_json(text);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, view);
  for (const char* bad : {"[2]", "[7]", "[63]", "[]", "[0, 1]", "0"}) {
    nlohmann::json json = nlohmann::json::parse(text);
    json["partitions"][0]["leaving"] = nlohmann::json::parse(bad);
    const Result<View> wrong = view_from_json(json.dump());
    ASSERT_FALSE(wrong) << bad;
    EXPECT_NE(wrong.error().detail.find("partitions[0].leaving"), std::string::npos) << wrong.error().detail;
  }
}

std::string refusal(const std::string& text) {
  const Result<View> view = view_from_json(text);
  return view ? "taken" : view.error().detail;
}

TEST(ViewJson, WhatIsNoJsonSaysWhere) {
  EXPECT_EQ(refusal(""), "view: not JSON at byte 1");
  EXPECT_EQ(refusal("{\"epoch\": 1, oops"), "view: not JSON at byte 14");
  EXPECT_EQ(refusal("\xff\xfe"), "view: not JSON at byte 1");
  EXPECT_EQ(refusal("{\"epoch\": 1, \"epoch\": 2}"), "view: the field \"epoch\" is there twice");
  EXPECT_EQ(refusal(std::string(100'000, '[')), "view: lists and objects are nested deeper than 4");
  EXPECT_EQ(refusal(std::string(kViewTextBytesMax + 1, ' ')), "view: the text has 786433 bytes, the limit is 786432");
  EXPECT_NE(refusal("{\"epoch\": 1e999}").find("not JSON at byte"), std::string::npos);
}

std::string mutated(Random& random, std::string text) {
  const std::string pieces = "0123456789-.eE\"\\[]{}:, \n\tntruefalsx\xff";
  for (uint64_t n = random.between(1, 3); n > 0 && !text.empty(); --n) {
    const size_t at = random.below(text.size());
    switch (random.below(6)) {
      case 0:
        text[at] = static_cast<char>(random.next());
        break;
      case 1:
        text[at] = pieces[random.below(pieces.size())];
        break;
      case 2:
        text.insert(at, 1, pieces[random.below(pieces.size())]);
        break;
      case 3:
        text.erase(at, random.between(1, 8));
        break;
      case 4:
        text.insert(at, text.substr(random.below(text.size()), random.between(1, 60)));
        break;
      default:  // another digit for a digit: still JSON, with another meaning
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos) {
          text[digit] = static_cast<char>('0' + random.below(10));
        }
        break;
    }
  }
  return text;
}

TEST(ViewJson, MutatedTextsAreRefusedOrHoldTheInvariants) {
  Random random(2);
  int taken = 0, refused = 0;
  for (int round = 0; round < (kSanitized ? 20 : 200); ++round) {
    View view = draw_view(random);
    if (view.partitions.size() > 30) continue;
    const std::string text = to_json(view);
    for (int i = 0; i < 100; ++i) {
      const Result<View> read = view_from_json(mutated(random, text));
      if (!read) {
        ASSERT_FALSE(read.error().detail.empty());
        ++refused;
        continue;
      }
      ++taken;
      ASSERT_NO_FATAL_FAILURE(expect_invariants(*read));
      const Result<View> again = view_from_json(to_json(*read));
      ASSERT_TRUE(again && *again == *read);
    }
  }
  EXPECT_GT(taken, 10);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace weft
