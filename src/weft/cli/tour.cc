#include "weft/cli/tour.h"

#include <string_view>

#include "weft/wires/tcp/certificates.h"

namespace weft::cli {
namespace {

std::string range(int first, int count) {
  return std::to_string(first) + (count > 1 ? " to " + std::to_string(first + count - 1) : "");
}

// Quotes a word for a shell.
std::string word(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The arguments that redis-cli needs besides the port, and what a person has to do before.
struct Way {
  std::string cli = "redis-cli";
  std::string before;
};

Way way_in(const ClientConfig& client, const std::string& password_file) {
  Way way;
  if (!password_file.empty()) {
    way.before += "  export REDISCLI_AUTH=\"$(head -n 1 " + word(password_file) + " | tr -d '\\r')\"\n";
  } else if (!client.password.empty()) {
    way.before += "  # Before: export REDISCLI_AUTH=(the password)\n";
  }
  if (!client.has_tls()) return way;
  way.cli += " --tls --cacert ";
  if (has_root(client.tls.certificate)) {
    way.cli += word(client.tls.certificate);
  } else {
    way.cli += "\"$CA\"";
    way.before += "  # Before: export CA=(PEM file of the authority that signed " + client.tls.certificate + ")\n";
  }
  if (client.tls.ca.empty()) return way;
  way.cli += " --cert \"$CERT\" --key \"$KEY\"";
  way.before += "  # Before: export CERT=(PEM file of a certificate of an authority in " + client.tls.ca +
                ") KEY=(PEM file of its key)\n";
  return way;
}

std::string status_page(const Tour& tour) {
  if (tour.http_port <= 0) return {};
  const HttpConfig& http = tour.first.http;
  const std::string page =
      (http.has_tls() ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(tour.http_port) + "/";
  return "  status page    " + page + " (every node has one, ports " + range(tour.http_port, tour.first.options.nodes) +
         "; /metrics and /status beside it" + (http.password.empty() ? "" : "; the password with any name") + ")\n";
}

}  // namespace

std::string text_of(const Tour& tour) {
  const Options& o = tour.first.options;
  const ClientConfig& client = tour.first.client;
  const Way way = way_in(client, tour.password_file);
  const std::string first = way.cli + " -p " + std::to_string(tour.port);
  const std::string last = way.cli + " -p " + std::to_string(tour.port + tour.answering - 1);
  std::string out = "A cluster of " + std::to_string(o.nodes) + (o.nodes == 1 ? " node" : " nodes") + " with " +
                    std::to_string(o.replicas) + (o.replicas == 1 ? " replica" : " replicas") +
                    " of every key is up.\n\n";
  const bool divided = tour.answering < o.nodes;
  if (divided) {
    out += "  roles          compute nodes: " + range(0, tour.answering) +
           " (they run transactions), memory nodes: " + range(tour.answering, o.nodes - tour.answering) +
           " (they hold the data; ports " + range(tour.port + tour.answering, o.nodes - tour.answering) +
           " answer INFO, WEFT STATUS and the like)\n";
  }
  out += "  clients        127.0.0.1, ports " + range(tour.port, tour.answering) + ": any client of Redis, at any " +
         (divided ? "of these nodes" : "node") + (client.has_tls() ? ", over TLS" : "") +
         (client.password.empty() ? "" : ", with the password") + " (" + first + ")\n";
  out += status_page(tour);
  if (!tour.warning.empty()) out += "  warning        " + tour.warning + "\n";
  out += "\nA short tour, to be pasted into another terminal:\n\n" + way.before;
  out += "  " + first + " set greeting hello\n";
  out += "  " + last + " get greeting\n";
  out += "  # One transaction, whatever nodes its keys are at:\n";
  out += "  printf 'MULTI\\nINCR a\\nINCR b\\nINCR c\\nEXEC\\n' | " + first + "\n";
  if (o.replicas > 1 && tour.answering > 1) {
    out += "  # Kill a node. Nothing that was answered is lost:\n";
    out += "  kill -9 $(" + last + " weft status | grep -o '\"pid\":[0-9]*' | cut -d: -f2)\n";
    out += "  " + first + " get greeting\n";
    out += "  # It is started again and catches up. When it is whole it answers as before:\n";
    out += "  until " + last + " weft status 2>/dev/null | grep -q '\"whole\":true'; do sleep 0.1; done\n";
    out += "  " + last + " get greeting\n";
  }
  return out + "\nCtrl-C ends the cluster, and with it the data.\n\n";
}

}  // namespace weft::cli
