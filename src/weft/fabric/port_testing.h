// For the port's tests: a wire whose packets are heap blocks of exactly their size (so that AddressSanitizer sees a
// read one byte past the end), and ports that record what they receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/fabric/port.h"
#include "weft/fabric/wire.h"

namespace weft::testing {

using Bytes = std::vector<std::byte>;

// A wire for hand-made packets: the port receives what the test puts into `in`, and what it sends lands in `out`. No
// one-sided verbs.
class HandWire final : public Wire {
 public:
  struct Sent {
    NodeId to;
    Flow flow;
    Bytes bytes;
  };
  bool send(NodeId to, Flow flow, ByteView packet) override {
    if (out.size() >= room) return false;
    out.push_back({to, flow, Bytes(packet.begin(), packet.end())});
    return true;
  }
  size_t poll(std::span<Packet> packets) override {
    size_t n = 0;
    for (; n < packets.size() && !in.empty(); ++n) {
      const auto& [source, bytes] = in.front();
      std::unique_ptr<std::byte[]> block(new std::byte[bytes.size()]);
      if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
      packets[n] = {source, {block.get(), bytes.size()}};
      handed_out_.push_back(std::move(block));
      in.pop_front();
    }
    return n;
  }
  void release() override { handed_out_.clear(); }
  bool post(NodeId, Domain, std::span<const Verb>) override { return false; }
  size_t poll_completions(Domain, std::span<Completion>) override { return 0; }
  void reset(NodeId, Domain) override {}
  bool pending() const override { return !in.empty(); }

  std::deque<std::pair<NodeId, Bytes>> in;
  std::vector<Sent> out;
  size_t room = SIZE_MAX;

 private:
  std::vector<std::unique_ptr<std::byte[]>> handed_out_;
};

struct Got {
  NodeId source;
  uint8_t kind;
  uint32_t tag;
  std::string body;
  size_t burst;  // number of the burst it came in
  size_t run;    // length of its run
};

// A port that handles kinds [0, kinds) and keeps what it received.
class Listener {
 public:
  Listener(const PortOptions& options, Wire* wire, CostModel* cost_model = nullptr, uint8_t kinds = 4)
      : port(options, wire, cost_model) {
    for (uint8_t k = 0; k < kinds; ++k) {
      port.set_handler(
          k,
          [](void* context, std::span<const Message> run) {
            auto* self = static_cast<Listener*>(context);
            for (const Message& m : run) {
              self->got.push_back(
                  {m.source, m.kind, m.tag, std::string(as_text(m.body)), self->bursts.size(), run.size()});
              if (reinterpret_cast<uintptr_t>(m.body.data()) % 8 != 0) self->errors.emplace_back("misaligned body");
            }
            if (self->on_run) self->on_run(*self, run);
          },
          this);
    }
    port.set_burst_hook(
        [](void* context, std::span<Message> burst) {
          static_cast<Listener*>(context)->bursts.push_back(burst.size());
        },
        this);
    port.set_bad_peer([](void* context, NodeId peer,
                         const Error& error) { static_cast<Listener*>(context)->bad.emplace_back(peer, error); },
                      this);
  }

  void send(NodeId to, Flow flow, uint8_t kind, std::string_view body, uint32_t tag = 0) {
    std::byte* at = port.reserve(to, flow, kind, body.size(), tag);
    std::memcpy(at, body.data(), body.size());
  }

  Port port;
  std::vector<Got> got;
  std::vector<size_t> bursts;
  std::vector<std::pair<NodeId, Error>> bad;
  std::vector<std::string> errors;
  void (*on_run)(Listener&, std::span<const Message>) = nullptr;
};

}  // namespace weft::testing
