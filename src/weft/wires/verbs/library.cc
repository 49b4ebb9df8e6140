#include "weft/wires/verbs/library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

namespace weft {
namespace {

constexpr const char* kFile = "libibverbs.so.1";

Error missing(const std::string& what) {
  return {Code::kOs, what + ": install Debian's packages libibverbs1 and ibverbs-providers (rdma-core)"};
}

}  // namespace

Result<VerbsLibrary> VerbsLibrary::load(const char* file) {
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the text of each thread apart
  if (handle == nullptr) return missing(std::string("the RDMA library cannot be loaded: ") + dlerror());
  VerbsLibrary library{};
  std::string lacks;
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = dlsym(handle, name);
    if (symbol == nullptr && lacks.empty()) lacks = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find("ibv_get_device_list", library.get_device_list);
  find("ibv_free_device_list", library.free_device_list);
  find("ibv_get_device_name", library.get_device_name);
  find("ibv_open_device", library.open_device);
  find("ibv_close_device", library.close_device);
  find("ibv_query_device", library.query_device);
  find("ibv_query_port", library.query_port);
  find("ibv_query_gid", library.query_gid);
  find("ibv_alloc_pd", library.alloc_pd);
  find("ibv_dealloc_pd", library.dealloc_pd);
  find("ibv_reg_mr", library.reg_mr);
  find("ibv_dereg_mr", library.dereg_mr);
  find("ibv_create_comp_channel", library.create_comp_channel);
  find("ibv_destroy_comp_channel", library.destroy_comp_channel);
  find("ibv_create_cq", library.create_cq);
  find("ibv_destroy_cq", library.destroy_cq);
  find("ibv_get_cq_event", library.get_cq_event);
  find("ibv_ack_cq_events", library.ack_cq_events);
  find("ibv_create_qp", library.create_qp);
  find("ibv_modify_qp", library.modify_qp);
  find("ibv_destroy_qp", library.destroy_qp);
  find("ibv_wc_status_str", library.wc_status_str);
  find("ibv_port_state_str", library.port_state_str);
  if (!lacks.empty()) {
    dlclose(handle);
    return missing(std::string(file) + " has no " + lacks);
  }
  return library;
}

Result<const VerbsLibrary*> VerbsLibrary::load() {
  static const Result<VerbsLibrary> kLoaded = load(kFile);
  if (!kLoaded) return kLoaded.error();
  return &*kLoaded;
}

}  // namespace weft
