// Node: one server's tables and its workers' engines. Whoever assembles a cluster (cluster/embedded.h in real time,
// sim/ in virtual time) makes one per server and gives it time, randomness and a network through an Environment.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/base/clock.h"
#include "weft/fabric/region.h"
#include "weft/fabric/view.h"
#include "weft/fabric/wire.h"
#include "weft/options.h"
#include "weft/run/worker.h"
#include "weft/store/table.h"
#include "weft/txn.h"
#include "weft/txn/witness.h"

namespace weft {

class Engine;
struct Protocol;

// What all nodes of a cluster agree on.
struct ClusterSpec {
  Options options;
  std::vector<TableSpec> tables;
  std::vector<Declared> procedures;
  Bugs bugs;  // test only
};

// What is wrong with it, or nothing: names the option and its value.
Result<void> check_spec(const ClusterSpec& spec);

// Where a node's time, randomness and network come from. Outlives the node.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual Clock* clock(NodeId node) = 0;
  virtual Charges* charges(NodeId node, WorkerId worker) = 0;  // may be nullptr
  virtual Wire* wire(NodeId node, WorkerId worker) = 0;
  virtual Regions* regions(NodeId node) = 0;  // the node adds its tables' regions
  virtual uint64_t seed(NodeId node, WorkerId worker) = 0;
  virtual Witness* witness() { return nullptr; }
};

class Node {
 public:
  static Result<std::unique_ptr<Node>> create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  NodeId id() const { return id_; }
  const View& view() const { return view_; }
  const ClusterSpec& spec() const { return spec_; }
  const Protocol& protocol() const { return *protocol_; }
  Table* table(TableId id) const { return tables_[id.value].get(); }
  size_t tables() const { return tables_.size(); }
  Worker* worker(WorkerId id) const { return workers_[id.value].get(); }
  Engine* engine(WorkerId id) const { return engines_[id.value].get(); }
  int workers() const { return static_cast<int>(workers_.size()); }

  // While the workers do not run: makes them and their engines anew, with other switches, over the same tables.
  void drop_engines();
  Result<void> make_engines(const Options& options, Environment* env);

  // Puts a record into this node's copy without a transaction, readable, at version 1: for loading before the start.
  Result<void> load(TableId table, ByteView key, ByteView value);

 private:
  Node(NodeId id, const ClusterSpec& spec, const View& view);
  const NodeId id_;
  ClusterSpec spec_;
  const View view_;
  const Protocol* protocol_ = nullptr;
  std::vector<std::unique_ptr<Region>> table_regions_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

// After a run, while nothing runs: all replicas of every key equal in value and version, no lock left, every record
// readable. Returns the first thing that is wrong, or nothing.
std::string audit_replicas(const std::vector<Node*>& nodes);

}  // namespace weft
