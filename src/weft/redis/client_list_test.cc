// CLIENT LIST and KILL at a node with two workers, each with its own connections.
#include "weft/redis/client_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class ClientListTest : public FrontendTest {
 protected:
  void shape(ClusterSpec& spec) override { spec.options.workers = 2; }
  // A frontend of the other worker of node 0, which connect_to(kOther) connects to.
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(FrontendTest::SetUp());
    ASSERT_NO_FATAL_FAILURE(add_front(0, 1));
    steps(3);
  }

  static constexpr size_t kOther = kSecondWorker;

  // An entire bulk string, which may be long.
  std::string ask_long(const Fd& client, std::string_view line) {
    std::string all = ask(client, line);
    const size_t wanted = all.starts_with('$') ? std::stoul(all.substr(1)) + all.find("\r\n") + 4 : all.size();
    while (all.size() < wanted) {
      const std::string more = answer(client);
      if (more.empty()) break;
      all += more;
    }
    return all;
  }
  bool closed(const Fd& client) {
    char byte = 0;
    for (int i = 0; i < 1000; ++i) {
      steps(1);
      if (recv(client.get(), &byte, 1, MSG_DONTWAIT) == 0) return true;
    }
    return false;
  }
  static std::string address_of(const Fd& client) {
    sockaddr_in at{};
    socklen_t bytes = sizeof at;
    EXPECT_EQ(getsockname(client.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  std::string id_of(const Fd& client) {
    const std::string reply = ask(client, "CLIENT ID");
    return reply.substr(1, reply.size() - 3);
  }
};

TEST_F(ClientListTest, ALineHasTheFieldsOfRedis) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "CLIENT SETNAME me"), "+OK\r\n");
  const std::string reply = ask(client, "CLIENT INFO");
  std::string line = reply.substr(reply.find("\r\n") + 2);
  std::string names;
  std::istringstream words(line);
  for (std::string word; words >> word;) names += word.substr(0, word.find('=') + 1);
  EXPECT_EQ(names,
            "id=addr=laddr=fd=name=age=idle=flags=db=sub=psub=ssub=multi=qbuf=qbuf-free=argv-mem=multi-mem=rbs=rbp="
            "obl=oll=omem=tot-mem=events=cmd=user=redir=resp=");
  EXPECT_NE(line.find(" name=me "), std::string::npos) << line;
  EXPECT_NE(line.find(" flags=N "), std::string::npos) << line;
  EXPECT_NE(line.find(" cmd=client|info user=default redir=-1 resp=2\n"), std::string::npos) << line;
}

TEST_F(ClientListTest, AllWorkersOfTheNode) {
  const Fd here = connect_to(0);
  const Fd there = connect_to(kOther);
  const Fd elsewhere = connect_to(1);
  EXPECT_EQ(ask(here, "CLIENT SETNAME here"), "+OK\r\n");
  EXPECT_EQ(ask(there, "CLIENT SETNAME there"), "+OK\r\n");
  EXPECT_EQ(ask(elsewhere, "CLIENT SETNAME elsewhere"), "+OK\r\n");
  for (const Fd* asks : {&here, &there}) {
    for (const char* command : {"CLIENT LIST", "CLIENT LIST TYPE normal"}) {
      const std::string list = ask(*asks, command);
      EXPECT_NE(list.find(" name=here "), std::string::npos) << list;
      EXPECT_NE(list.find(" name=there "), std::string::npos) << list;
      EXPECT_EQ(list.find(" name=elsewhere "), std::string::npos) << list;
    }
    const std::string one = ask(*asks, "CLIENT LIST ID " + id_of(there) + " 12345");
    EXPECT_EQ(one.find(" name=here "), std::string::npos) << one;
    EXPECT_NE(one.find(" name=there "), std::string::npos) << one;
  }
  EXPECT_EQ(ask(here, "CLIENT LIST TYPE replica"), "$0\r\n\r\n");
}

TEST_F(ClientListTest, ManyArePages) {
  std::vector<Fd> clients;
  for (int i = 0; i < 150; ++i) {
    clients.push_back(connect_to(i % 2 == 0 ? 0 : kOther));
    EXPECT_EQ(ask(clients.back(), "PING"), "+PONG\r\n");
  }
  const std::string list = ask_long(clients[0], "CLIENT LIST");
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 150 + 2) << list.substr(0, 500);
  const std::string last = "id=150 ";
  EXPECT_NE(list.find(last), std::string::npos);
  EXPECT_EQ(ask(clients[0], "CLIENT KILL TYPE normal"), ":149\r\n");
  for (size_t i = 1; i < clients.size(); ++i) EXPECT_TRUE(closed(clients[i])) << i;
  EXPECT_EQ(shared_[0].clients.load(), 1U);
  EXPECT_EQ(ask(clients[0], "PING"), "+PONG\r\n");
}

TEST_F(ClientListTest, WhoIsKilledIsGone) {
  const Fd killer = connect_to(0);
  for (const size_t where : {size_t{0}, kOther}) {
    const Fd first = connect_to(where);
    EXPECT_EQ(ask(killer, "CLIENT KILL ID " + id_of(first)), ":1\r\n");
    EXPECT_TRUE(closed(first));
    const Fd second = connect_to(where);
    EXPECT_EQ(ask(second, "PING"), "+PONG\r\n");
    EXPECT_EQ(ask(killer, "CLIENT KILL " + address_of(second)), "+OK\r\n");
    EXPECT_TRUE(closed(second));
    EXPECT_EQ(ask(killer, "CLIENT KILL " + address_of(second)), "-ERR No such client\r\n");
    const Fd third = connect_to(where);
    const Fd fourth = connect_to(where);
    EXPECT_EQ(ask(third, "MULTI"), "+OK\r\n");
    EXPECT_EQ(ask(fourth, "PING"), "+PONG\r\n");
    EXPECT_EQ(ask(killer, "CLIENT KILL ADDR " + address_of(third) + " USER default TYPE normal"), ":1\r\n");
    EXPECT_TRUE(closed(third));
    EXPECT_EQ(ask(fourth, "PING"), "+PONG\r\n");
  }
  // It kills itself after its reply.
  EXPECT_EQ(ask(killer, "CLIENT KILL ID " + id_of(killer)), ":0\r\n");
  EXPECT_EQ(ask(killer, "CLIENT KILL SKIPME no ID " + id_of(killer)), ":1\r\n");
  EXPECT_TRUE(closed(killer));
  const Fd other = connect_to(kOther);
  EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  EXPECT_EQ(ask(other, "CLIENT KILL " + address_of(other)), "+OK\r\n");
  EXPECT_TRUE(closed(other));
}

// A transaction in progress completes, and its connection is gone at once.
TEST_F(ClientListTest, WhoWaitsIsKilledToo) {
  const Fd killer = connect_to(kOther);
  const Fd sleeper = connect_to(0);
  const std::string id = id_of(sleeper);
  say(sleeper, "DEBUG SLEEP 1000");
  steps(10);
  EXPECT_EQ(ask(killer, "CLIENT KILL ID " + id), ":1\r\n");
  EXPECT_TRUE(closed(sleeper));
  EXPECT_EQ(ask(killer, "CLIENT LIST ID " + id), "$0\r\n\r\n");
}

TEST_F(ClientListTest, PauseIsRefused) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "CLIENT PAUSE 100"),
            "-ERR CLIENT PAUSE is not supported: the other nodes would go on serving the same keys\r\n");
  EXPECT_EQ(ask(client, "CLIENT UNPAUSE"), "+OK\r\n");
}

}  // namespace
}  // namespace weft
