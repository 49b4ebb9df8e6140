// ClusterStats: what one node knows of all nodes' statistics. Every node samples itself once a second and gossips the
// sample to the other members over the fabric (NodeAgent::send_gossip), with the events since the last one. So any
// node can show the entire cluster, and needs for that no address besides those of the fabric, no second kind of
// connection and no trust beyond what members have: with TLS between nodes, samples are encrypted, too. A node that is
// gone is one that is not in the view, or no longer sends samples.
//
// Received gossip is checked: only numbers of known names, texts of bounded length. Owned by the control thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/event_log.h"
#include "weft/types.h"

namespace weft {

class ClusterStats {
 public:
  static constexpr size_t kSamples = 300;         // per node: five minutes
  static constexpr size_t kEvents = 200;          // of all nodes
  static constexpr size_t kGossipEvents = 8;      // in one message
  static constexpr size_t kEventBytesMax = 1024;  // of one, as JSON

  explicit ClusterStats(NodeId self) : self_(self) {}

  // Events of this node. The next gossip includes them.
  void add_own(const std::vector<LoggedEvent>& events);
  // This node's own sample. Returns the gossip for the others.
  std::string add_own(nlohmann::json sample, uint64_t wall_ms, uint64_t now_ns);
  // What another member sent; false if it is malformed.
  bool add_gossip(NodeId from, std::string_view text, uint64_t wall_ms, uint64_t now_ns);

  // {"0": {"age_ms", "sample": {...}}}: for every node that was ever heard.
  nlohmann::json latest(uint64_t now_ns) const;
  // {"keys": [...], "nodes": {"0": [[...], ...]}}: rows of kHistoryKeys, oldest first.
  nlohmann::json history() const;
  nlohmann::json events() const;  // newest first

 private:
  struct Heard {
    uint64_t at_ns = 0;                  // 0: never
    std::deque<nlohmann::json> samples;  // the newest is last
    uint64_t last_event = 0;             // its number
    int64_t pid = 0;                     // events are numbered by process
  };
  void add(NodeId node, nlohmann::json sample, uint64_t wall_ms, uint64_t now_ns);
  void add_event(nlohmann::json event);

  const NodeId self_;
  std::array<Heard, kNodesMax> heard_;
  std::deque<nlohmann::json> events_;  // the newest is last
  nlohmann::json unsent_ = nlohmann::json::array();
};

// What the charts of the status page show.
inline constexpr std::array<std::string_view, 7> kHistoryKeys = {"at_ms",  "committed_s",     "aborted_s",   "p50_us",
                                                                 "p99_us", "packet_messages", "memory_bytes"};

}  // namespace weft
