#include "soak/host_state.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

namespace dpi::soak {

namespace {

template <class F>
bool find(void* library, const char* name, F* out) {
  *out = reinterpret_cast<F>(dlsym(library, name));
  return *out != nullptr;
}

/// "0,1": the processors that a thread or a process may run on.
std::string processors_of(pid_t id) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(id, sizeof set, &set) != 0) return "unknown";
  std::string text;
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(c, &set)) text += (text.empty() ? "" : ",") + std::to_string(c);
  }
  return text;
}

std::string openmp_variables() {
  std::vector<std::string_view> found;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry = *e;
    for (const char* prefix : {"OMP_", "GOMP_", "KMP_"}) {
      if (entry.starts_with(prefix)) found.push_back(entry);
    }
  }
  std::sort(found.begin(), found.end());
  std::string text;
  for (const std::string_view entry : found) text += " " + std::string(entry);
  return text;
}

}  // namespace

OpenMp::OpenMp() {
  void* const library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return;
  const bool whole =
      find(library, "omp_set_num_threads", &set_threads_) && find(library, "omp_get_dynamic", &dynamic_) &&
      find(library, "omp_get_max_active_levels", &levels_) && find(library, "omp_get_schedule", &schedule_);
  if (whole) find(library, "omp_get_max_threads", &max_threads_);
}

std::string OpenMp::settings() const {
  if (max_threads_ == nullptr) return "absent";
  int kind = 0, chunk = 0;
  schedule_(&kind, &chunk);
  return std::to_string(max_threads_()) + " threads, dynamic " + std::to_string(dynamic_()) + ", levels " +
         std::to_string(levels_()) + ", schedule " + std::to_string(kind) + "," + std::to_string(chunk);
}

std::string mapped_openmp() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const char* name : {"libgomp", "libomp", "libiomp"}) {
      if (line.find(name) != std::string::npos) return name;
    }
  }
  return "";
}

std::string host_state(const OpenMp& openmp) {
  return "thread on " + processors_of(0) + ", process on " + processors_of(getpid()) + ", OpenMP " +
         openmp.settings() + ", variables" + openmp_variables();
}

bool take_two_processors() {
  cpu_set_t all, two;
  CPU_ZERO(&all);
  CPU_ZERO(&two);
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return false;
  for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++c) {
    if (CPU_ISSET(c, &all)) CPU_SET(c, &two);
  }
  return sched_setaffinity(0, sizeof two, &two) == 0;
}

}  // namespace dpi::soak
