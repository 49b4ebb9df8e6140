#include "weft/wires/shm/handshake.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "weft/base/memory_file.h"
#include "weft/fabric/nodes.h"

namespace weft {
namespace {

constexpr int kMessagesPerRead = 32;  // so that no peer monopolizes the control thread
constexpr size_t kBaseFds = 2;        // control block and outbox; then the eventfds

// A worker writes to it unconditionally, so it must be an eventfd and never block.
bool is_eventfd(const Fd& fd) {
  std::array<char, 64> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
  const ssize_t got = readlink(link.c_str(), target.data(), target.size());
  const int flags = fcntl(fd.get(), F_GETFL);
  return got > 0 && std::string_view(target.data(), static_cast<size_t>(got)) == "anon_inode:[eventfd]" && flags >= 0 &&
         (flags & O_NONBLOCK) != 0;
}

}  // namespace

ShmHandshake::ShmHandshake(const ShmSelf& self, Fd socket, uint64_t deadline_ns)
    : self_(self), socket_(std::move(socket)), connecting_(false), deadline_ns_(deadline_ns) {
  const Result<void> user = shm_check_user(socket_.get());
  if (!user) refuse(user.error().detail);
}

ShmHandshake::ShmHandshake(const ShmSelf& self, Fd socket, uint64_t deadline_ns, const InterconnectPeer& to)
    : self_(self),
      socket_(std::move(socket)),
      connecting_(true),
      deadline_ns_(deadline_ns),
      peer_(to.node),
      incarnation_(to.incarnation) {
  const Result<void> user = shm_check_user(socket_.get());
  if (!user) refuse(user.error().detail);
  send(shm_encode(hello()));
}

ShmHello ShmHandshake::hello() const { return {self_.node, peer_, self_.incarnation, incarnation_, self_.params}; }

void ShmHandshake::send(ByteView message, std::span<const int> fds) {
  if (stage_ != Stage::kOver && !shm_send(socket_.get(), message, fds)) end("the socket takes no more");
}

void ShmHandshake::refuse(const std::string& why) {
  if (stage_ == Stage::kOver) return;
  shm_send(socket_.get(), shm_encode_refusal(why));
  end(why);
  refused_ = true;
}

void ShmHandshake::end(const std::string& why) {
  if (stage_ == Stage::kOver) return;
  stage_ = Stage::kOver;
  why_ = why;
}

void ShmHandshake::read() {
  ShmMessage message;
  for (int i = 0; i < kMessagesPerRead && stage_ != Stage::kOver; ++i) {
    switch (shm_receive(socket_.get(), message)) {
      case ShmReceived::kNothing:
        return;
      case ShmReceived::kCut:
        return refuse("set-up: a message was cut off; it is too long, or too many files are open here");
      case ShmReceived::kEnd:
        return end("its socket was closed: the process ended or left");
      case ShmReceived::kMessage:
        take(message);
    }
  }
}

void ShmHandshake::take(ShmMessage& message) {
  const Result<ShmKind> kind = shm_kind(message.bytes);
  if (!kind) return refuse(kind.error().detail);
  const bool sharing = stage_ == Stage::kSharing;
  switch (*kind) {
    case ShmKind::kHello:
      if (stage_ == Stage::kHello) return take_hello(message.bytes);
      break;
    case ShmKind::kRefuse:
      end(shm_decode_refusal(message.bytes));
      refused_ = true;
      return;
    case ShmKind::kBase:
      if (sharing && !link_->has_base()) return take_base(message);
      break;
    case ShmKind::kRegions:
      if ((sharing && link_->has_base()) || stage_ == Stage::kUp) return take_regions(message);
      break;
    case ShmKind::kDone:
      if (!sharing || !link_->has_base() || peer_done_) break;
      peer_done_ = true;
      return send(shm_encode(ShmKind::kReady));
    case ShmKind::kReady:
      if (!sharing || !peer_done_) break;
      stage_ = Stage::kUp;
      return;
  }
  refuse("set-up: message kind " + std::to_string(static_cast<int>(*kind)) + " out of order");
}

void ShmHandshake::take_hello(ByteView message) {
  const Result<ShmHello> got = shm_decode_hello(message);
  if (!got) return refuse(got.error().detail);
  const ShmHello& hello = *got;
  if (connecting_ && hello.from != peer_) {
    return refuse("node: " + std::to_string(peer_.value) + " was called, " + std::to_string(hello.from.value) +
                  " answered");
  }
  peer_ = hello.from;
  const std::string differs = mismatch(self_.node, self_.params, peer_, hello.params);
  if (!differs.empty()) return refuse(differs);
  if (hello.to != self_.node || hello.to_incarnation != self_.incarnation) {
    return refuse("incarnation: " + member_text(peer_, hello.from_incarnation) + " means " +
                  member_text(hello.to, hello.to_incarnation) + ", this is " +
                  member_text(self_.node, self_.incarnation));
  }
  if (connecting_ && hello.from_incarnation != incarnation_) {
    return refuse("incarnation: " + member_text(peer_, incarnation_) + " was called, it is in " +
                  std::to_string(hello.from_incarnation));
  }
  if (!connecting_ && hello.from >= self_.node) {
    return refuse("node: " + std::to_string(hello.from.value) + " connects to " + std::to_string(self_.node.value) +
                  ", the smaller id does");
  }
  incarnation_ = hello.from_incarnation;
  stage_ = Stage::kHeld;
  if (connecting_) go_on();
}

void ShmHandshake::go_on() {
  if (stage_ != Stage::kHeld) return;
  stage_ = Stage::kSharing;
  if (!connecting_) send(shm_encode(hello()));
  share();
}

void ShmHandshake::share() {
  const size_t bytes = ShmOutbox::bytes(self_.workers, self_.ring_bytes);
  Result<Fd> file = make_memory_file("weft rings", bytes);
  if (!file) return refuse(file.error().detail);
  Mapping memory = Mapping::of_file((*file).get(), bytes, Mapping::Pages::kHuge);
  if (memory.base() == nullptr) return refuse("no address space for rings of " + std::to_string(bytes) + " bytes");
  link_ = std::make_shared<ShmLink>(peer_, incarnation_, ShmOutbox(std::move(memory), self_.workers, self_.ring_bytes));
  std::vector<int> fds = {self_.control.get(), (*file).get()};
  for (const Fd& event_fd : self_.eventfds) fds.push_back(event_fd.get());
  send(shm_encode(ShmBase{static_cast<uint32_t>(self_.workers), self_.ring_bytes}), fds);
  share_regions();
  send(shm_encode(ShmKind::kDone));
}

void ShmHandshake::share_regions() {
  if (self_.regions == nullptr || link_ == nullptr) return;
  const size_t count = self_.regions->count();
  while (stage_ != Stage::kOver && regions_shared_ < count) {
    std::vector<ShmRegionEntry> entries;
    std::vector<int> fds;
    for (; regions_shared_ < count && entries.size() < kShmRegionsPerMessage; ++regions_shared_) {
      const RegionId id(static_cast<uint16_t>(regions_shared_));
      const Region* const region = self_.regions->find(id);
      if (region->fd() < 0) continue;  // private: the peer refuses verbs on it
      entries.push_back({id, self_.regions->domain_of(id), region->bytes()});
      fds.push_back(region->fd());
    }
    if (!entries.empty()) send(shm_encode(entries), fds);
  }
}

void ShmHandshake::take_base(ShmMessage& message) {
  const Result<ShmBase> base = shm_decode_base(message.bytes);
  if (!base) return refuse(base.error().detail);
  const uint64_t ring_bytes = (*base).ring_bytes;
  if ((*base).workers != self_.workers || message.fds.size() != kBaseFds + self_.workers) {
    return refuse("workers: " + std::to_string(self_.workers) + " at node " + std::to_string(self_.node.value) + ", " +
                  std::to_string((*base).workers) + " with " + std::to_string(message.fds.size()) +
                  " descriptors at node " + std::to_string(peer_.value));
  }
  if (ring_bytes < ShmOutbox::kRingBytesMin || ring_bytes > ShmOutbox::kRingBytesMax || ring_bytes % 4096 != 0) {
    return refuse("ring bytes: " + std::to_string(ring_bytes) + " is no size of a ring");
  }
  const size_t bytes = ShmOutbox::bytes(self_.workers, ring_bytes);
  for (const auto& [fd, expected] :
       {std::pair(message.fds[0].get(), kShmControlBytes), {message.fds[1].get(), bytes}}) {
    const Result<void> right = check_memory_file(fd, expected);
    if (!right) return refuse(right.error().detail);
  }
  Mapping control = Mapping::of_file(message.fds[0].get(), kShmControlBytes);
  Mapping rings = Mapping::of_file(message.fds[1].get(), bytes, Mapping::Pages::kHuge);
  if (control.base() == nullptr || rings.base() == nullptr) {
    return refuse("no address space for rings of " + std::to_string(bytes) + " bytes");
  }
  std::vector<Fd> eventfds;
  for (size_t i = kBaseFds; i < message.fds.size(); ++i) eventfds.push_back(std::move(message.fds[i]));
  if (!std::all_of(eventfds.begin(), eventfds.end(), is_eventfd)) return refuse("a worker's bell is no eventfd");
  link_->set_base(ShmOutbox(std::move(rings), self_.workers, ring_bytes), std::move(control), std::move(eventfds));
}

void ShmHandshake::take_regions(ShmMessage& message) {
  const auto entries = shm_decode_regions(message.bytes);
  if (!entries) return refuse(entries.error().detail);
  if ((*entries).size() != message.fds.size()) {
    return refuse("set-up: " + std::to_string((*entries).size()) + " regions with " +
                  std::to_string(message.fds.size()) + " descriptors");
  }
  for (size_t i = 0; i < message.fds.size(); ++i) {
    const ShmRegionEntry& entry = (*entries)[i];
    const std::string name = "region " + std::to_string(entry.id.value) + ": ";
    if (entry.bytes == 0 || entry.bytes % kHugePageBytes != 0)
      return refuse(name + std::to_string(entry.bytes) + " bytes");
    const Result<void> right = check_memory_file(message.fds[i].get(), entry.bytes);
    if (!right) return refuse(name + right.error().detail);
    Mapping memory = Mapping::of_file(message.fds[i].get(), entry.bytes, Mapping::Pages::kHuge);
    if (memory.base() == nullptr)
      return refuse(name + "no address space for " + std::to_string(entry.bytes) + " bytes");
    if (!link_->add_region(entry.id, entry.domain, std::move(memory)))
      return refuse(name + "was shared before, or is no id");
  }
}

}  // namespace weft
