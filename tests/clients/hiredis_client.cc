// Drives a cluster with hiredis: pipelines and transactions, then writes through whichever node answers while somebody
// kills nodes, and reads back all that was acknowledged.
//
//   hiredis_client PORT PORT ...
//
// Prints `ready` when the writing begins, and goes on until its input ends; exits with 0 if everything was as it should
// be.
#include <hiredis/hiredis.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Frees {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, Frees>;
using Reply = std::unique_ptr<redisReply, Frees>;

Context connect_to(int port, int seconds) {
  const timeval patience{seconds, 0};
  Context context(redisConnectWithTimeout("127.0.0.1", port, patience));
  if (context == nullptr || context->err != 0) return nullptr;
  redisSetTimeout(context.get(), patience);
  return context;
}

template <class... A>
Reply ask(const Context& context, const char* format, A... arguments) {
  return Reply(static_cast<redisReply*>(redisCommand(context.get(), format, arguments...)));
}

std::string text_of(const Reply& reply) { return reply == nullptr ? "" : std::string(reply->str, reply->len); }

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "hiredis_client: %s\n", what);
  std::exit(1);
}

void ordinary(int port) {
  constexpr int kSeconds = 30;  // nothing is killed yet: every answer comes, on a busy machine late
  const Context context = connect_to(port, kSeconds);
  expect(context != nullptr, "connects");
  expect(text_of(ask(context, "SET %s %s", "h:a", "1")) == "OK", "SET");
  expect(text_of(ask(context, "GET h:a")) == "1", "GET");
  expect(ask(context, "INCRBY h:a 5")->integer == 6, "INCRBY");
  const std::string binary("\0\r\n\xff", 4);
  expect(text_of(ask(context, "SET h:b %b", binary.data(), binary.size())) == "OK", "SET of bytes");
  expect(text_of(ask(context, "GET h:b")) == binary, "GET of bytes");
  for (int i = 0; i < 500; ++i) redisAppendCommand(context.get(), "INCR h:p%d", i % 50);
  for (int i = 0; i < 500; ++i) {
    void* raw = nullptr;
    expect(redisGetReply(context.get(), &raw) == REDIS_OK, "a pipelined reply");
    const Reply reply(static_cast<redisReply*>(raw));
    expect(reply->type == REDIS_REPLY_INTEGER && reply->integer == i / 50 + 1, "pipelined replies are in order");
  }
  ask(context, "MULTI");
  ask(context, "SET h:x 1");
  ask(context, "INCR h:y");
  const Reply done = ask(context, "EXEC");
  expect(done->type == REDIS_REPLY_ARRAY && done->elements == 2 && done->element[1]->integer == 1, "EXEC");
  const Context other = connect_to(port, kSeconds);
  ask(context, "WATCH h:x");
  ask(other, "SET h:x 2");
  ask(context, "MULTI");
  ask(context, "SET h:x 3");
  expect(ask(context, "EXEC")->type == REDIS_REPLY_NIL, "a changed key makes EXEC nil");
  expect(ask(context, "GET h:none")->type == REDIS_REPLY_NIL, "GET of nothing");
  expect(ask(context, "LPUSH h:x 1")->type == REDIS_REPLY_ERROR, "an unknown command");
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  std::vector<int> ports;
  for (int i = 1; i < count; ++i) ports.push_back(std::atoi(arguments[i]));
  constexpr int kSeconds = 2;  // then another node is tried
  ordinary(ports[0]);
  std::puts("ready");
  std::fflush(stdout);
  const auto told_to_end = [] {
    pollfd input{0, POLLIN, 0};
    return poll(&input, 1, 0) > 0;
  };
  std::vector<int> acknowledged;
  size_t node = 0;
  int reconnects = -1;
  Context context;
  for (int i = 0; !told_to_end(); ++i) {
    while (context == nullptr) {
      node = (node + 1) % ports.size();
      context = connect_to(ports[node], kSeconds);
      ++reconnects;
    }
    const Reply reply = ask(context, "SET h:w%d %d", i, i);
    if (reply == nullptr) context.reset();
    if (text_of(reply) == "OK") acknowledged.push_back(i);
  }
  size_t lost = 0;
  for (const int i : acknowledged) {
    for (int attempt = 0;; ++attempt) {
      expect(attempt < 1000, "somebody answers");
      if (context == nullptr) context = connect_to(ports[static_cast<size_t>(attempt) % ports.size()], kSeconds);
      if (context == nullptr) continue;
      const Reply reply = ask(context, "GET h:w%d", i);
      if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) {
        context.reset();
        continue;
      }
      lost += text_of(reply) == std::to_string(i) ? 0 : 1;
      break;
    }
  }
  std::printf("{\"acknowledged\": %zu, \"reconnects\": %d, \"lost\": %zu}\n", acknowledged.size(), reconnects, lost);
  return lost == 0 && !acknowledged.empty() ? 0 : 1;
}
