#include "weft/wires/verbs/wire.h"

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/os_random.h"

namespace weft {
namespace {

bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

VerbsWire::VerbsWire(const VerbsNode& node, size_t completions_max, TcpWire* tcp)
    : self_(node.self),
      tcp_(tcp),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      shared_{node, WorkerDomain::create(node.nic, node.worker_doorbells),   {}, {},
              {},   DomainCompletions(std::max<size_t>(completions_max, 1)), {}, Random(os_random())} {}

Result<std::unique_ptr<VerbsWire>> VerbsWire::create(const VerbsNode& node, size_t completions_max, TcpWire* tcp) {
  std::unique_ptr<VerbsWire> wire(new VerbsWire(node, completions_max, tcp));
  const auto nodes = static_cast<size_t>(node.nodes);
  auto cq = VerbsCq::create(node.nic, (nodes + 1) * VerbsLink::kWorkMax, wire->shared_.worker_domain.get());
  if (!cq) return cq.error();
  wire->shared_.cq = std::move(*cq);
  wire->handed_.reserve(nodes * VerbsPackets::kReceives);
  if (!wire->epoll_ || !watch(wire->epoll_.get(), tcp->wait_fd()) ||
      !watch(wire->epoll_.get(), wire->shared_.cq->fd())) {
    return Error{Code::kOs, "no descriptor for a worker's events"};
  }
  return wire;
}

VerbsWire::~VerbsWire() = default;

bool VerbsWire::send(NodeId to, Flow, ByteView packet) {
  WEFT_CHECK(to != self_ && to.value < kNodesMax, "a wire goes to the other nodes");
  WEFT_CHECK(!packet.empty() && packet.size() <= kPacketBytesMax, "a packet is at most kPacketBytesMax");
  VerbsLink* const link = link_of(to);
  if (link != nullptr && tcp_->connection(to) == link->connection()) {
    const bool taken = link->send(packet);
    ++(taken ? shared_.counters.packets_sent : shared_.counters.packets_refused);
    return taken;
  }
  const bool lost = tcp_->is_lost(to);
  ++(lost ? shared_.counters.packets_dropped : shared_.counters.packets_refused);
  return lost;
}

size_t VerbsWire::poll(std::span<Packet> out) {
  const uint64_t gate = gate_.load(std::memory_order_relaxed);
  gate_.store(gate + 1, std::memory_order_seq_cst);
  drop_ended();
  if (tcp_->has_changes() || news_.load(std::memory_order_relaxed) || ++polls_ % kTcpEvery == 0) {
    news_.store(false, std::memory_order_seq_cst);
    receive_tcp();
    open_loopbacks();
  }
  step_links();
  const size_t count = take_work(out);
  shared_.counters.packets_received += count;
  if (count == 0) give_back();  // those of control messages: the caller need not call release()
  step_links();                 // sends the replies
  gate_.store(gate + 2, std::memory_order_release);
  return count;
}

void VerbsWire::release() {
  give_back();
  step_links();
}

// Posts the receives again.
void VerbsWire::give_back() {
  if (handed_.empty()) return;
  for (const Handed& handed : handed_) {
    VerbsLink* const link = link_of(handed.peer);
    if (link != nullptr && link->packets().generation() == handed.generation) link->packets().give_back(handed.index);
  }
  handed_.clear();
  for (const NodeId peer : linked_) {
    TcpFault fault;
    if (const int error = link_of(peer)->packets().repost(); error != 0) {
      fault.set("%.100s: receives are not taken: %s", shared_.nic.name().c_str(), tcp_error_text(error));
      give_up(peer, fault);
    }
  }
}

bool VerbsWire::post(NodeId to, Domain domain, std::span<const Verb> verbs) {
  WEFT_CHECK(to.value < kNodesMax, "a node of this cluster");
  if (to == self_) {
    open_loopback(domain);
    if (loopback(domain).queue != nullptr) return loopback(domain).queue->post(verbs);
  } else if (VerbsLink* const link = link_of(to)) {
    if (tcp_->connection(to) == link->connection()) return link->posted(domain).post(verbs);
    link->posted(domain).flush();  // keeps the order of posting, also when the connection has just ended
  }
  Completions& completions = shared_.completions.of(domain);
  if (!completions.reserve(verbs.size())) return false;
  for (const Verb& verb : verbs) completions.add({to, VerbStatus::kFlushed, verb.tag});
  ++shared_.counters.doorbells;
  shared_.counters.verbs += verbs.size();
  return true;
}

void VerbsWire::reset(NodeId to, Domain domain) {
  if (to == self_) {
    if (loopback(domain).queue != nullptr) loopback(domain).queue->reset();
    open_loopback(domain);
  } else if (VerbsLink* const link = link_of(to)) {
    link->posted(domain).reset();
    news_.store(true, std::memory_order_seq_cst);  // it may be necessary to ask for a new queue
  }
}

void VerbsWire::accept_incarnation(NodeId peer, uint32_t incarnation) {
  tcp_->accept_incarnation(peer, incarnation);
  if (link_of(peer) != nullptr && tcp_->connection(peer) == 0) {
    TcpFault fault;
    fault.set("incarnation %u was admitted instead", incarnation);
    give_up(peer, fault);
    drop_ended();
  }
  news_.store(true, std::memory_order_seq_cst);
}

bool VerbsWire::pending() const {
  if (!shared_.completions.empty() || news_.load(std::memory_order_seq_cst) || work_next_ != work_count_) return true;
  for (const NodeId peer : linked_) {
    if (links_[peer.value]->waiting()) return true;
  }
  if (tcp_->pending()) {
    news_.store(true, std::memory_order_seq_cst);
    return true;
  }
  // A completion that was in the queue before it was armed raises no event: it is taken now, and kept for poll().
  const int count = shared_.cq->poll(work_);
  work_next_ = 0;
  work_count_ = count > 0 ? static_cast<size_t>(count) : 0;
  return work_count_ != 0;
}

void VerbsWire::withdraw(NodeId peer) {
  wake();
  const uint64_t gate = gate_.load(std::memory_order_seq_cst);
  if (gate % 2 == 1) {
    while (gate_.load(std::memory_order_seq_cst) == gate) sched_yield();
  }
  shared_.close(peer);
}

void VerbsWire::wake() {
  news_.store(true, std::memory_order_seq_cst);
  tcp_->wake();
}

// Drops links whose connection below is gone or was replaced. Packets handed out from them stay valid: the memory is
// kept.
void VerbsWire::drop_ended() {
  for (const NodeId peer : linked_) {
    if (tcp_->connection(peer) == link_of(peer)->connection()) continue;
    links_[peer.value].reset();
    linked_.remove(peer);
  }
}

void VerbsWire::receive_tcp() {
  std::array<Packet, 16> messages;
  const size_t count = tcp_->poll(messages);
  drop_ended();
  open_links();
  for (size_t i = 0; i < count; ++i) {
    VerbsLink* const link = link_of(messages[i].source);
    TcpFault fault;
    if (link != nullptr && !link->on_message(messages[i].bytes, true, &fault)) give_up(messages[i].source, fault);
  }
  tcp_->release();
}

void VerbsWire::open_links() {
  for (size_t n = 0; n < kNodesMax; ++n) {
    const NodeId peer(static_cast<uint8_t>(n));
    const uint64_t connection = peer == self_ || links_[n] != nullptr ? 0 : tcp_->connection(peer);
    if (connection == 0) continue;
    if (const auto opened = open_link(peer, connection); !opened) {
      TcpFault fault;
      fault.set("%.180s", opened.error().detail.c_str());
      give_up(peer, fault);
    }
  }
}

Result<void> VerbsWire::open_link(NodeId peer, uint64_t connection) {
  VerbsMemory& memory = memories_[peer.value];
  if (!memory) {
    auto made = VerbsMemory::create(shared_.nic, VerbsPackets::kMemoryBytes);
    if (!made) return made.error();
    memory = std::move(*made);
  }
  auto link = VerbsLink::create(&shared_, peer, connection, memory);
  if (!link) return link.error();
  links_[peer.value] = std::move(*link);
  linked_.add(peer);
  return {};
}

void VerbsWire::open_loopbacks() {
  for (const Domain domain : kAllDomains) open_loopback(domain);
}

// Opens and closes the loopback with the node's grant to itself.
void VerbsWire::open_loopback(Domain domain) {
  Loopback& own = loopback(domain);
  const uint32_t grant = shared_.grant_to(self_, domain);
  if (own.queue != nullptr) own.queue->set_grant(grant);
  if (grant == 0 || grant == own.failed_grant || (own.queue != nullptr && own.queue->wants_queue() == 0)) return;
  const auto opened = open_loopback_queue(domain, grant);
  if (opened) return;
  own.failed_grant = grant;
  if (own.queue != nullptr) own.queue->set_grant(0);
  const std::scoped_lock lock(trouble_mutex_);
  trouble_ = "verbs to the own node: " + opened.error().detail;
}

Result<void> VerbsWire::open_loopback_queue(Domain domain, uint32_t grant) {
  std::unique_ptr<VerbsInitiatorQueue>& queue = loopback(domain).queue;
  if (queue == nullptr) {
    queue = std::make_unique<VerbsInitiatorQueue>(self_, domain, &shared_.windows[self_.value][index_of(domain)],
                                                  &shared_.completions.of(domain), &shared_.counters);
    queue->set_grant(grant);
  }
  const auto regions = shared_.registered->refresh();
  if (!regions) return regions.error();
  for (size_t region = 0; region < *regions; ++region) {
    const VerbsRegions::Entry entry = shared_.registered->at(region);
    queue->set_region(RegionId(static_cast<uint16_t>(region)), entry.base, entry.bytes, entry.key);
  }
  const auto asked = queue->ask(shared_.nic, *shared_.cq, shared_.generation(), shared_.sequence());
  if (!asked) return asked.error();
  const auto answer =
      shared_.served_to(self_, domain)
          .open(shared_.nic, shared_.target_cq, *shared_.regions, self_, domain, grant, *asked, shared_.sequence());
  if (!answer) return answer.error();
  if (!*answer) return {};  // the grant has just ended: the next call sees that
  ++shared_.counters.queues_opened;
  return queue->open(asked->number, **answer);
}

std::string VerbsWire::take_trouble() {
  const std::scoped_lock lock(trouble_mutex_);
  return std::exchange(trouble_, {});
}

void VerbsWire::step_links() {
  for (const NodeId peer : linked_) {
    TcpFault fault;
    if (!link_of(peer)->step(*tcp_, &fault)) give_up(peer, fault);
  }
}

size_t VerbsWire::take_work(std::span<Packet> out) {
  size_t count = 0;
  while (count < out.size()) {
    if (work_next_ == work_count_) {
      const int taken = shared_.cq->poll(work_);
      WEFT_CHECK(taken >= 0, "the completion queue holds what is outstanding");
      work_next_ = 0;
      work_count_ = static_cast<size_t>(taken);
      if (taken == 0) break;
    }
    const ibv_wc& wc = work_[work_next_++];
    if (take(wc, &out[count])) ++count;
  }
  return count;
}

// True if it delivered a packet.
bool VerbsWire::take(const ibv_wc& wc, Packet* out) {
  const VerbsTag tag = VerbsTag::unpack(wc.wr_id);
  if (tag.work == VerbsWork::kVerb) {
    VerbsLink* const link = tag.peer == self_ ? nullptr : link_of(tag.peer);
    VerbsInitiatorQueue* const posted = tag.peer == self_ ? loopback(tag.domain).queue.get()
                                        : link == nullptr ? nullptr
                                                          : &link->posted(tag.domain);
    if (posted != nullptr && posted->generation() == tag.generation) posted->completed(wc, tag.index);
    return false;
  }
  VerbsLink* const link = link_of(tag.peer);
  return link != nullptr && link->packets().generation() == tag.generation && take_packet_work(*link, tag, wc, out);
}

bool VerbsWire::take_packet_work(VerbsLink& link, const VerbsTag& tag, const ibv_wc& wc, Packet* out) {
  TcpFault fault;
  if (wc.status != IBV_WC_SUCCESS) {
    fault.set("%.90s: packets: %s%s", shared_.nic.name().c_str(), shared_.nic.library().wc_status_str(wc.status),
              wc.status == IBV_WC_RETRY_EXC_ERR ? ": check its port, and the way between the GIDs" : "");
    give_up(tag.peer, fault);
    return false;
  }
  if (tag.work == VerbsWork::kSend) {
    link.packets().sent(tag.index);
    return false;
  }
  handed_.push_back({tag.peer, tag.generation, tag.index});
  const ByteView bytes = link.packets().received(tag.index, wc.byte_len);
  if (VerbsPackets::is_control(wc)) {
    if (!link.on_message(bytes, false, &fault)) give_up(tag.peer, fault);
    return false;
  }
  if (bytes.empty()) {
    fault.set("bad packet: 0 bytes");
    give_up(tag.peer, fault);
    return false;
  }
  *out = {tag.peer, bytes};
  return true;
}

// The link itself is dropped with the connection below, at the next poll.
void VerbsWire::give_up(NodeId peer, const TcpFault& fault) {
  tcp_->give_up(peer, fault);
  news_.store(true, std::memory_order_seq_cst);
}

}  // namespace weft
