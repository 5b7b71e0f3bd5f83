// What of a host's thread is none of a library's business: on which processors it may run, how its OpenMP is
// set, the environment variables that say so.
#pragma once

#include <sched.h>

#include <string>

namespace dpi::soak {

/// GCC's OpenMP runtime, which this process opens as a host's would be there; absent where there is none.
class OpenMp {
 public:
  OpenMp();
  explicit operator bool() const { return max_threads_ != nullptr; }
  /// Of the calling thread.
  void set_threads(int threads) const { set_threads_(threads); }
  std::string settings() const;

 private:
  int (*max_threads_)() = nullptr;
  void (*set_threads_)(int) = nullptr;
  int (*dynamic_)() = nullptr;
  int (*levels_)() = nullptr;
  void (*schedule_)(int* kind, int* chunk) = nullptr;
};

/// Names of OpenMP runtimes that are mapped into this process.
std::string mapped_openmp();

/// Of the calling thread and the process, as a text to compare and to show.
std::string host_state(const OpenMp& openmp);

/// Leaves the calling thread, and those that it starts, the first two of its processors. False where it has
/// fewer.
bool take_two_processors();

}  // namespace dpi::soak
