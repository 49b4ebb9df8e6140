// A real ZooKeeper server for tests, from Debian's packages `zookeeper` and `default-jre-headless`: one Java process
// with its data in its own folder, on a port that the kernel chose and that stays reserved while it is down. It ends
// with the thread that started it, however that ends. Also a plain client, for writes from outside.
#pragma once

#define THREADED  // the C client's header: with the calls that wait
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/base/fd.h"

namespace weft {

// Whether it became true within five minutes, which is long enough for a busy machine.
inline bool comes_true(const std::function<bool()>& condition) {
  RealClock clock;
  const uint64_t end_ns = clock.now_ns() + 300'000'000'000;
  while (!condition()) {
    if (clock.now_ns() > end_ns) return false;
    usleep(2000);
  }
  return true;
}

class ZookeeperServer {
 public:
  ZookeeperServer() {
    zoo_set_debug_level(static_cast<ZooLogLevel>(0));  // plain clients log nothing either
    std::string folder = std::filesystem::temp_directory_path() / "weft-zookeeper-XXXXXX";
    WEFT_CHECK(mkdtemp(folder.data()) != nullptr, "a folder for the server");
    folder_ = folder;
    reserve_port();
    std::ofstream(folder_ / "zoo.cfg") << "tickTime=500\ndataDir=" << (folder_ / "data").string()
                                       << "\nclientPortAddress=127.0.0.1\nclientPort=" << port_
                                       << "\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n";
    start();
  }
  ~ZookeeperServer() {
    end(SIGKILL);
    std::filesystem::remove_all(folder_);
  }
  ZookeeperServer(const ZookeeperServer&) = delete;
  ZookeeperServer& operator=(const ZookeeperServer&) = delete;

  std::string hosts() const { return "127.0.0.1:" + std::to_string(port_); }

  // Returns when the server answers. It keeps its earlier data.
  void start() {
    const std::string config = folder_ / "zoo.cfg", log = folder_ / "log";
    std::vector<std::string> words = {"java",
                                      "-Xmx64m",
                                      "-XX:+UseSerialGC",
                                      "-XX:TieredStopAtLevel=1",
                                      "-Dzookeeper.forceSync=no",  // it is killed, but the machine's memory survives
                                      "-cp",
                                      "/usr/share/java/zookeeper.jar",
                                      "org.apache.zookeeper.server.ZooKeeperServerMain",
                                      config};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {  // other threads may hold locks: system calls only
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(126);
      const int out = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    WEFT_CHECK(comes_true([this] { return answers() || ended(); }), "the server does not answer");
    WEFT_CHECK(!ended(), "the server ended: are the packages zookeeper and default-jre-headless installed?");
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    kill(pid_, SIGCONT);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void pause() { kill(pid_, SIGSTOP); }
  void go_on() { kill(pid_, SIGCONT); }

 private:
  // Bound and not listening, it keeps the port from everybody who does not ask for this very one. Java reuses
  // addresses.
  void reserve_port() {
    reserved_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    setsockopt(reserved_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address = localhost(0);
    socklen_t bytes = sizeof address;
    WEFT_CHECK(bind(reserved_.get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0, "a port for the server");
    getsockname(reserved_.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(address.sin_port);
  }
  static sockaddr_in localhost(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  bool answers() const {
    const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = localhost(port_);
    const timeval patience{1, 0};  // a server that is starting may not answer
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
    if (write(fd.get(), "srvr", 4) != 4) return false;
    std::string answer;
    char bytes[512];
    for (ssize_t n = 0; (n = read(fd.get(), bytes, sizeof bytes)) > 0;) answer.append(bytes, static_cast<size_t>(n));
    return answer.find("Mode: standalone") != std::string::npos;
  }
  bool ended() {
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
    return pid_ <= 0;
  }

  std::filesystem::path folder_;
  Fd reserved_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};

// Waits for every answer. Reads and writes anything.
class ZookeeperStranger {
 public:
  explicit ZookeeperStranger(const std::string& hosts, const std::string& auth = {})
      : handle_(zookeeper_init2(hosts.c_str(), &ZookeeperStranger::ignore, 10'000, nullptr, nullptr,
                                ZOO_NO_LOG_CLIENTENV, nullptr)) {
    if (!auth.empty()) {
      zoo_add_auth(handle_, "digest", auth.data(), static_cast<int>(auth.size()), nullptr, nullptr);
    }
  }
  ~ZookeeperStranger() { zookeeper_close(handle_); }
  ZookeeperStranger(const ZookeeperStranger&) = delete;
  ZookeeperStranger& operator=(const ZookeeperStranger&) = delete;

  // The data and its version; version -1 if there is no node.
  std::pair<std::string, int32_t> get(const std::string& path) {
    std::string data(1 << 20, '\0');
    int bytes = static_cast<int>(data.size());
    Stat stat{};
    const int code = zoo_get(handle_, path.c_str(), 0, data.data(), &bytes, &stat);
    if (code != ZOK) return {zerror(code), -1};
    data.resize(static_cast<size_t>(bytes));
    return {data, stat.version};
  }
  bool set(const std::string& path, const std::string& data) {
    return zoo_set(handle_, path.c_str(), data.data(), static_cast<int>(data.size()), -1) == ZOK;
  }
  bool create(const std::string& path, const std::string& data, bool for_me_only = false) {
    const ACL_vector* const acl = for_me_only ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    return zoo_create(handle_, path.c_str(), data.data(), static_cast<int>(data.size()), acl, ZOO_PERSISTENT, nullptr,
                      0) == ZOK;
  }
  bool remove(const std::string& path) { return zoo_delete(handle_, path.c_str(), -1) == ZOK; }

 private:
  static void ignore(zhandle_t*, int, int, const char*, void*) {}
  zhandle_t* const handle_;
};

}  // namespace weft
