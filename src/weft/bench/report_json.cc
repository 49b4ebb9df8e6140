// JSON of a report. Only this file of the room includes the JSON library, which is slow to compile.
#include <nlohmann/json.hpp>

#include "weft/bench/report.h"
#include "weft/bench/verb_rates.h"

namespace weft::bench {

std::string to_json(const Report& report) {
  nlohmann::ordered_json json;
  json["workload"] = report.workload;
  json["protocol"] = report.protocol;
  json["fabric"] = report.fabric;
  json["nodes"] = report.nodes;
  json["replicas"] = report.replicas;
  json["threads"] = report.threads;
  json["seconds"] = report.seconds;
  json["committed"] = report.committed;
  json["aborted"] = report.aborted;
  json["tps"] = report.tps;
  json["tps_per_thread"] = report.tps_per_thread;
  json["latency_us"] = {
      {"p50", report.p50_us}, {"p90", report.p90_us}, {"p99", report.p99_us}, {"p999", report.p999_us}};
  json["nw_batch"] = report.nw_batch;
  json["ht_batch"] = report.ht_batch;
  json["packets_per_txn"] = report.packets_per_txn;
  json["messages_per_txn"] = report.messages_per_txn;
  json["bytes_per_txn"] = report.bytes_per_txn;
  json["commit_round_trips"] = report.commit_round_trips;
  json["abort_reasons"] = nlohmann::ordered_json::object();
  for (const auto& [name, count] : report.abort_reasons) json["abort_reasons"][name] = count;
  json["reads_per_txn"] = report.reads_per_txn;
  json["writes_per_txn"] = report.writes_per_txn;
  json["swaps_per_txn"] = report.swaps_per_txn;
  json["doorbells_per_txn"] = report.doorbells_per_txn;
  json["verb_limit"] = report.verb_limit;
  json["verb_credit_waits_per_txn"] = report.verb_credit_waits_per_txn;
  json["messages_by_phase"] = report.messages_by_phase;
  json["verbs_by_phase"] = report.verbs_by_phase;
  if (!report.ended.empty()) json["ended"] = report.ended;
  return json.dump();
}

std::string to_json(const VerbRates& rates) {
  nlohmann::ordered_json json;
  json["workload"] = "verbs";
  json["kind"] = rates.kind;
  json["fabric"] = rates.fabric;
  json["bytes"] = rates.bytes;
  json["depth"] = rates.depth;
  json["threads"] = rates.threads;
  json["seconds"] = rates.seconds;
  json["operations"] = rates.operations;
  json["ops_per_second"] = rates.ops_per_second;
  json["gb_per_second"] = rates.gb_per_second;
  json["latency_us"] = {{"p50", rates.p50_us}, {"p99", rates.p99_us}, {"p999", rates.p999_us}};
  json["doorbells_per_op"] = rates.doorbells_per_op;
  json["verb_limit"] = rates.verb_limit;
  json["swaps"] = rates.swaps;
  json["swaps_failed"] = rates.swaps_failed;
  json["refused"] = rates.refused;
  json["wrong"] = rates.wrong;
  return json.dump();
}

}  // namespace weft::bench
