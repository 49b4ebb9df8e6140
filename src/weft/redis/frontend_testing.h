// Shared by the tests of the frontend: three nodes in this thread, stepped by hand, a frontend at each, and clients
// over real sockets.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/fd.h"
#include "weft/redis/frontend.h"
#include "weft/txn/node_testing.h"

namespace weft {

class FrontendTest : public testing::Test, public HandNodes {
 protected:
  static constexpr size_t kNodes = 3;
  static constexpr uint64_t kWallNs = 1'800'000'000'000'000'000;  // when a test begins

  // Lets a test change its cluster.
  virtual void shape(ClusterSpec&) {}
  virtual void shape_view(View&) {}
  virtual uint64_t look_ns() const { return 0; }  // in every turn

  // Starts over.
  void SetUp() override {
    fronts_.clear();
    addresses_.clear();
    spec_ = ClusterSpec();
    options_.look_ns = look_ns();
    spec_.options.nodes = kNodes;
    spec_.options.replicas = kNodes;
    spec_.options.limits.transactions_in_flight_max = 8;
    spec_.options.limits.key_bytes_max = 512;
    spec_.options.limits.txn_keys_max = 64;
    spec_.options.limits.txn_bytes_max = 1 << 20;
    spec_.recovers = true;
    wall_.now = kWallNs;
    wall_.step = 0;
    for (FrontendShared& shared : shared_) shared.clients = 0;
    spec_.tables.push_back(
        {.name = "keys", .keys = KeyKind::kBytes, .value_bytes_max = 64 + kValueHeaderBytesMax, .capacity = 20'000});
    shape(spec_);
    make_network();
    shape_view(view_);
    for (uint8_t n = 0; n < kNodes; ++n) {
      ASSERT_NO_FATAL_FAILURE(start_node(NodeId(n), view_));
      ASSERT_NO_FATAL_FAILURE(add_front(n, 0));
    }
    steps(3);
  }

  // Adds the frontend of a worker with its own listener; connect_to() takes the index of its address in `addresses_`.
  void add_front(size_t node, uint8_t worker) {
    Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof at;
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(listen(listener.get(), 256), 0);
    ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    addresses_.push_back(at);
    fronts_.push_back(std::make_unique<RedisFrontend>(options_, std::move(listener), txn_worker(node, worker), &wall_,
                                                      &shared_[node], NodeHooks{}));
    nodes_[node]->worker(WorkerId(worker))->set_clients(fronts_.back().get());
  }
  // The index of node 0's second worker, after add_front(0, 1).
  static constexpr size_t kSecondWorker = kNodes;

  Fd connect_to(size_t node) {
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&addresses_[node]), sizeof(sockaddr_in)), 0);
    return client;
  }
  static void say(const Fd& client, std::string_view line) {
    const std::string text = std::string(line) + "\r\n";
    EXPECT_EQ(send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // The raw reply; empty if none comes.
  std::string answer(const Fd& client) {
    char bytes[65536];
    for (int i = 0; i < 5000; ++i) {
      steps(1);
      const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n > 0) return {bytes, static_cast<size_t>(n)};
      if (i > 1000) usleep(50);  // the kernel may be slow
    }
    return {};
  }
  std::string ask(const Fd& client, std::string_view line) {
    say(client, line);
    return answer(client);
  }
  // The id that WEFT MULTI returns; the commands are queued after it.
  std::string begin(const Fd& client, std::initializer_list<std::string_view> commands = {}) {
    const std::string bulk = ask(client, "WEFT MULTI");
    EXPECT_EQ(bulk.substr(0, 1), "$") << bulk;
    for (const std::string_view command : commands) EXPECT_EQ(ask(client, command), "+QUEUED\r\n") << command;
    const size_t at = bulk.find("\r\n") + 2;
    return bulk.substr(at, bulk.size() - at - 2);
  }

  HandClock wall_;  // advanced only by the test
  std::array<FrontendShared, kNodes> shared_;
  std::vector<sockaddr_in> addresses_;
  std::vector<std::unique_ptr<RedisFrontend>> fronts_;
  FrontendOptions options_;
};

}  // namespace weft
