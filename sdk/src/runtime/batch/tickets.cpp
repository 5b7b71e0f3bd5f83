#include "runtime/batch/tickets.hpp"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace dpi {

Tickets::Tickets(size_t count)
    : count_(count), tickets_(std::make_unique<Ticket[]>(count)), free_(count), done_(count) {
  for (size_t i = 0; i < count; ++i) free_.push(i);
}

Tickets::~Tickets() {
  if (fd_ >= 0) close(fd_);
}

Status Tickets::open() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd_ >= 0) return {};
  return Status(Code::kIo, "the descriptor of completions (eventfd) cannot be opened").native(errno);
}

Ticket* Tickets::take() {
  uint64_t i = 0;
  return free_.pop(&i) ? &tickets_[i] : nullptr;
}

void Tickets::give_back(Ticket* t) { free_.push(static_cast<uint64_t>(t - tickets_.get())); }

uint64_t Tickets::arm(Ticket* t, uint64_t* number) {
  const uint64_t uses = (t->word.load(std::memory_order_relaxed) >> 8) + 1;
  t->number = uses * count_ + static_cast<uint64_t>(t - tickets_.get());
  *number = t->number;
  const uint64_t armed = uses << 8 | Ticket::kWaiting;
  submitted_.fetch_add(1, std::memory_order_seq_cst);
  t->word.store(armed, std::memory_order_release);
  return armed;
}

void Tickets::finish(Ticket* t) {
  const uint64_t uses = t->word.load(std::memory_order_relaxed) >> 8;
  t->word.store(uses << 8 | Ticket::kDone, std::memory_order_release);
  done_.push(static_cast<uint64_t>(t - tickets_.get()));
  signal();
  completed_.fetch_add(1, std::memory_order_seq_cst);  // the last of it: close() waits for this
}

bool Tickets::cancel(uint64_t number, Status why) {
  Ticket& t = tickets_[number % count_];
  if (!begin_end(&t, number / count_ << 8 | Ticket::kWaiting)) return false;
  cancelled_.fetch_add(1, std::memory_order_relaxed);
  t.status = std::move(why);
  t.version = t.run_ns = 0;
  t.queued_ns = monotonic_ns() - t.submitted_ns;
  finish(&t);
  return true;
}

void Tickets::cancel_all(const Status& why) {
  for (size_t i = 0; i < count_; ++i) {
    const uint64_t word = tickets_[i].word.load(std::memory_order_acquire);
    const uint64_t phase = word & 255;
    if (phase == Ticket::kWaiting || phase == Ticket::kLooking) cancel((word >> 8) * count_ + i, why);
  }
}

Ticket* Tickets::next_done() {
  uint64_t i = 0;
  return done_.pop(&i) ? &tickets_[i] : nullptr;
}

void Tickets::release(Ticket* t) {
  const uint64_t uses = t->word.load(std::memory_order_relaxed) >> 8;
  t->status = Status();
  t->word.store(uses << 8 | Ticket::kFree, std::memory_order_release);
  give_back(t);
  taken_.fetch_add(1, std::memory_order_seq_cst);
}

void Tickets::signal() {
  if (signalled_.exchange(1, std::memory_order_seq_cst) == 0)
    eventfd_write(fd_, 1);  // nonblocking, and never near its limit
}

void Tickets::end_descriptor() {
  ended_.store(true, std::memory_order_seq_cst);
  eventfd_write(fd_, 1);
}

/// The flag falls again after the read: whoever raised it in between may have had its signal read, and either
/// its completion is still here, which raises it once more, or another thread took that.
void Tickets::clear_descriptor() {
  if (ended_.load(std::memory_order_seq_cst)) return;
  eventfd_t count = 0;
  signalled_.store(0, std::memory_order_seq_cst);
  eventfd_read(fd_, &count);
  signalled_.store(0, std::memory_order_seq_cst);
  if (ended_.load(std::memory_order_seq_cst)) return end_descriptor();
  if (done_.any()) signal();
}

}  // namespace dpi
