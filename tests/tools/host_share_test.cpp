// Limits of control groups: trees of files as v1 and v2 show them, and groups of this machine where it lets
// us make some.
#include "base/host_share.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <locale>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

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
  double processors() const { return dpi::group_processors(path_); }
  uint64_t memory_left() const { return dpi::group_memory_left(path_); }

  /// Names of the files that `f` opens in `folders`.
  template <class F>
  std::set<std::string> opened_in(const std::vector<std::string>& folders, F f) const {
    const int watch = inotify_init1(IN_NONBLOCK);
    for (const std::string& folder : folders)
      REQUIRE(inotify_add_watch(watch, (path_ + folder).c_str(), IN_OPEN) >= 0);
    f();
    std::set<std::string> names;
    alignas(inotify_event) char bytes[4096];
    for (ssize_t n = 0; (n = ::read(watch, bytes, sizeof bytes)) > 0;) {
      for (const char* at = bytes; at < bytes + n;) {
        const auto* const event = reinterpret_cast<const inotify_event*>(at);
        if (event->len > 0) names.insert(event->name);
        at += sizeof(inotify_event) + event->len;
      }
    }
    ::close(watch);
    return names;
  }

 private:
  const std::string path_ =
      fs::temp_directory_path().string() + "/dpi_host_share_" + std::to_string(getpid());
};

const char* const kV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

}  // namespace

TEST_CASE("host share: without control groups there is no limit") {
  Root root;
  CHECK(root.processors() == 0);
  CHECK(root.memory_left() == UINT64_MAX);
  root.groups("0::/gone\n");
  root.mounts(kV2);
  CHECK(root.processors() == 0);
  CHECK(root.memory_left() == UINT64_MAX);
}

TEST_CASE("host share: v2, the least of the group and those above it") {
  Root root;
  root.groups("0::/kubepods/pod7/main\n");
  root.mounts(kV2);
  root.write("/sys/fs/cgroup/kubepods/pod7/main/cpu.max", "max 100000\n");
  root.write("/sys/fs/cgroup/kubepods/pod7/cpu.max", "250000 100000\n");
  root.write("/sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n");
  CHECK(root.processors() == 2.5);
  root.write("/sys/fs/cgroup/kubepods/pod7/main/cpu.max", "50000 100000\n");
  CHECK(root.processors() == 0.5);

  root.write("/sys/fs/cgroup/kubepods/pod7/main/memory.max", "max\n");
  CHECK(root.memory_left() == UINT64_MAX);
  root.write("/sys/fs/cgroup/kubepods/pod7/memory.max", std::to_string(1000 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/kubepods/pod7/memory.current", std::to_string(700 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/kubepods/pod7/memory.stat",
             "anon 1\nfile " + std::to_string(400 * kMiB) + "\ninactive_anon 3\ninactive_file " +
                 std::to_string(150 * kMiB) + "\nactive_file " + std::to_string(50 * kMiB) + "\nslab 9\n");
  CHECK(root.memory_left() == 500 * kMiB);
  root.write("/sys/fs/cgroup/kubepods/memory.max", std::to_string(64 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/kubepods/memory.current", std::to_string(65 * kMiB) + "\n");
  CHECK(root.memory_left() == 0);
}

TEST_CASE("host share: v2, a container sees its own group as the root") {
  Root root;
  root.groups("0::/\n");
  root.mounts(kV2);
  root.write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  CHECK(root.processors() == 4);
  root.groups("0::/../../elsewhere\n");  // of a process that was moved out of its namespace
  CHECK(root.processors() == 4);
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
             "inactive_file 7\nactive_file 9\ntotal_inactive_file " + std::to_string(30 * kMiB) +
                 "\ntotal_active_file " + std::to_string(10 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "9000\n");
  CHECK(root.processors() == 3);
  CHECK(root.memory_left() == 452 * kMiB);
  root.write("/sys/fs/cgroup/cpu and cpuacct/cpu.cfs_quota_us", "-1\n");
  CHECK(root.processors() == 0);
}

TEST_CASE("host share: files with other contents are no limits") {
  Root root;
  root.groups("0\n::\n0::/a\n:::::\nx:y:z\n");
  root.mounts("garbage\n1 2 3\n30 23 0:26 / /sys/fs/cgroup rw\n" + std::string(kV2));
  for (const char* text :
       {"", "max", "nan 100000", "-5 100000", "100000 0", "inf 1", "words here", "100000"}) {
    root.write("/sys/fs/cgroup/a/cpu.max", text);
    CHECK_MESSAGE(root.processors() == 0, text);
  }
  for (const char* text : {"", "max", "nan", "-1", "words"}) {
    root.write("/sys/fs/cgroup/a/memory.max", text);
    CHECK_MESSAGE(root.memory_left() == UINT64_MAX, text);
  }
}

TEST_CASE("host share: a process that has read a large file still has the memory of its pages") {
  Root root;
  root.groups("0::/pod\n");
  root.mounts(kV2);
  const auto in_pod = [&](const char* file, const std::string& text) {
    root.write(std::string("/sys/fs/cgroup/pod/") + file, text);
  };
  const std::string half = std::to_string(480 * kMiB);
  in_pod("memory.max", std::to_string(1000 * kMiB) + "\n");
  in_pod("memory.current", std::to_string(1000 * kMiB) + "\n");
  in_pod("memory.stat", "anon " + std::to_string(40 * kMiB) + "\n");
  CHECK(root.memory_left() == 0);
  in_pod("memory.stat",
         "active_file " + half + "\ninactive_file " + half + "\n");  // read twice: half is active
  CHECK(root.memory_left() == 960 * kMiB);
  in_pod("memory.current", std::to_string(900 * kMiB) + "\n");  // the two files are not read at one time
  CHECK(root.memory_left() == 1000 * kMiB);
}

TEST_CASE("host share: each question opens its own files only") {
  Root root;
  root.groups("3:cpu,cpuacct:/a\n4:memory:/a\n0::/a\n");
  root.mounts(std::string(kV2) +
              "32 31 0:29 / /v1/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
              "33 31 0:30 / /v1/memory ro - cgroup cgroup rw,memory\n");
  root.write("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  root.write("/sys/fs/cgroup/a/memory.max", "5000\n");
  root.write("/sys/fs/cgroup/a/memory.current", "1000\n");
  root.write("/sys/fs/cgroup/a/memory.stat", "inactive_file 0\n");
  root.write("/v1/cpu/a/cpu.cfs_quota_us", "300000\n");
  root.write("/v1/cpu/a/cpu.cfs_period_us", "100000\n");
  root.write("/v1/memory/a/memory.limit_in_bytes", "6000\n");
  root.write("/v1/memory/a/memory.usage_in_bytes", "3000\n");
  root.write("/v1/memory/a/memory.stat", "total_inactive_file 0\n");
  const std::vector<std::string> folders = {"/sys/fs/cgroup/a", "/v1/cpu/a", "/v1/memory/a"};
  using Names = std::set<std::string>;
  const Names of_cpu = {"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"};
  CHECK(root.opened_in(folders, [&] { CHECK(root.processors() == 2); }) == of_cpu);
  const Names of_memory = {"memory.max", "memory.current", "memory.limit_in_bytes", "memory.stat",
                           "memory.usage_in_bytes"};
  CHECK(root.opened_in(folders, [&] { CHECK(root.memory_left() == 3000); }) == of_memory);
  root.write("/sys/fs/cgroup/a/memory.max", "max\n");
  const Names without_limit = {"memory.max"};
  CHECK(root.opened_in({"/sys/fs/cgroup/a"}, [&] { CHECK(root.memory_left() == 3000); }) == without_limit);
}

namespace {

/// Numbers as in the French locale of glibc, whose separator libstdc++ narrows to a blank.
struct Thousands : std::numpunct<char> {
  char do_thousands_sep() const override { return ' '; }
  char do_decimal_point() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
};

/// The global locale of a host that groups thousands.
class GroupedLocale {
 public:
  GroupedLocale() : before_(std::locale::global(std::locale(std::locale::classic(), new Thousands))) {}
  ~GroupedLocale() { std::locale::global(before_); }
  GroupedLocale(const GroupedLocale&) = delete;
  GroupedLocale& operator=(const GroupedLocale&) = delete;

 private:
  const std::locale before_;
};

}  // namespace

TEST_CASE("host share: the host's locale does not matter") {
  Root root;
  root.groups("3:cpu:/a\n0::/a\n");
  root.mounts(std::string(kV2) + "32 31 0:29 / /v1/cpu ro - cgroup cgroup rw,cpu\n");
  root.write("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  root.write("/sys/fs/cgroup/a/memory.max", std::to_string(1000 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/a/memory.current", std::to_string(700 * kMiB) + "\n");
  root.write("/sys/fs/cgroup/a/memory.stat", "inactive_file " + std::to_string(200 * kMiB) + "\n");
  root.write("/v1/cpu/a/cpu.cfs_quota_us", "1250000\n");
  root.write("/v1/cpu/a/cpu.cfs_period_us", "100000\n");
  const GroupedLocale grouped;
  std::istringstream stream("250000 100000");
  int64_t one = 0;
  REQUIRE(!(stream >> one));  // so a stream does not read cpu.max
  CHECK(root.processors() == 2.5);
  CHECK(root.memory_left() == 500 * kMiB);
  root.write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  CHECK(root.processors() == 12.5);
  CHECK(dpi::usable_processors() >= 1);
  CHECK(dpi::usable_memory() > kMiB);
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
  const std::string& path() const { return path_; }

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

namespace {

constexpr uint64_t kFileBytes = 40 * kMiB;

/// Makes a file and reads it twice, so that its pages count as the caller's and as active.
bool fill_page_cache(const std::string& path) {
  const std::vector<char> block(kMiB, 'x');
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
  bool good = file >= 0;
  for (uint64_t at = 0; good && at < kFileBytes; at += kMiB)
    good = ::pwrite(file, block.data(), kMiB, static_cast<off_t>(at)) == static_cast<ssize_t>(kMiB);
  good = good && ::fsync(file) == 0;
  std::vector<char> read(kMiB);
  for (uint64_t at = 0; good && at < 2 * kFileBytes; at += kMiB)
    good =
        ::pread(file, read.data(), kMiB, static_cast<off_t>(at % kFileBytes)) == static_cast<ssize_t>(kMiB);
  ::close(file);
  return good;
}

uint64_t whole_number_in(const std::string& path) {
  uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

}  // namespace

TEST_CASE("host share: pages of a file that a child in a group has read are free memory") {
  const std::string path =
      fs::temp_directory_path().string() + "/dpi_host_share_file_" + std::to_string(getpid());
  struct statfs system{};
  constexpr long kTmpfs = 0x01021994;  // whose pages are no file's
  const bool on_disk = ::statfs(fs::temp_directory_path().c_str(), &system) == 0 && system.f_type != kTmpfs;
  for (const auto& [parent, limit, use] :
       {std::array<std::string, 3>{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
        std::array<std::string, 3>{"/sys/fs/cgroup", "memory.max", "memory.current"}}) {
    const OwnGroup group(parent, limit, std::to_string(64 * kMiB));
    if (!group.is_made() || !on_disk) {
      MESSAGE(parent << "/" << limit << ": no group can be made here, or no file on a disk");
      continue;
    }
    const std::string used = group.path() + "/" + use;
    CHECK(group.within([&] {
      return fill_page_cache(path) && whole_number_in(used) > kFileBytes && dpi::usable_memory() > 48 * kMiB;
    }));
    fs::remove(path);
  }
}
