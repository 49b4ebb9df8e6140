#include "weft/server/doctor.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/fd.h"
#include "weft/redis/address.h"

namespace weft {
namespace {

MachineFacts good_machine() {
  MachineFacts f;
  f.kernel = "Linux 6.1";
  f.cores = f.cores_allowed = 8;
  f.can_pin = f.pidfd = f.memfd = true;
  f.memory_bytes = f.memory_available_bytes = uint64_t{16} << 30;
  f.huge_pages = "madvise";
  f.shared_huge_pages = "advise";
  f.open_files_max = 1 << 20;
  f.locked_bytes_max = UINT64_MAX;
  f.clock_source = "tsc";
  f.backlog_max = 4096;
  f.rdma_devices = {"mlx5_0"};
  f.verbs_library = f.rdma_works = true;
  f.ports = {7379, 8379};
  return f;
}

TEST(Doctor, AGoodMachineNeedsNothing) {
  for (const Finding& finding : diagnose(good_machine())) {
    EXPECT_EQ(finding.grade, Grade::kGood) << finding.subject << ": " << finding.found;
    EXPECT_EQ(finding.advice, "");
    EXPECT_NE(finding.found, "");
  }
}

TEST(Doctor, ANodeThatRunsSaysOfItsTurns) {
  nlohmann::json status = {{"node", 1},
                           {"whole", true},
                           {"stopped", ""},
                           {"figures", {{"turns_too_long", 0}, {"turn_longest_us", 700}}},
                           {"events", nlohmann::json::array()}};
  EXPECT_EQ(diagnose_node(status).at(1).grade, Grade::kGood);
  EXPECT_EQ(diagnose_node(status).at(1).found, "none was too long; the longest took 0.7 ms");
  status["figures"] = {{"turns_too_long", 2}, {"turn_longest_us", 40'000}};
  for (const auto& [node, command] : {std::pair(1, "lcs"), std::pair(2, "get")}) {
    status["events"].push_back({{"event", "turn_too_long"},
                                {"node", node},
                                {"command", command},
                                {"command_took_us", 39'000},
                                {"command_estimated_us", 500}});
  }
  const Finding finding = diagnose_node(status).at(1);
  EXPECT_EQ(finding.grade, Grade::kPoor);
  EXPECT_EQ(
      finding.found,
      "2 were too long; the longest took 40.0 ms; the last one that was said: lcs took 39000 us, estimated 500 us");
  for (const char* text : {"3", "[]", R"({"figures":7})", R"({"whole":"yes"})", R"({"events":{"a":1}})"}) {
    EXPECT_FALSE(diagnose_node(nlohmann::json::parse(text)).empty()) << text;
  }
  EXPECT_FALSE(diagnose_node(nlohmann::json::parse("no json", nullptr, false)).empty());
}

TEST(Doctor, ANodeOverRdmaSaysOfItsDoorbells) {
  nlohmann::json status = {{"node", 1},
                           {"fabric", "tcp"},
                           {"figures", {{"workers", 96}, {"own_doorbells", 0}}},
                           {"view", {{"members", {1, 2, 3}}}}};
  EXPECT_EQ(diagnose_node(status).size(), 2U);
  status["fabric"] = "verbs";
  const Finding shared = diagnose_node(status).at(2);
  EXPECT_EQ(shared.grade, Grade::kNote);
  EXPECT_EQ(shared.found, "0 of 96 workers have a register of their own");
  EXPECT_NE(shared.advice.find("of the 16 that mlx5 has, up to 8 workers ring one"), std::string::npos);
  status["figures"] = {{"workers", 96}, {"own_doorbells", 80}};
  EXPECT_NE(diagnose_node(status).at(2).advice.find("up to 3 workers"), std::string::npos) << "the other 16, two peers";
  status["figures"] = {{"workers", 96}, {"own_doorbells", 96}};
  EXPECT_EQ(diagnose_node(status).at(2).grade, Grade::kGood);
}

TEST(Doctor, ANodeThatIsCutOffIsNotWhole) {
  nlohmann::json status = {{"node", 1}, {"whole", false}, {"stopped", ""}, {"cut_off_ms", 700}, {"suspects", {0, 2}}};
  EXPECT_EQ(diagnose_node(status).at(0).grade, Grade::kPoor);
  EXPECT_EQ(diagnose_node(status).at(0).found,
            "it is cut off since 700 ms: it has no lease, and does not reach all members");
  status["cut_off_ms"] = 0;
  EXPECT_EQ(diagnose_node(status).at(0).found, "it suspects nodes that it does not hear: [0,2]");
  status["suspects"] = "all";
  EXPECT_FALSE(diagnose_node(status).empty());
}

TEST(Doctor, EveryFaultIsNamedWithWhatToDo) {
  struct Case {
    std::string subject;
    Grade grade;
    std::string found, advice;
    std::function<void(MachineFacts&)> break_it;
  };
  const std::vector<Case> cases = {
      {"kernel", Grade::kBad, "without pidfd_open", "5.3", [](auto& f) { f.pidfd = false; }},
      {"kernel", Grade::kBad, "without memfd_create", "sandbox", [](auto& f) { f.memfd = false; }},
      {"processor", Grade::kBad, "avx2, fma", "AVX2",
       [](auto& f) {
         f.cpu_missing = {"avx2", "fma"};
       }},
      {"cores", Grade::kNote, "1 of 8 cores", "two or more", [](auto& f) { f.cores_allowed = 1; }},
      {"cores", Grade::kPoor, "quota of 1.5 cores", "lease_ms", [](auto& f) { f.cores_quota = 1.5; }},
      {"pinning", Grade::kNote, "cannot be pinned", "pin_threads = false", [](auto& f) { f.can_pin = false; }},
      {"pinning", Grade::kNote, "powersave", "performance", [](auto& f) { f.governor = "powersave"; }},
      {"memory", Grade::kPoor, "0.5 MiB of 16.0 GiB", "memory_bytes_max",
       [](auto& f) { f.memory_available_bytes = 1 << 19; }},
      {"memory", Grade::kPoor, "overcommit_memory is 2", "sysctl", [](auto& f) { f.overcommit = "2"; }},
      {"memory", Grade::kNote, "at most 2.0 GiB", "killed", [](auto& f) { f.memory_quota_bytes = uint64_t{2} << 30; }},
      {"swap", Grade::kNote, "1.0 GiB", "swapoff", [](auto& f) { f.swap_bytes = 1 << 30; }},
      {"huge pages", Grade::kPoor, "never", "echo madvise", [](auto& f) { f.huge_pages = "never"; }},
      {"huge pages of shared memory", Grade::kNote, "never", "echo advise",
       [](auto& f) { f.shared_huge_pages = "never"; }},
      {"open files", Grade::kPoor, "1024", "LimitNOFILE", [](auto& f) { f.open_files_max = 1024; }},
      {"locked memory", Grade::kPoor, "8.0 MiB", "LimitMEMLOCK", [](auto& f) { f.locked_bytes_max = 8 << 20; }},
      {"clock source", Grade::kPoor, "hpet", "clocksource=tsc", [](auto& f) { f.clock_source = "hpet"; }},
      {"backlog", Grade::kNote, "128", "somaxconn=4096", [](auto& f) { f.backlog_max = 128; }},
      {"RDMA", Grade::kNote, "no device", "need none", [](auto& f) { f.rdma_devices.clear(); }},
      {"RDMA", Grade::kPoor, "mlx5_0", "libibverbs1", [](auto& f) { f.verbs_library = false; }},
      {"RDMA", Grade::kPoor, "no port that works", "below", [](auto& f) { f.rdma_works = false; }},
      {"ports", Grade::kPoor, "8379 taken", "--http-port", [](auto& f) { f.ports_taken = {8379}; }},
  };
  for (const Case& one : cases) {
    MachineFacts facts = good_machine();
    one.break_it(facts);
    for (const Finding& finding : diagnose(facts)) {
      if (finding.subject != one.subject) {
        EXPECT_EQ(finding.grade, Grade::kGood) << one.subject << ", " << one.found << ": " << finding.subject;
        continue;
      }
      EXPECT_EQ(finding.grade, one.grade) << one.subject << ": " << finding.found;
      EXPECT_NE(finding.found.find(one.found), std::string::npos) << finding.found;
      EXPECT_NE(finding.advice.find(one.advice), std::string::npos) << finding.advice;
    }
  }
}

TEST(Doctor, DevicesAreShownAtTheEnd) {
  MachineFacts facts = good_machine();
  facts.rdma_lines = {"device mlx5_0: atomics", "device mlx5_0 port 1: Ethernet, down: bring it up"};
  const std::vector<Finding> findings = diagnose(facts);
  EXPECT_EQ(findings.back().subject, "RDMA");
  EXPECT_EQ(findings.back().grade, Grade::kNote);
  EXPECT_EQ(findings.back().found, facts.rdma_lines.back());
  EXPECT_EQ(findings[findings.size() - 2].found, facts.rdma_lines.front());
}

// Without RDMA nothing is registered, so the limit of locked memory does not matter.
TEST(Doctor, LockedMemoryMattersForRdmaOnly) {
  MachineFacts facts = good_machine();
  facts.locked_bytes_max = 8 << 20;
  facts.rdma_devices.clear();
  for (const Finding& finding : diagnose(facts)) {
    if (finding.subject == "locked memory") {
      EXPECT_EQ(finding.grade, Grade::kGood);
    }
  }
}

class DoctorFacts : public testing::Test {
 protected:
  DoctorFacts() : path_(std::filesystem::path(testing::TempDir()) / ("doctor-" + std::to_string(getpid()))) {}
  ~DoctorFacts() override { std::filesystem::remove_all(path_); }
  void put(const std::string& file, const std::string& text) const {
    const std::filesystem::path at = path_ / file;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
  }
  const std::filesystem::path path_;
};

TEST_F(DoctorFacts, FactsAreRead) {
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: X\nflags\t\t: avx avx2 bmi1 f16c fma abm movbe cx16\n");
  put("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    500 kB\nSwapTotal:       100 kB\n");
  put("proc/sys/vm/overcommit_memory", "2\n");
  put("proc/sys/net/core/somaxconn", "777\n");
  put("sys/fs/cgroup/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/memory.max", "4096\n");
  put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  put("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n");
  put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  put("sys/class/infiniband/rxe1/x", "");
  put("sys/class/infiniband/rxe0/x", "");
  const MachineFacts f = gather_facts(path_, {});
  EXPECT_EQ(f.cpu_missing, std::vector<std::string>{"bmi2"});
  EXPECT_EQ(f.memory_bytes, 1'024'000U);
  EXPECT_EQ(f.memory_available_bytes, 512'000U);
  EXPECT_EQ(f.swap_bytes, 102'400U);
  EXPECT_EQ(f.overcommit, "2");
  EXPECT_EQ(f.backlog_max, 777);
  EXPECT_EQ(f.cores_quota, 1.5);
  EXPECT_EQ(f.memory_quota_bytes, 4096U);
  EXPECT_EQ(f.huge_pages, "madvise");
  EXPECT_EQ(f.shared_huge_pages, "never");
  EXPECT_EQ(f.clock_source, "tsc");
  EXPECT_EQ(f.governor, "powersave");
  EXPECT_EQ(f.rdma_devices, (std::vector<std::string>{"rxe0", "rxe1"}));
  EXPECT_GE(f.cores_allowed, 1);
  EXPECT_TRUE(f.pidfd && f.memfd);
}

TEST_F(DoctorFacts, WhatIsNotThereIsUnknown) {
  const MachineFacts f = gather_facts(path_, {});
  EXPECT_TRUE(f.cpu_missing.empty());
  EXPECT_FALSE(f.cores_quota);
  EXPECT_FALSE(f.memory_quota_bytes);
  EXPECT_EQ(f.huge_pages, "");
  for (const Finding& finding : diagnose(f)) EXPECT_NE(finding.found, "") << finding.subject;
}

TEST(Doctor, ThisMachine) {
  const Result<Fd> taken = listen_on("127.0.0.1:0", 1);
  ASSERT_TRUE(taken);
  const int port = port_of(taken->get());
  const MachineFacts f = gather_facts("", {port});
  EXPECT_TRUE(f.cpu_missing.empty());
  EXPECT_GT(f.memory_bytes, 0U);
  EXPECT_EQ(f.ports_taken, std::vector<int>{port});
}

}  // namespace
}  // namespace weft
