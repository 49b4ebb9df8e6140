// `weft doctor`: what this machine offers, and what to do about it.
#include <netdb.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/bench/bench.h"
#include "weft/bench/machine.h"
#include "weft/cli/commands.h"
#include "weft/fabric/fd.h"
#include "weft/fabric/view.h"
#include "weft/server/address.h"
#include "weft/server/doctor.h"

namespace weft::cli {
namespace {

struct DoctorFlags {
  int nodes = 3;
  int port = 7379;
  int http_port = 8379;
  std::string node;
  bool json = false;
};

// What is there, over plain HTTP.
Result<std::string> http_get(const std::string& address, const std::string& path) {
  const Result<HostPort> at = parse_host_port(address);
  if (!at) return at.error();
  const auto failed = [] { return Error{Code::kOs, strerrordesc_np(errno)}; };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int why = getaddrinfo(at->host.c_str(), std::to_string(at->port).c_str(), &hints, &found); why != 0) {
    return Error{Code::kOs, gai_strerror(why)};
  }
  const Fd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{5, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const bool connected = connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  if (!connected) return failed();
  const std::string ask = "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  if (send(socket.get(), ask.data(), ask.size(), MSG_NOSIGNAL) < 0) return failed();
  std::string text;
  char bytes[4096];
  constexpr size_t kBytesMax = 16 << 20;
  for (ssize_t n = 0; (n = recv(socket.get(), bytes, sizeof bytes, 0)) != 0 && text.size() < kBytesMax;) {
    if (n < 0) return failed();
    text.append(bytes, static_cast<size_t>(n));
  }
  const size_t body = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.") || body == std::string::npos) return Error{Code::kOs, "no HTTP is spoken there"};
  return text.substr(body + 4);
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
    const Result<std::string> status = http_get(flags.node, "/status");
    if (!status) return refuse("--node " + flags.node + ": " + status.error().detail);
    for (Finding& finding : diagnose_node(nlohmann::json::parse(*status, nullptr, false))) {
      findings.push_back(std::move(finding));
    }
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
  command->add_option("--node", flags->node, "Look at a node that runs, too: the host:port of its HTTP");
  command->add_flag("--json", flags->json, "One JSON object");
  command->footer("Exit status 1 if something is bad: a node will not run here. What is poor costs speed or limits.");
  command->callback([flags, status] { *status = run_doctor(*flags); });
}

}  // namespace weft::cli
