// Formats: cgroups(7), proc_pid_mountinfo(5); Documentation/admin-guide/cgroup-v2.rst and
// cgroup-v1/{memory,cpuacct}.rst of Linux.
#include "base/host_share.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file_handle.hpp"

namespace dpi {

namespace {

/// A folder with files of limits: /sys/fs/cgroup/kubepods/pod7 of /sys/fs/cgroup.
struct Group {
  std::string mount;  // where the hierarchy is mounted
  std::string below;  // the group's folder in it, "" or "/a/b"
  bool is_v2 = false;
};

struct Mount {
  std::string root;  // the part of the hierarchy that is mounted
  std::string point;
  std::string options;
  bool is_v2 = false;
};

/// A file's text, empty where it cannot be read. Not by a stream: streams follow the host's global locale,
/// and one that groups thousands reads "50000 100000" as one number.
std::string text_of(const std::string& path) {
  std::string text;
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[4096];
  for (ssize_t n = 0; file.get() >= 0 && (n = ::read(file.get(), bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(n));
  return text;
}

/// Returns what stands before the first `mark` and leaves what stands behind it; all of a text without one.
std::string_view cut(std::string_view* text, char mark) {
  const size_t at = std::min(text->find(mark), text->size());
  const std::string_view before = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return before;
}

/// Nothing for other texts, as "max" and "-1".
std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// Mount points have blanks and backslashes as \040 and the like.
std::string unescape(std::string_view text) {
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

/// The mounts of control groups. A line is "id parent device root point options fields... - kind source
/// options".
std::vector<Mount> read_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  const std::string text = text_of(root + "/proc/self/mountinfo");
  for (std::string_view left = text; !left.empty();) {
    std::string_view line = cut(&left, '\n');
    for (int i = 0; i < 3; ++i) cut(&line, ' ');
    const std::string_view part = cut(&line, ' '), point = cut(&line, ' ');
    while (!line.empty() && cut(&line, ' ') != "-") {
    }
    const std::string_view kind = cut(&line, ' ');
    cut(&line, ' ');
    if (!line.empty() && (kind == "cgroup" || kind == "cgroup2"))
      mounts.push_back({unescape(part), unescape(point), std::string(line), kind == "cgroup2"});
  }
  return mounts;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (cut(&list, ',') == word) return true;
  }
  return false;
}

/// The group at `path` of a hierarchy, seen through a mount that may show only a part of it. A path outside
/// that part (a process of another namespace, "/../x") is the part's own root.
Group group_at(const Mount& m, std::string_view path) {
  Group g{m.point, "", m.is_v2};
  const std::string_view part = m.root == "/" ? "" : std::string_view(m.root);
  if (path.find("/..") != std::string_view::npos || !path.starts_with(part)) return g;
  const std::string_view rest = path.substr(part.size());
  if (rest != "/" && rest.starts_with('/')) g.below = rest;
  return g;
}

/// The groups that may limit `control` ("cpu", "memory"). Lines of /proc/self/cgroup are "5:cpu,cpuacct:/a/b"
/// of v1 and "0::/a/b" of v2.
std::vector<Group> groups_of_process(const std::string& root, std::string_view control) {
  const std::vector<Mount> mounts = read_mounts(root);
  std::vector<Group> groups;
  const std::string text = text_of(root + "/proc/self/cgroup");
  for (std::string_view left = text; !left.empty();) {
    std::string_view path = cut(&left, '\n');
    cut(&path, ':');
    const std::string_view controls = cut(&path, ':');
    const bool is_v2 = controls.empty();
    if (!path.starts_with('/') || (!is_v2 && !has_word(controls, control))) continue;
    for (const Mount& m : mounts) {
      if (m.is_v2 == is_v2 && (is_v2 || has_word(m.options, control))) groups.push_back(group_at(m, path));
    }
  }
  return groups;
}

/// `visit` gets the folder of each such group and of those above it, and whether it is of v2.
template <class Visit>
void visit_folders(const std::string& root, std::string_view control, Visit visit) {
  for (Group& g : groups_of_process(root, control)) {
    for (;;) {
      visit(root + g.mount + g.below, g.is_v2);
      if (g.below.empty()) break;
      g.below.resize(g.below.rfind('/'));
    }
  }
}

/// The first number of a file.
std::optional<uint64_t> number_in(const std::string& path) {
  const std::string text = text_of(path);
  std::string_view left = text;
  return number_of(cut(&left, '\n'));
}

/// Bytes of file pages that the kernel takes back before it refuses memory: `memory_stat` has them in lines
/// "name number". Pages of tmpfs and of locked files are in other lines.
uint64_t reclaimable_bytes(const std::string& memory_stat, std::string_view inactive,
                           std::string_view active) {
  uint64_t bytes = 0;
  const std::string text = text_of(memory_stat);
  for (std::string_view left = text; !left.empty();) {
    std::string_view line = cut(&left, '\n');
    const std::string_view name = cut(&line, ' ');
    if (name == inactive || name == active) bytes += number_of(line).value_or(0);
  }
  return bytes;
}

/// Bytes that a group may still get; UINT64_MAX where it has no limit.
uint64_t memory_left_in(const std::string& folder, bool is_v2) {
  constexpr uint64_t kNoLimit = 9'000'000'000'000'000'000;  // v1 writes 2^63 less a page
  const auto limit = number_in(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (!limit || *limit >= kNoLimit) return UINT64_MAX;
  const uint64_t used =
      number_in(folder + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
  const uint64_t files =
      is_v2 ? reclaimable_bytes(folder + "/memory.stat", "inactive_file", "active_file")
            : reclaimable_bytes(folder + "/memory.stat", "total_inactive_file", "total_active_file");
  return *limit - std::min(*limit, used - std::min(used, files));
}

/// Quota over period; 0 where the group has no quota.
double processors_of(const std::string& folder, bool is_v2) {
  std::optional<uint64_t> quota, period;
  if (is_v2) {
    const std::string text = text_of(folder + "/cpu.max");
    std::string_view left = text;
    std::string_view line = cut(&left, '\n');
    quota = number_of(cut(&line, ' '));
    period = number_of(line);
  } else {
    quota = number_in(folder + "/cpu.cfs_quota_us");
    period = number_in(folder + "/cpu.cfs_period_us");
  }
  const auto over = static_cast<double>(period.value_or(0));
  return over == 0 ? 0 : static_cast<double>(quota.value_or(0)) / over;
}

/// 0 = unknown. The line is "MemAvailable:   123 kB".
uint64_t memory_available() {
  const std::string text = text_of("/proc/meminfo");
  for (std::string_view left = text; !left.empty();) {
    std::string_view line = cut(&left, '\n');
    if (cut(&line, ':') != "MemAvailable") continue;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return number_of(cut(&line, ' ')).value_or(0) * 1024;
  }
  return 0;
}

}  // namespace

double group_processors(const std::string& root) {
  double least = 0;
  visit_folders(root, "cpu", [&](const std::string& folder, bool is_v2) {
    const double processors = processors_of(folder, is_v2);
    if (processors > 0 && (least == 0 || processors < least)) least = processors;
  });
  return least;
}

uint64_t group_memory_left(const std::string& root) {
  uint64_t least = UINT64_MAX;
  visit_folders(root, "memory", [&](const std::string& folder, bool is_v2) {
    least = std::min(least, memory_left_in(folder, is_v2));
  });
  return least;
}

int32_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int32_t processors = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  if (sched_getaffinity(0, sizeof set, &set) == 0) processors = std::max(1, CPU_COUNT(&set));
  try {
    const double quota = group_processors("");
    if (quota > 0 && quota < processors) processors = std::max(1, static_cast<int32_t>(std::ceil(quota)));
  } catch (const std::bad_alloc&) {
    return processors;  // of no use for what the caller is about to load
  }
  return processors;
}

uint64_t usable_memory() {
  const uint64_t available = memory_available(), left = group_memory_left("");
  if (available == 0) return left == UINT64_MAX ? 0 : std::max<uint64_t>(left, 1);
  return std::max<uint64_t>(std::min(available, left), 1);
}

}  // namespace dpi
