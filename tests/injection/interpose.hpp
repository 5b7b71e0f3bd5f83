// The C library's calls that a load or predict may lose: memory, reads, opened files, threads. The program's
// own definitions stand before those of the C library and of the sanitizers, for every library of the
// process; they count, keep track of what is alive, and let single calls fail when told to.
//
// Nothing fails and nothing is counted but between arm() and disarm(), while a Watched lives. What is alive
// is counted always, with the emulated device's memory, without what the emulation takes for itself. Under
// TSan, which must have malloc for itself, can_inject() is false.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpi::test {

/// kHook: memory hooks of an environment that a test has set, which ask fails().
enum class Source : int { kAlloc, kRead, kOpen, kThread, kHook };
constexpr int kSources = 5;

/// kFail: no memory, EIO, EMFILE, EAGAIN. The others are of reads: half of the bytes, the end of the file, a
/// signal came.
enum class How : int { kFail, kShort, kEnd, kInterrupted };

struct Fault {
  Source source = Source::kAlloc;
  How how = How::kFail;
  int64_t at = 0;         // the call that fails, from 1; 0 = none
  bool all_from = false;  // and all calls of that source after it
};

bool can_inject();
void arm(const Fault& fault);
void disarm();
/// Calls of a source since arm().
int64_t calls_of(Source source);
/// Counts a call; true = it is the one that fails. For hooks.
bool fails(Source source);

/// Calls of any thread count while one of these lives.
struct Watched {
  Watched();
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
};

struct Alive {
  int64_t blocks = 0, bytes = 0;
};
Alive alive();
/// The most bytes alive since restart_peak().
int64_t peak_bytes();
void restart_peak();

}  // namespace dpi::test
