#include "weft/wires/meshes.h"

#include <utility>

#include "weft/wires/shm/shm.h"
#include "weft/wires/tcp/tcp.h"
#include "weft/wires/verbs/verbs.h"

namespace weft {

namespace {

Result<std::unique_ptr<Mesh>> make_shm(const MeshOptions& options, Regions* regions, Clock* clock) {
  ShmOptions shm;
  shm.address = options.listen;
  shm.node = options.node;
  shm.incarnation = options.incarnation;
  shm.workers = options.workers;
  shm.agreement = options.agreement;
  shm.regions = regions;
  auto mesh = ShmMesh::create(shm, clock);
  if (!mesh) return mesh.error();
  return std::unique_ptr<Mesh>(std::move(*mesh));
}

TcpOptions tcp_options(const MeshOptions& options) {
  TcpOptions tcp;
  tcp.self = options.node;
  tcp.incarnation = options.incarnation;
  tcp.workers = options.workers;
  tcp.listen = options.listen;
  if (!options.tls.ca.empty()) tcp.tls = options.tls;
  tcp.agreement = options.agreement;
  return tcp;
}

Result<std::unique_ptr<Mesh>> make_tcp(const MeshOptions& options, Regions* regions, Clock* clock) {
  auto mesh = TcpMesh::create(tcp_options(options), regions, clock);
  if (!mesh) return mesh.error();
  return std::unique_ptr<Mesh>(std::move(*mesh));
}

Result<std::unique_ptr<Mesh>> make_verbs(const MeshOptions& options, Regions* regions, Clock* clock) {
  VerbsOptions verbs;
  verbs.tcp = tcp_options(options);
  verbs.device = options.device;
  verbs.remote_lock_mode = options.remote_lock_mode;
  verbs.nodes = options.nodes;
  auto mesh = VerbsMesh::create(verbs, regions, clock);
  if (!mesh) return mesh.error();
  return std::unique_ptr<Mesh>(std::move(*mesh));
}

}  // namespace

Result<std::unique_ptr<Mesh>> make_mesh(const MeshOptions& options, Regions* regions, Clock* clock) {
  if (options.kind == "shm") return make_shm(options, regions, clock);
  if (options.kind == "tcp") return make_tcp(options, regions, clock);
  if (options.kind == "verbs") return make_verbs(options, regions, clock);
  return Error{Code::kBadOption, "fabric \"" + options.kind + "\": there are shm, tcp and verbs"};
}

}  // namespace weft
