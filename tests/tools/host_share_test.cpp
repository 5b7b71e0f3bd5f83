// Limits of control groups: trees of files as v1 and v2 show them, and groups of this machine where it lets
// us make some.
#include "base/host_share.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using dpi::group_limits;
using dpi::GroupLimits;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Root {
 public:
  Root() { fs::create_directories(path_ + "/proc/self"); }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  void write(const std::string& file, const std::string& text) {
    const fs::path to = path_ + file;
    fs::create_directories(to.parent_path());
    std::ofstream(to) << text;
  }
  void groups(const std::string& lines) { write("/proc/self/cgroup", lines); }
  void mounts(const std::string& lines) { write("/proc/self/mountinfo", lines); }
  GroupLimits limits() const { return group_limits(path_); }

 private:
  const std::string path_ =
      fs::temp_directory_path().string() + "/dpi_host_share_" + std::to_string(getpid());
};

const char* const kV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

}  // namespace

TEST_CASE("host share: without control groups there is no limit") {
  Root root;
  CHECK(root.limits().processors == 0);
  CHECK(root.limits().memory_left == UINT64_MAX);
  root.groups("0::/gone\n");
  root.mounts(kV2);
  CHECK(root.limits().processors == 0);
  CHECK(root.limits().memory_left == UINT64_MAX);
}

TEST_CASE("host share: v2, the least of the group and those above it") {
  Root root;
  root.groups("0::/kubepods/pod7/main\n");
  root.mounts(kV2);
  root.write("/sys/fs/cgroup/kubepods/pod7/main/cpu.max", "max 100000\n");
  root.write("/sys/fs/cgroup/kubepods/pod7/cpu.max", "250000 100000\n");
  root.write("/sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n");
  CHECK(root.limits().processors == 2.5);
  root.write("/sys/fs/cgroup/kubepods/pod7/main/cpu.max", "50000 100000\n");
  CHECK(root.limits().processors == 0.5);

  root.write("/sys/fs/cgroup/kubepods/pod7/main/memory.max", "max\n");
  CHECK(root.limits().memory_left == UINT64_MAX);
  root.write("/sys/fs/cgroup/kubepods/pod7/memory.max", std::to_string(1000 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/kubepods/pod7/memory.current", std::to_string(700 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/kubepods/pod7/memory.stat",
             "anon 1\nactive_file 5\ninactive_file " + std::to_string(200 * kMiB) + "\nslab 9\n");
  CHECK(root.limits().memory_left == 500 * kMiB);
  root.write("/sys/fs/cgroup/kubepods/memory.max", std::to_string(64 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/kubepods/memory.current", std::to_string(65 * kMiB) + "\n");
  CHECK(root.limits().memory_left == 0);
}

TEST_CASE("host share: v2, a container sees its own group as the root") {
  Root root;
  root.groups("0::/\n");
  root.mounts(kV2);
  root.write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  CHECK(root.limits().processors == 4);
  root.groups("0::/../../elsewhere\n");  // of a process that was moved out of its namespace
  CHECK(root.limits().processors == 4);
}

TEST_CASE("host share: v1, each control in its hierarchy, and a mount of a part of one") {
  Root root;
  root.groups("4:memory:/docker/a1\n3:cpu,cpuacct:/docker/a1\n2:cpuset:/\n1:name=systemd:/docker/a1\n0::/\n");
  root.mounts(
      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
      "32 31 0:29 /docker/a1 /sys/fs/cgroup/cpu\\040and\\040cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
      "33 31 0:30 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
      "34 31 0:31 / /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n");
  root.write("/sys/fs/cgroup/cpu and cpuacct/cpu.cfs_quota_us", "150000\n");
  root.write("/sys/fs/cgroup/cpu and cpuacct/cpu.cfs_period_us", "50000\n");
  root.write("/sys/fs/cgroup/memory/docker/a1/memory.limit_in_bytes", std::to_string(512 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/memory/docker/a1/memory.usage_in_bytes", std::to_string(100 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/memory/docker/a1/memory.stat",
             "inactive_file 7\ntotal_inactive_file " + std::to_string(40 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "9000\n");
  CHECK(root.limits().processors == 3);
  CHECK(root.limits().memory_left == 452 * kMiB);
  root.write("/sys/fs/cgroup/cpu and cpuacct/cpu.cfs_quota_us", "-1\n");
  CHECK(root.limits().processors == 0);
}

TEST_CASE("host share: files with other contents are no limits") {
  Root root;
  root.groups("0\n::\n0::/a\n:::::\nx:y:z\n");
  root.mounts("garbage\n1 2 3\n30 23 0:26 / /sys/fs/cgroup rw\n" + std::string(kV2));
  for (const char* text :
       {"", "max", "nan 100000", "-5 100000", "100000 0", "inf 1", "words here", "100000"}) {
    root.write("/sys/fs/cgroup/a/cpu.max", text);
    CHECK_MESSAGE(root.limits().processors == 0, text);
  }
  for (const char* text : {"", "max", "nan", "-1", "words"}) {
    root.write("/sys/fs/cgroup/a/memory.max", text);
    CHECK_MESSAGE(root.limits().memory_left == UINT64_MAX, text);
  }
}

TEST_CASE("host share: this process") {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  CHECK(dpi::usable_processors() >= 1);
  CHECK(dpi::usable_processors() <= CPU_COUNT(&mask));
  CHECK(dpi::usable_memory() > kMiB);
  int first = 0;
  while (!CPU_ISSET(first, &mask)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(dpi::usable_processors() == 1);
  CHECK(sched_setaffinity(0, sizeof mask, &mask) == 0);
}

namespace {

/// A group of this machine, with one limit; not made where the machine does not let us.
class OwnGroup {
 public:
  OwnGroup(const std::string& parent, const std::string& file, const std::string& value)
      : path_(parent + "/dpi_host_share_" + std::to_string(getpid())) {
    std::error_code error;
    if (!fs::create_directory(path_, error) || !fs::exists(path_ + "/cgroup.procs")) return;
    std::ofstream limit(path_ + "/" + file);
    made_ = static_cast<bool>(limit << value << std::flush);
  }
  ~OwnGroup() { ::rmdir(path_.c_str()); }
  OwnGroup(const OwnGroup&) = delete;
  OwnGroup& operator=(const OwnGroup&) = delete;
  bool is_made() const { return made_; }

  /// `is_right` in a child that is in the group. False too where the child could not join it.
  template <class Check>
  bool within(Check is_right) const {
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream procs(path_ + "/cgroup.procs");
      _exit(procs << getpid() << std::flush && is_right() ? 0 : 1);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  const std::string path_;
  bool made_ = false;
};

}  // namespace

TEST_CASE("host share: a child in a group of this machine") {
  for (const auto& [parent, file, value] :
       {std::array<std::string, 3>{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"},
        std::array<std::string, 3>{"/sys/fs/cgroup", "cpu.max", "100000 100000"}}) {
    const OwnGroup group(parent, file, value);
    if (!group.is_made()) {
      MESSAGE(parent << "/" << file << ": no group can be made here");
      continue;
    }
    CHECK(group.within([] { return dpi::usable_processors() == 1; }));
  }
  for (const auto& [parent, file] :
       {std::pair<std::string, std::string>{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
        std::pair<std::string, std::string>{"/sys/fs/cgroup", "memory.max"}}) {
    const OwnGroup group(parent, file, std::to_string(64 * kMiB));
    if (!group.is_made()) {
      MESSAGE(parent << "/" << file << ": no group can be made here");
      continue;
    }
    CHECK(group.within([] { return dpi::usable_memory() <= 64 * kMiB; }));
  }
}
