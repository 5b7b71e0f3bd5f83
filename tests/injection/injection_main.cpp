// Every allocation, read, opened file, thread and device call of the library fails once: the call that needed
// it gives the right status, nothing leaks, the process lives, a model that served goes on, and a second try
// works. Prints the number of injections and how many calls ended with which status.
//
//   injection_test [--device=cpu] [--full] [--act=NAME] [--bundle=PATH] [--most=N]
//
// --full: every single one, on every bundle (the emulated device: every call of it, up to 300 of each other
// kind and act); else a part of them, spread evenly.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/text.hpp"
#include "bundle/signature.hpp"
#include "injection/acts.hpp"
#include "injection/hot_list.hpp"
#include "injection/stage.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAll = INT64_MAX;
/// Of one kind and act: loads and first predicts of each bundle, further acts of one. The emulated device
/// needs ten times as long for a load as the others, and ref has the host code of cpu.
struct Most {
  int64_t main, further;
};
constexpr Most kShort = {4, 20}, kShortRef = {2, 8}, kShortEmulated = {1, 6}, kFullEmulated = {300, 300};

Most most_of(const std::string& device, bool full) {
  const bool emulated = device == "cuda_emu";
  if (full) return emulated ? kFullEmulated : Most{kAll, kAll};
  return emulated ? kShortEmulated : device == "ref" ? kShortRef : kShort;
}

struct Arguments {
  std::string device = "ref";
  bool full = false;
  std::string act, bundle;
  int64_t most = 0;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value = [&](std::string_view key) { return std::string(arg.substr(key.size())); };
    if (arg.starts_with("--device=")) a.device = value("--device=");
    if (arg == "--full") a.full = true;
    if (arg.starts_with("--act=")) a.act = value("--act=");
    if (arg.starts_with("--bundle=")) a.bundle = value("--bundle=");
    if (arg.starts_with("--most=")) a.most = std::stoll(value("--most="));
  }
  return a;
}

std::vector<std::string> bundles() {
  std::vector<std::string> found;
  for (const char* folder : {"/weights/demo", "/tests/e2e/op_bundles"}) {
    for (const auto& entry : fs::directory_iterator(source_dir() + folder)) {
      if (entry.path().extension() == ".h5") found.push_back(entry.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// A signed copy of a bundle, for as long as this lives. Empty paths without libsodium.
struct SignedCopy {
  std::string path, public_key;

  explicit SignedCopy(const std::string& bundle) {
    SigningSeed seed;
    seed.fill(std::byte{7});
    const auto key = signing_key_of(seed);
    if (!key.ok()) return;
    path = (fs::temp_directory_path() / ("dpi_injection_" + std::to_string(::getpid()) + ".h5")).string();
    fs::copy_file(bundle, path, fs::copy_options::overwrite_existing);
    public_key = hex_bytes(key.value().public_key);
    if (!sign_file(path, key.value(), {}, {}).ok()) public_key.clear();
  }
  ~SignedCopy() {
    if (!path.empty()) fs::remove(path);
  }
  SignedCopy(const SignedCopy&) = delete;
  SignedCopy& operator=(const SignedCopy&) = delete;
};

/// On the emulated device: calls of many rows, and in a short run what every bundle computes.
bool too_long(const NamedAct& act, const Cast& cast, const Arguments& a) {
  if (a.device != "cuda_emu") return false;
  if (std::strcmp(act.name, "free after waits") == 0) return true;
  const bool small = cast.bundle.find("/adult_widedeep") != std::string::npos ||
                     cast.bundle.find("/msweb_deepfm") != std::string::npos;
  return !a.full && !small && std::strcmp(act.name, "first predicts") == 0;
}

void play(const NamedAct& act, const Cast& cast, const Arguments& a, int64_t most, Totals* totals) {
  if (!a.act.empty() && a.act != act.name) return;
  if (!a.bundle.empty() && cast.bundle.find(a.bundle) == std::string::npos) return;
  if (std::strcmp(act.name, "load signed") == 0 && cast.public_key.empty()) return;
  if (too_long(act, cast, a)) return;
  const std::string name = std::string(act.name) + ", " + fs::path(cast.bundle).stem().string();
  const bool long_there = std::strcmp(act.name, "endpoint") == 0 || std::strcmp(act.name, "warm-up") == 0;
  const int64_t few = !a.full && a.device == "cuda_emu" && long_there ? 2 : most;
  const int64_t n = a.most != 0 ? a.most : few;
  const Extent extent{n, a.full ? kAll : n};
  static_cast<void>(sweep(name, act.make(cast), extent, totals));
}

/// Injection `one` in a process that has not called the library yet.
void touch(const Cast& cast, const Injection& one, Totals* totals) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(first_touch(cast, one));
  int status = 0;
  waitpid(child, &status, 0);
  ++totals->injections;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (code >= 128) {
    ++totals->by_status[code & 15];
  } else if (code == 1) {
    ++totals->wrong;
  } else {
    ++totals->deaths;
    std::printf("  DEATH, first touch, %s: wait status %d\n", one.text().c_str(), status);
  }
}

/// How many calls the first touch makes: counted by a child, which gives them through a pipe. Of a child that
/// does not come to its end, or finds a fault, there is no number, and it counts as wrong.
std::vector<int64_t> count_first_touch(const Cast& cast, Totals* totals) {
  std::vector<int64_t> calls(kSources);
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int result = first_touch(cast, {});
    for (int s = 0; s < kSources; ++s) calls[static_cast<size_t>(s)] = calls_of(static_cast<Source>(s));
    const bool sent = write(ends[1], calls.data(), sizeof(int64_t) * kSources) > 0;
    _exit(sent ? result : 1);
  }
  close(ends[1]);
  const bool told = read(ends[0], calls.data(), sizeof(int64_t) * kSources) > 0;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 128 + DPI_OK;
  if (told && ended && calls[static_cast<size_t>(Source::kAlloc)] > 0) return calls;
  ++totals->wrong;
  std::printf("  WRONG first touch without a fault: wait status %d, %lld allocations\n", status,
              static_cast<long long>(calls[static_cast<size_t>(Source::kAlloc)]));
  calls.assign(kSources, 0);
  return calls;
}

void play_first_touch(const Cast& cast, const Arguments& a, Totals* totals) {
  if (!a.act.empty() && a.act != "first touch") return;
  const std::vector<int64_t> calls = count_first_touch(cast, totals);
  const int64_t before = totals->injections;
  for (const Source source : {Source::kAlloc, Source::kRead, Source::kOpen}) {
    const int64_t all = calls[static_cast<size_t>(source)];
    const int64_t n = a.full && a.device != "cuda_emu" ? all
                                                       : std::min<int64_t>(all, a.most != 0 ? a.most
                                                                                : a.full    ? 60
                                                                                            : 20);
    for (const bool all_from : {false, true}) {
      for (int64_t i = 0; i < n; ++i)
        touch(cast, {{source, How::kFail, 1 + i * all / n, all_from}, nullptr}, totals);
    }
  }
  std::printf("  %-60s %6lld injections\n", "first touch",
              static_cast<long long>(totals->injections - before));
}

/// The tier filled by a hot-key list.
void play_load_by_list(Cast cast, const Arguments& a, int64_t most, Totals* totals) {
  const std::string list = fs::temp_directory_path() / ("dpi_injection_" + std::to_string(getpid()));
  list_all_rows(list, cast.bundle);
  cast.extra.emplace_back("store.hot_keys", list);
  play(main_acts().front(), cast, a, most, totals);
  fs::remove(list);
}

void print(const Totals& t) {
  std::printf("%lld injections;", static_cast<long long>(t.injections));
  for (int s = 0; s < 16; ++s) {
    if (t.by_status[s] != 0)
      std::printf(" %s %lld", dpi_status_name(s), static_cast<long long>(t.by_status[s]));
  }
  std::printf("; %lld wrong, %lld deaths\n", static_cast<long long>(t.wrong),
              static_cast<long long>(t.deaths));
}

int run(const Arguments& a) {
  constexpr int kSkipped = 77;
  const Most most = most_of(a.device, a.full);
  if (!can_inject()) {
    std::printf("skipped: malloc belongs to the sanitizer\n");
    return kSkipped;
  }
  const std::vector<std::string> all = bundles();
  const std::string adult = source_dir() + "/weights/demo/adult_widedeep.h5";
  const SignedCopy signed_copy(adult);
  Totals totals;
  play_first_touch({a.device, adult, "", "", {}}, a, &totals);  // before this process calls the library
  fill_closed(source_dir() + "/tests/e2e/op_bundles/row_spaces.h5");
  for (const std::string& bundle : all) {
    const bool demo = bundle.find("/demo/") != std::string::npos;
    const Cast cast{a.device, bundle, signed_copy.path, signed_copy.public_key, {}};
    for (const NamedAct& act : main_acts()) play(act, cast, a, most.main, &totals);
    for (const NamedAct& act : further_acts()) {
      if (bundle == adult || (a.full && demo) || !a.bundle.empty()) play(act, cast, a, most.further, &totals);
    }
  }
  const Cast in_tier{a.device, adult, "", "", {{"store.host_bytes", "30000"}, {"store.resident_bytes", "0"}}};
  for (const NamedAct& act : main_acts()) play(act, in_tier, a, most.further, &totals);
  play_load_by_list(in_tier, a, most.further, &totals);
  print(totals);
  return totals.wrong == 0 && totals.deaths == 0 && totals.injections > 0 ? 0 : 1;
}

}  // namespace
}  // namespace dpi::test

int main(int argc, char** argv) { return dpi::test::run(dpi::test::parse(argc, argv)); }
