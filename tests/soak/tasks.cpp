#include "soak/tasks.hpp"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace dpi::soak {

namespace {

/// The processor clock of a thread of this process, by its number as the kernel builds such clocks.
uint64_t processor_ns(pid_t task) {
  const auto clock = static_cast<clockid_t>(~static_cast<uint32_t>(task) << 3 | 6);
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return 0;  // it has ended
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

std::vector<Task> tasks() {
  std::vector<Task> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream status(entry.path() / "status");
    Task t;
    t.id = static_cast<pid_t>(std::stol(entry.path().filename().string()));
    for (std::string line; std::getline(status, line);) {
      std::istringstream words(line);
      std::string key;
      words >> key;
      if (key == "Name:") words >> t.name;
      if (key == "State:") words >> t.state;
      if (key == "Cpus_allowed:") words >> t.processors;
      if (key == "voluntary_ctxt_switches:") words >> t.slept;
      if (key == "nonvoluntary_ctxt_switches:") words >> t.ousted;
    }
    if (t.name.empty()) continue;  // ended meanwhile
    t.ns = processor_ns(t.id);
    found.push_back(std::move(t));
  }
  return found;
}

Spent& Spent::operator+=(const Spent& o) {
  tasks = std::max(tasks, o.tasks);
  slept += o.slept;
  ousted += o.ousted;
  seconds += o.seconds;
  return *this;
}

Spent Spent::operator-(const Spent& o) const {
  return {tasks, slept - o.slept, ousted - o.ousted, seconds - o.seconds};
}

Spent spent(const std::string& name) {
  Spent s;
  for (const Task& t : tasks()) {
    if (t.name != name) continue;
    ++s.tasks;
    s.slept += t.slept;
    s.ousted += t.ousted;
    s.seconds += 1e-9 * static_cast<double>(t.ns);
  }
  return s;
}

TaskWatch::TaskWatch(std::string caller, std::string helper, int64_t processors)
    : caller_(std::move(caller)), helper_(std::move(helper)), processors_(processors), thread_([this] {
        pthread_setname_np(pthread_self(), kName);
        while (!stop_.load()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          look();
        }
      }) {}

TaskWatch::~TaskWatch() {
  stop_.store(true);
  thread_.join();
}

void TaskWatch::look() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!on_) return;
  int64_t helpers = 0, running = 0;
  for (const Task& t : tasks()) {
    const bool helper = t.name == helper_, ours = helper || t.name == caller_;
    helpers += helper ? 1 : 0;
    running += ours && t.state == 'R' ? 1 : 0;
    if (!ours && t.name != kName && t.id != getpid() && stranger_.empty()) stranger_ = t.name;
  }
  ++seen_.looks;
  seen_.crowded += running > processors_ ? 1 : 0;
  seen_.most_helpers = std::max(seen_.most_helpers, helpers);
  seen_.most_running = std::max(seen_.most_running, running);
}

void TaskWatch::begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_ = {};
  on_ = true;
}

TaskWatch::Seen TaskWatch::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_ = false;
  return seen_;
}

std::string TaskWatch::stranger() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stranger_;
}

}  // namespace dpi::soak
