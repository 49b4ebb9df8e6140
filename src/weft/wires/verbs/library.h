// libibverbs, loaded when an RDMA device is first used: everything else runs without rdma-core.
//
// These are the functions that the library exports. Posting and polling are inline in its header and go through the
// function table of the device's driver, so they are not needed here.
//
// Loaded once, and never unloaded; any thread may use it.
#pragma once

#include <infiniband/verbs.h>

#include "weft/status.h"

namespace weft {

struct VerbsLibrary {
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_query_port) query_port;
  decltype(&::ibv_query_gid) query_gid;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_reg_mr) reg_mr;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_wc_status_str) wc_status_str;
  decltype(&::ibv_port_state_str) port_state_str;

  // An error names the library, or the function that it lacks, and the packages to install.
  static Result<const VerbsLibrary*> load();
  // The same for a library of another name.
  static Result<VerbsLibrary> load(const char* file);
};

}  // namespace weft
