// TcpLink: one connection between two workers, from the hello to its end. The control thread makes it, offers it to the
// worker's TcpWire, and frees it; in between it is the worker's.
//
// The end of a link: the control thread may say `dead` at any time, after which the worker delivers nothing more of it
// (TcpWire says how that is made sure of), or the worker says `lost` when the connection failed, with the reason in
// `fault`. Either way the worker lets go of it in its next poll and says `released`, and only then the control thread
// closes the socket and frees the memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "weft/fabric/wire.h"
#include "weft/types.h"
#include "weft/wires/tcp/buffer.h"
#include "weft/wires/tcp/frame.h"
#include "weft/wires/tcp/stream.h"
#include "weft/wires/tcp/verbs.h"

namespace weft {

class TcpLink {
 public:
  TcpLink(TcpStream stream_in, NodeId peer_in, uint32_t incarnation_in, size_t output_bytes_max, Regions* regions,
          Completions* completions)
      : peer(peer_in),
        incarnation(incarnation_in),
        stream(std::move(stream_in)),
        output(output_bytes_max),
        posted(peer_in, completions),
        served(peer_in, regions) {}

  const NodeId peer;
  const uint32_t incarnation;

  std::atomic<bool> dead{false};      // by the control thread
  std::atomic<bool> lost{false};      // by the worker, after `fault`
  std::atomic<bool> released{false};  // by the worker, its last access

  // The rest is the worker's.
  TcpFault fault;
  TcpStream stream;
  TcpOutput output;
  TcpInput input;
  TcpVerbQueue posted;
  TcpVerbServer served;
  bool readable = true;  // what the socket last said; events are edge-triggered
  bool writable = true;
  bool hung_up = false;  // reading on until the end will show it
};

}  // namespace weft
