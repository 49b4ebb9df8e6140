// `weft doctor`: what this machine offers, and what to do about it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/bench/bench.h"
#include "weft/bench/machine.h"
#include "weft/cli/commands.h"
#include "weft/member/view.h"
#include "weft/server/config.h"
#include "weft/server/doctor.h"
#include "weft/server/http_client.h"

namespace weft::cli {
namespace {

struct DoctorFlags {
  int nodes = 3;
  int port = 7379;
  int http_port = 8379;
  std::string node, ca, password_file;
  bool json = false;
};

// What a node reports about itself.
Result<nlohmann::json> status_of(const DoctorFlags& flags) {
  HttpTarget target{flags.node, flags.ca, {}};
  if (!flags.password_file.empty()) {
    Result<PasswordFile> password = read_password_file(flags.password_file);
    if (!password)
      return Error{password.error().code, "--password-file " + flags.password_file + ": " + password.error().detail};
    target.password = password->password;
  }
  const Result<std::string> text = http_get(target, "/status");
  if (!text) return Error{text.error().code, "--node " + flags.node + ": " + text.error().detail};
  return nlohmann::json::parse(*text, nullptr, false);
}

void print_text(const bench::Machine& machine, const std::vector<Finding>& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  std::cout << machine.cpu << "\n\n";
  for (const Finding& finding : findings) {
    std::string grade(grade_name(finding.grade));
    grade.resize(5, ' ');
    std::string subject = finding.subject;
    subject.resize(width + 2, ' ');
    std::cout << grade << " " << subject << finding.found << "\n";
    if (!finding.advice.empty()) std::cout << std::string(width + 8, ' ') << finding.advice << "\n";
  }
}

void print_json(const bench::Machine& machine, const std::vector<Finding>& findings, bool runs) {
  nlohmann::json out = {{"cpu", machine.cpu}, {"runs", runs}, {"findings", nlohmann::json::array()}};
  for (const Finding& finding : findings) {
    out["findings"].push_back({{"subject", finding.subject},
                               {"verdict", grade_name(finding.grade)},
                               {"found", finding.found},
                               {"advice", finding.advice}});
  }
  std::cout << out.dump(2) << "\n";
}

int run_doctor(const DoctorFlags& flags) {
  std::vector<int> ports;
  for (const int first : {flags.port, flags.http_port}) {
    if (first + flags.nodes - 1 > 65535) {
      return refuse("ports " + std::to_string(first) + " to " + std::to_string(first + flags.nodes - 1) +
                    ": the last one is 65535");
    }
    for (int n = 0; n < flags.nodes; ++n) ports.push_back(first + n);
  }
  std::vector<Finding> findings = diagnose(gather_facts("", ports));
  if (!flags.node.empty()) {
    const Result<nlohmann::json> status = status_of(flags);
    if (!status) return refuse(status.error().detail);
    for (Finding& finding : diagnose_node(*status)) findings.push_back(std::move(finding));
  }
  const bool runs = std::none_of(findings.begin(), findings.end(),
                                 [](const Finding& finding) { return finding.grade == Grade::kBad; });
  const bench::Machine machine = bench::describe_machine();
  if (flags.json) {
    print_json(machine, findings, runs);
  } else {
    print_text(machine, findings);
  }
  return runs ? bench::kExitDone : bench::kExitFailed;
}

}  // namespace

void add_doctor(CLI::App& app, int* status) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = app.add_subcommand("doctor", "Say what this machine offers, and what to do about it");
  command->add_option("--nodes", flags->nodes, "For so many nodes on it")
      ->capture_default_str()
      ->check(CLI::Range(1, kNodesMax));
  command->add_option("--port", flags->port, "Of their clients, the first")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command->add_option("--http-port", flags->http_port, "Of their status pages, the first")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command->add_option(
      "--node", flags->node,
      "Look at a node that runs, too: the host:port of its HTTP, with https:// before it if it has TLS");
  command->add_option("--ca", flags->ca, "With --node https://...: PEM file of who signed the node's certificate");
  command->add_option("--password-file", flags->password_file, "With --node: a file with what http.password says");
  command->add_flag("--json", flags->json, "One JSON object");
  command->footer("Exit status 1 if something is bad: a node will not run here. What is poor costs speed or limits.");
  command->callback([flags, status] { *status = run_doctor(*flags); });
}

}  // namespace weft::cli
