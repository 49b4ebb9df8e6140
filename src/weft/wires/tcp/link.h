// TcpLink: one connection between two workers after the hello. The control thread makes it, offers it to the worker's
// TcpWire, and frees it; in between the worker owns it.
//
// How a link ends: the control thread may set `dead` at any time, after which the worker delivers nothing more from it
// (TcpWire explains how that is ensured), or the worker sets `lost` when the connection failed, with the reason in
// `fault`. Either way the worker drops it in its next poll and sets `released`, and only then the control thread closes
// the socket and frees the memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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
          DomainCompletions* completions)
      : peer(peer_in),
        incarnation(incarnation_in),
        stream(std::move(stream_in)),
        output(output_bytes_max),
        regions_(regions) {
    for (const Domain domain : kAllDomains) {
      posted_.emplace_back(peer, domain, &completions->of(domain));
      served_.emplace_back(peer, domain, regions);
    }
  }

  const NodeId peer;
  const uint32_t incarnation;

  std::atomic<bool> dead{false};      // set by the control thread
  std::atomic<bool> lost{false};      // set by the worker, after `fault`
  std::atomic<bool> released{false};  // set by the worker, as its last access

  // Only the worker uses the rest.
  TcpFault fault;
  TcpStream stream;
  TcpOutput output;
  TcpInput input;
  TcpVerbQueue& posted(Domain domain) { return posted_[index_of(domain)]; }
  TcpVerbServer& served(Domain domain) { return served_[index_of(domain)]; }
  // Announces all grants that have changed; false if there is no room now.
  bool announce() {
    const uint64_t changes = regions_ == nullptr ? 0 : regions_->changes();
    if (changes == announced_changes_) [[likely]]
      return true;
    for (TcpVerbServer& server : served_) {
      if (!server.announce(output)) return false;
    }
    announced_changes_ = changes;
    return true;
  }
  void flush() {
    for (TcpVerbQueue& queue : posted_) queue.flush();
  }
  bool readable = true;  // as of the last event; events are edge-triggered
  bool writable = true;
  bool hung_up = false;  // further reads will reach the end

 private:
  Regions* const regions_;
  uint64_t announced_changes_ = UINT64_MAX;  // Regions::changes() when all grants had been announced
  std::vector<TcpVerbQueue> posted_;
  std::vector<TcpVerbServer> served_;
};

}  // namespace weft
