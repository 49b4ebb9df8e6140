#include "weft/wires/interconnect_factory.h"

#include <utility>

#include "weft/wires/shm/shm.h"
#include "weft/wires/tcp/tcp.h"
#include "weft/wires/verbs/verbs.h"

namespace weft {

namespace {

Result<std::unique_ptr<Interconnect>> make_shm(const InterconnectOptions& options, Regions* regions, Clock* clock) {
  ShmOptions shm;
  shm.address = options.listen;
  shm.node = options.node;
  shm.incarnation = options.incarnation;
  shm.workers = options.workers;
  shm.params = options.params;
  shm.regions = regions;
  auto interconnect = ShmInterconnect::create(shm, clock);
  if (!interconnect) return interconnect.error();
  return std::unique_ptr<Interconnect>(std::move(*interconnect));
}

TcpOptions tcp_options(const InterconnectOptions& options) {
  TcpOptions tcp;
  tcp.self = options.node;
  tcp.incarnation = options.incarnation;
  tcp.workers = options.workers;
  tcp.listen = options.listen;
  if (!options.tls.ca.empty()) tcp.tls = options.tls;
  tcp.params = options.params;
  return tcp;
}

Result<std::unique_ptr<Interconnect>> make_tcp(const InterconnectOptions& options, Regions* regions, Clock* clock) {
  auto interconnect = TcpInterconnect::create(tcp_options(options), regions, clock);
  if (!interconnect) return interconnect.error();
  return std::unique_ptr<Interconnect>(std::move(*interconnect));
}

Result<std::unique_ptr<Interconnect>> make_verbs(const InterconnectOptions& options, Regions* regions, Clock* clock) {
  VerbsOptions verbs;
  verbs.tcp = tcp_options(options);
  verbs.device = options.device;
  verbs.remote_lock_mode = options.remote_lock_mode;
  verbs.nodes = options.nodes;
  verbs.worker_doorbells = options.worker_doorbells;
  auto interconnect = VerbsInterconnect::create(verbs, regions, clock);
  if (!interconnect) return interconnect.error();
  return std::unique_ptr<Interconnect>(std::move(*interconnect));
}

}  // namespace

Result<std::unique_ptr<Interconnect>> make_interconnect(const InterconnectOptions& options, Regions* regions,
                                                        Clock* clock) {
  if (options.kind == "shm") return make_shm(options, regions, clock);
  if (options.kind == "tcp") return make_tcp(options, regions, clock);
  if (options.kind == "verbs") return make_verbs(options, regions, clock);
  return Error{Code::kBadOption, "fabric \"" + options.kind + "\": there are shm, tcp and verbs"};
}

}  // namespace weft
