// The threads of this process as the kernel sees them, and what they do while others are measured.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dpi::soak {

struct Task {
  pid_t id = 0;
  std::string name, processors;   // Cpus_allowed
  char state = ' ';               // R: runs or would if it had a processor
  int64_t slept = 0, ousted = 0;  // voluntary and involuntary switches
  uint64_t ns = 0;                // of processor time
};
std::vector<Task> tasks();

/// What tasks of one name have had together.
struct Spent {
  int64_t tasks = 0, slept = 0, ousted = 0;
  double seconds = 0;

  Spent& operator+=(const Spent& o);
  Spent operator-(const Spent& o) const;  // of the same tasks, before
};
Spent spent(const std::string& name);

/// Looks every millisecond, from a thread of its own, how many tasks of two names there are and run.
class TaskWatch {
 public:
  struct Seen {
    int64_t looks = 0, crowded = 0;  // looks that found more running than processors
    int64_t most_helpers = 0, most_running = 0;
  };

  /// names: of callers and of those who help them; all others but this process's main thread and the
  /// watcher's own are strangers.
  TaskWatch(std::string caller, std::string helper, int64_t processors);
  ~TaskWatch();
  TaskWatch(const TaskWatch&) = delete;
  TaskWatch& operator=(const TaskWatch&) = delete;

  void begin();
  Seen end();
  /// The first thread that has no business here, "" when there was none.
  std::string stranger();

  static constexpr const char* kName = "soak-watch";

 private:
  void look();

  const std::string caller_, helper_;
  const int64_t processors_;
  std::mutex mutex_;  // of the next three
  bool on_ = false;
  Seen seen_;
  std::string stranger_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace dpi::soak
