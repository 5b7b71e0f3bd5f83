// A row that is fetched while the version it belongs to is replaced: it comes late, goes to the call that
// asked for it, and is never a newer version's. The program stands between the library and the file: it holds
// the first read of a fetch thread for as long as the test wants. Planted, seen:
// runtime/endpoint_rows_of_base (tests/mutants); the new version's calls wait for the old row.
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <pthread.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

#include "capi/rows_support.hpp"

using namespace dpi::test;

namespace {

/// Holds one read, the first that a fetch thread begins once it is armed.
class Hold {
 public:
  void arm() { set(kArmed); }
  void release() { set(kOpen); }
  bool armed() { return state() != kOpen; }
  bool holds() { return state() == kHolding; }
  void pass() {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    std::unique_lock<std::mutex> lock(mutex_);
    if (state_ != kArmed || std::string(name) != "dpi-fetch") return;
    state_ = kHolding;
    changed_.wait(lock, [this] { return state_ == kOpen; });
  }

 private:
  enum State { kOpen, kArmed, kHolding };
  void set(State s) {
    const std::lock_guard<std::mutex> lock(mutex_);
    state_ = s;
    changed_.notify_all();
  }
  State state() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return state_;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = kOpen;
};

Hold& hold() {
  static Hold one;
  return one;
}

}  // namespace

// In place of the C library's, for libdpi too. While the hold is on no page is in the cache, so that rows are
// read by fetch threads and not by who asks.
extern "C" __attribute__((visibility("default"))) ssize_t pread(int fd, void* to, size_t n, off_t at) {
  hold().pass();
  return syscall(SYS_pread64, fd, to, n, at);
}
extern "C" __attribute__((visibility("default"))) ssize_t preadv2(int fd, const iovec* to, int count,
                                                                  off_t at, int flags) {
  if (!hold().armed()) return syscall(SYS_preadv2, fd, to, count, at, 0, flags);
  errno = EAGAIN;
  return -1;
}

namespace {

constexpr uint64_t kOld = kVersions, kNew = kVersions + 1;

EndpointPtr endpoint_of(const char* share, const char* keep_seconds) {
  EndpointPtr e = make_endpoint("late", {{"store.host_bytes", "60000"},
                                         {"store.resident_bytes", "0"},
                                         {"store.share", share},
                                         {"max_contexts", "4"},
                                         {"max_rows", "8"}});
  set(e.get(), "warm_up_rows", "0");
  set(e.get(), "keep_seconds", keep_seconds);
  load(e.get(), row_bundle(kOld), kOld);
  return e;
}

/// Rows that the delta to kNew sets, and nothing has asked for.
KnownRows changed_rows() {
  KnownRows rows;
  rows.add(1037, 33, 65);
  return rows;
}

/// A call of the old version whose row is held back.
struct LateCall {
  RowsAnswer answer;
  std::thread thread;
  explicit LateCall(dpi_endpoint* e) {
    hold().arm();
    thread = std::thread([this, e] { answer = ask(e, changed_rows()); });
    const bool held = soon([] { return hold().holds(); });
    CHECK(held);
  }
  void end() {
    hold().release();
    thread.join();
    INFO(answer.text);
    CHECK(answer.version == kOld);
    CHECK(answer.right);
  }
};

void check(dpi_endpoint* e, uint64_t version) {
  const RowsAnswer a = ask(e, changed_rows());
  INFO(a.text);
  CHECK(a.version == version);
  CHECK(a.right);
}

}  // namespace

TEST_CASE("a row that is fetched late is the old version's, and not put into the new one's tier") {
  if (row_versions() == nullptr) return;
  for (const char* share : {"on", "off"}) {
    CAPTURE(share);
    const EndpointPtr e = endpoint_of(share, "300");
    LateCall late(e.get());
    load(e.get(), row_delta(kOld), kNew);
    check(e.get(), kNew);  // fetched before the old row comes
    late.end();
    check(e.get(), kNew);
    load(e.get(), row_delta(kNew), kNew + 1);
    check(e.get(), kNew + 1);
    REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
    check(e.get(), kNew);
  }
}

TEST_CASE("a version that goes waits for the row of a call that has begun; others are with the next one") {
  if (row_versions() == nullptr) return;
  for (const char* share : {"on", "off"}) {
    CAPTURE(share);
    const EndpointPtr e = endpoint_of(share, "0");
    LateCall late(e.get());
    std::atomic<bool> loaded{false};
    std::thread loader([&] {
      load(e.get(), row_delta(kOld), kNew);
      loaded.store(true);
    });
    const bool serves = soon([&] { return dpi_endpoint_version(e.get()) == kNew; });
    CHECK(serves);
    check(e.get(), kNew);
    CHECK_FALSE(loaded.load());  // the old one has a call
    late.end();
    loader.join();
    check(e.get(), kNew);
  }
}
