// Formats: cgroups(7), proc_pid_mountinfo(5); Documentation/admin-guide/cgroup-v2.rst and
// cgroup-v1/{memory,cpuacct}.rst of Linux.
#include "base/host_share.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace dpi {

namespace {

/// A folder with files of limits: /sys/fs/cgroup/kubepods/pod7 of /sys/fs/cgroup.
struct Group {
  std::string mount;    // where the hierarchy is mounted
  std::string below;    // the group's folder in it, "" or "/a/b"
  std::string control;  // v1: "cpu", "memory"; v2: ""
};

struct Mount {
  std::string root;  // the part of the hierarchy that is mounted
  std::string point;
  std::string kind;  // cgroup, cgroup2
  std::string options;
};

/// Mount points have blanks and backslashes as \040 and the like.
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t k) { return text[k] >= '0' && text[k] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<Mount> read_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string id, parent, device, word;
    Mount m;
    if (!(words >> id >> parent >> device >> m.root >> m.point)) continue;
    while (words >> word && word != "-") {
    }
    std::string source;
    if (!(words >> m.kind >> source >> m.options) || (m.kind != "cgroup" && m.kind != "cgroup2")) continue;
    m.root = unescape(m.root);
    m.point = unescape(m.point);
    mounts.push_back(std::move(m));
  }
  return mounts;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// The group at `path` of a hierarchy, seen through a mount that may show only a part of it. A path outside
/// that part (a process of another namespace, "/../x") is the part's own root.
Group group_at(const Mount& m, const std::string& path, const std::string& control) {
  Group g{m.point, "", control};
  const std::string part = m.root == "/" ? "" : m.root;
  if (path.find("/..") != std::string::npos || path.compare(0, part.size(), part) != 0) return g;
  const std::string rest = path.substr(part.size());
  if (rest != "/" && (rest.empty() || rest.front() == '/')) g.below = rest;
  return g;
}

/// Reads /proc/self/cgroup: lines "5:cpu,cpuacct:/a/b" of v1, "0::/a/b" of v2.
std::vector<Group> groups_of_process(const std::string& root) {
  const std::vector<Mount> mounts = read_mounts(root);
  std::vector<Group> groups;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controls = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    for (const char* control : {"", "cpu", "memory"}) {
      const bool v2 = *control == '\0';
      if (v2 ? !controls.empty() : !has_word(controls, control)) continue;
      for (const Mount& m : mounts)
        if (v2 ? m.kind == "cgroup2" : m.kind == "cgroup" && has_word(m.options, control))
          groups.push_back(group_at(m, path, control));
    }
  }
  return groups;
}

/// The first number of a file; nothing where it is not there or begins with another word ("max").
std::optional<double> number_in(const std::string& path) {
  std::ifstream in(path);
  double value = 0;
  if (!(in >> value) || !std::isfinite(value)) return {};
  return value;
}

/// The number of `name` in lines "name number"; 0 where there is none.
double named_number(const std::string& path, std::string_view name) {
  std::ifstream in(path);
  std::string word;
  for (double value = 0; in >> word >> value;)
    if (word == name) return std::max(0.0, value);
  return 0;
}

void take_quota(double quota, double period, GroupLimits* limits) {
  if (quota <= 0 || period <= 0) return;
  const double processors = quota / period;
  limits->processors = limits->processors == 0 ? processors : std::min(limits->processors, processors);
}

void take_memory(double limit, double used, double unused_files, GroupLimits* limits) {
  constexpr double kNoLimit = 9e18;  // v1 writes 2^63 less a page
  if (limit < 0 || limit >= kNoLimit) return;
  const double left = std::max(0.0, limit - std::max(0.0, used - unused_files));
  limits->memory_left = std::min(limits->memory_left, static_cast<uint64_t>(left));
}

void take_limits(const std::string& folder, const std::string& control, GroupLimits* limits) {
  if (control.empty()) {
    std::ifstream in(folder + "/cpu.max");
    double quota = 0, period = 0;
    if (in >> quota >> period) take_quota(quota, period, limits);
    if (const auto most = number_in(folder + "/memory.max"))
      take_memory(*most, number_in(folder + "/memory.current").value_or(0),
                  named_number(folder + "/memory.stat", "inactive_file"), limits);
  } else if (control == "cpu") {
    take_quota(number_in(folder + "/cpu.cfs_quota_us").value_or(0),
               number_in(folder + "/cpu.cfs_period_us").value_or(0), limits);
  } else if (const auto most = number_in(folder + "/memory.limit_in_bytes")) {
    take_memory(*most, number_in(folder + "/memory.usage_in_bytes").value_or(0),
                named_number(folder + "/memory.stat", "total_inactive_file"), limits);
  }
}

/// 0 = unknown.
uint64_t memory_available() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

}  // namespace

GroupLimits group_limits(const std::string& root) {
  GroupLimits limits;
  for (Group& g : groups_of_process(root)) {
    for (;;) {
      take_limits(root + g.mount + g.below, g.control, &limits);
      if (g.below.empty()) break;
      g.below.resize(std::min(g.below.rfind('/'), g.below.size()));
    }
  }
  return limits;
}

int32_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int32_t processors = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  if (sched_getaffinity(0, sizeof set, &set) == 0) processors = std::max(1, CPU_COUNT(&set));
  try {
    const double quota = group_limits("").processors;
    if (quota > 0 && quota < processors) processors = std::max(1, static_cast<int32_t>(std::ceil(quota)));
  } catch (const std::bad_alloc&) {
    return processors;  // of no use for what the caller is about to load
  }
  return processors;
}

uint64_t usable_memory() {
  const uint64_t available = memory_available(), left = group_limits("").memory_left;
  if (available == 0) return left == UINT64_MAX ? 0 : std::max<uint64_t>(left, 1);
  return std::max<uint64_t>(std::min(available, left), 1);
}

}  // namespace dpi
