// Commands about the connection: PING, HELLO, AUTH, CLIENT and so on. CLIENT LIST and KILL: client_list.cc.
#include <openssl/crypto.h>

#include <string>

#include "weft/redis/command_help.h"
#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"
#include "weft/redis/redis_version.h"

namespace weft {

void Client::reset() {
  end_multi();
  version = 2;
  name.clear();
  replies = Replies::kOn;
  no_evict = false;
  asked_cluster = false;
}

namespace {

void ping(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  if (arguments.size() > 2) return reply.error(wrong_arity("ping"));
  arguments.size() == 2 ? reply.bulk(arguments[1]) : reply.simple("PONG");
}

void echo(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) { reply.bulk(arguments[1]); }

void quit(RedisFrontend&, Client& client, Arguments, RespWriter& reply) {
  reply.simple("OK");
  client.closing = true;
}

void reset(RedisFrontend& front, Client& client, Arguments, RespWriter& reply) {
  client.reset();
  front.end_monitor(client);
  front.set_authenticated(client, front.options().password.empty());
  reply.set_version(2);
  reply.simple("RESET");
}

void select(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  const auto database = integer_argument(arguments[1], reply);
  if (!database) return;
  if (*database == 0) return reply.simple("OK");
  // Redis usually has sixteen databases: clients that rely on them should be told why this fails.
  *database > 0 && *database < 16
      ? reply.error("ERR DB index is out of range: there is database 0 alone, asked for " + std::to_string(*database))
      : reply.error("ERR DB index is out of range");
}

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

// There is one user. The comparison takes constant time, so it does not reveal where the password differs.
bool password_is_right(RedisFrontend& front, Client& client, std::string_view user, std::string_view password) {
  const std::string& wanted = front.options().password;
  const bool same =
      wanted.size() == password.size() && CRYPTO_memcmp(wanted.data(), password.data(), wanted.size()) == 0;
  const bool right = user == "default" && (wanted.empty() || same);
  front.on_password(client, right);
  return right;
}

void auth(RedisFrontend& front, Client& client, Arguments arguments, RespWriter& reply) {
  if (arguments.size() > 3) return reply.error(kSyntaxError);
  if (arguments.size() == 2 && front.options().password.empty()) {
    return reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
  }
  const std::string_view user = arguments.size() == 3 ? arguments[1] : "default";
  if (!password_is_right(front, client, user, arguments.back())) return reply.error(kWrongPassword);
  front.set_authenticated(client, true);
  reply.simple("OK");
}

// CLIENT LIST shows the names of all.
bool set_name(Client& client, std::string_view name, RespWriter& reply) {
  constexpr size_t kNameBytesMax = 256;
  if (name.size() > kNameBytesMax) {
    reply.error("ERR the client's name is too long: " + limit_text("the limit", kNameBytesMax, name.size()));
    return false;
  }
  for (const char c : name) {
    if (c >= '!' && c <= '~') continue;
    reply.error("ERR Client names cannot contain spaces, newlines or special characters.");
    return false;
  }
  client.name = name;
  return true;
}

void hello(RedisFrontend& front, Client& client, Arguments arguments, RespWriter& reply) {
  int version = client.version;
  if (arguments.size() >= 2) {
    const auto asked = integer_argument(arguments[1], reply, "ERR Protocol version is not an integer or out of range");
    if (!asked) return;
    if (*asked < 2 || *asked > 3) return reply.error("NOPROTO unsupported protocol version");
    version = static_cast<int>(*asked);
  }
  for (size_t i = 2; i < arguments.size(); ++i) {
    const size_t rest = arguments.size() - 1 - i;
    if (same_word(arguments[i], "auth") && rest >= 2) {
      if (!password_is_right(front, client, arguments[i + 1], arguments[i + 2])) return reply.error(kWrongPassword);
      front.set_authenticated(client, true);
      i += 2;
    } else if (same_word(arguments[i], "setname") && rest >= 1) {
      if (!set_name(client, arguments[i + 1], reply)) return;
      ++i;
    } else {
      return reply.error("ERR Syntax error in HELLO option '" + std::string(arguments[i]) + "'");
    }
  }
  if (!client.authenticated) {
    return reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
        "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
  }
  client.version = version;
  reply.set_version(version);
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(version);
  reply.bulk("id");
  reply.integer(static_cast<int64_t>(client.id));
  reply.bulk("mode");
  reply.bulk("cluster");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

void client_id(RedisFrontend&, Client& client, Arguments, RespWriter& reply) {
  reply.integer(static_cast<int64_t>(client.id));
}

void client_getname(RedisFrontend&, Client& client, Arguments, RespWriter& reply) {
  client.name.empty() ? reply.null() : reply.bulk(client.name);
}

void client_setname(RedisFrontend&, Client& client, Arguments arguments, RespWriter& reply) {
  if (set_name(client, arguments[2], reply)) reply.simple("OK");
}

// The library's name is accepted and not kept.
void client_setinfo(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  if (same_word(arguments[2], "lib-name") || same_word(arguments[2], "lib-ver")) return reply.simple("OK");
  reply.error("ERR Unrecognized option '" + std::string(arguments[2]) + "'");
}

void client_noevict(RedisFrontend&, Client& client, Arguments arguments, RespWriter& reply) {
  const bool on = same_word(arguments[2], "on");
  if (!on && !same_word(arguments[2], "off")) return reply.error(kSyntaxError);
  client.no_evict = on;
  reply.simple("OK");
}

void client_reply(RedisFrontend&, Client& client, Arguments arguments, RespWriter& reply) {
  if (same_word(arguments[2], "on")) {
    const bool heard = client.replies == Client::Replies::kOn;
    client.replies = Client::Replies::kOn;
    heard ? reply.simple("OK") : static_cast<void>(client.output.last().append("+OK\r\n"));
  } else if (same_word(arguments[2], "off")) {
    client.replies = Client::Replies::kOff;
  } else if (same_word(arguments[2], "skip")) {
    if (client.replies != Client::Replies::kOff) client.replies = Client::Replies::kSkipNext;
  } else {
    reply.error(kSyntaxError);
  }
}

constexpr uint32_t kAlways = kFast | kBeforeAuth;

constexpr Command kClientCommands[] = {
    {"auth", -2, kAlways, {}, "connection", "gives the password", nullptr, auth},
    {"client", -2, kHasSubcommands, {}, "connection", "about connections"},
    {"client|getname", 2, kFast, {}, "connection", "the connection's name", nullptr, client_getname},
    {"client|help", 2, kFast, {}, "connection", "what there is", nullptr, reply_help},
    {"client|id", 2, kFast, {}, "connection", "the connection's number", nullptr, client_id},
    {"client|no-evict",
     3,
     kAdmin,
     {},
     "connection",
     "taken, and nothing: no client is evicted",
     nullptr,
     client_noevict},
    {"client|reply",
     3,
     kFast | kNoMulti,
     {},
     "connection",
     "whether commands are answered: ON OFF SKIP",
     nullptr,
     client_reply},
    {"client|setinfo",
     4,
     kFast,
     {},
     "connection",
     "taken, and nothing: what library the client uses",
     nullptr,
     client_setinfo},
    {"client|setname", 3, kFast, {}, "connection", "names the connection", nullptr, client_setname},
    {"echo", 2, kFast, {}, "connection", "says what it is told", nullptr, echo},
    {"hello", -1, kAlways, {}, "connection", "chooses RESP2 or RESP3 (AUTH SETNAME)", nullptr, hello},
    {"ping", -1, kFast, {}, "connection", "PONG, or what it is told", nullptr, ping},
    {"quit", -1, kAlways | kNotQueued, {}, "connection", "closes the connection", nullptr, quit},
    {"reset", 1, kAlways | kNotQueued, {}, "connection", "the connection is as new", nullptr, reset},
    {"select", 2, kFast, {}, "connection", "there is database 0", nullptr, select},
};

}  // namespace

std::span<const Command> client_commands() { return kClientCommands; }

}  // namespace weft
