// Every command, with the replies that Redis gives: commands_script.txt, recorded from redis-server 7.0.15 by
// tests/redis_record.py.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/source_testing.h"
#include "weft/redis/frontend_testing.h"

namespace weft {

class CommandScriptTest : public FrontendTest {
 protected:
  static std::string unescaped(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
      } else if (text[i + 1] == 'x') {
        out += static_cast<char>(std::stoi(std::string(text.substr(i + 2, 2)), nullptr, 16));
        i += 3;
      } else {
        out += text[i + 1] == 'r' ? '\r' : text[i + 1] == 'n' ? '\n' : text[i + 1];
        ++i;
      }
    }
    return out;
  }

  // Runs the script, each part of it at the next node, and expects its replies. Returns how many commands it has.
  size_t run_script() {
    std::ifstream script(source_path("src/weft/redis/commands_script.txt"));
    std::vector<Fd> clients;
    for (size_t n = 0; n < kNodes; ++n) clients.push_back(connect_to(n));
    std::string line;
    size_t commands = 0;
    size_t node = 0;
    while (std::getline(script, line)) {
      if (line.starts_with("## ")) {
        for (const Fd& client : clients) ask(client, "HELLO " + line.substr(3));
      } else if (line.starts_with("# ")) {
        EXPECT_EQ(ask(clients[0], "FLUSHALL"), "+OK\r\n");
        node = (node + 1) % kNodes;
      } else {
        std::string reply;
        if (!std::getline(script, reply)) ADD_FAILURE() << line;
        EXPECT_EQ(ask(clients[node], line), unescaped(reply.substr(2))) << line;
        ++commands;
      }
    }
    return commands;
  }
};

}  // namespace weft
