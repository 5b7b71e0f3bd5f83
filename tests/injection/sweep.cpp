#include "injection/sweep.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "support/sanitizer.hpp"

#if DPI_UNDER_ASAN
extern "C" int __lsan_do_recoverable_leak_check();  // its header is not always installed
#endif

namespace dpi::test {

const char* const kDeviceKindNames[kDeviceKinds] = {"alloc",  "pinned",  "copy",  "launch", "event",
                                                    "stream", "capture", "graph", "sync"};

namespace {

constexpr int kOutOfMemory = 2, kLaunchFailure = 719;  // codes of the CUDA runtime
constexpr int kPlaysBefore = 3;

bool is(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

bool is_memory(const char* device_kind) { return is(device_kind, "alloc") || is(device_kind, "pinned"); }

/// What a child has done, where its parent sees it whatever becomes of the child.
struct Progress {
  int64_t next = 0;    // index of the injection that runs
  int64_t all = -1;    // how many there are, once they are counted
  char now[128] = "";  // the injection in words
  Totals totals;
  char wrong[16384] = "";
};

/// How often each kind of call came in an act.
struct Counted {
  int64_t calls[kSources] = {};
  int64_t device[kDeviceKinds] = {};
};

void add_spread(const Injection& of, int64_t calls, int64_t most, std::vector<Injection>* out) {
  const int64_t n = std::min(calls, most);
  for (int64_t i = 0; i < n; ++i) {
    Injection one = of;
    one.fault.at = n == calls ? 1 + i : 1 + (2 * i + 1) * calls / (2 * n);
    out->push_back(one);
  }
}

std::vector<Injection> plan_of(const Counted& counted, const Extent& extent) {
  std::vector<Injection> out;
  const auto add = [&](Source source, How how, bool all_from) {
    add_spread({{source, how, 0, all_from}, nullptr}, counted.calls[static_cast<int>(source)], extent.most,
               &out);
  };
  for (const bool all_from : {false, true}) {
    for (const Source source : {Source::kAlloc, Source::kRead, Source::kOpen, Source::kThread, Source::kHook})
      add(source, How::kFail, all_from);
  }
  for (const How how : {How::kShort, How::kEnd, How::kInterrupted}) add(Source::kRead, how, false);
  for (int kind = 0; kind < kDeviceKinds; ++kind) {
    Injection one;
    one.device_kind = kDeviceKindNames[kind];
    add_spread(one, counted.device[kind], extent.most_device, &out);
  }
  return out;
}

/// One run; what was wrong with it.
std::string play(const Stage& stage, const Injection& injection, dpi_status* status, Counted* counted) {
  Run run(injection, stage.device);
  arm(injection.device_kind == nullptr ? injection.fault : Fault{});
  stage.act(run);
  disarm();
  *status = run.status();
  for (int s = 0; s < kSources; ++s) counted->calls[s] = calls_of(static_cast<Source>(s));
  for (int k = 0; k < kDeviceKinds; ++k) counted->device[k] = run.device_calls(k);
  return run.faults();
}

std::vector<std::string> values_of(const std::vector<Invariant>& invariants) {
  std::vector<std::string> out;
  for (const Invariant& i : invariants) out.push_back(i.value());
  return out;
}

std::string compare(const std::vector<Invariant>& invariants, std::vector<std::string>* before) {
  std::string wrong;
  for (size_t i = 0; i < invariants.size(); ++i) {
    std::string now = invariants[i].value();
    if (now == (*before)[i]) continue;
    wrong += std::string("\n    ") + invariants[i].what + ": " + (*before)[i] + " -> " + now;
    (*before)[i] = std::move(now);
  }
  return wrong;
}

void note_wrong(const Injection& injection, const std::string& text, Progress* p) {
  ++p->totals.wrong;
  const size_t used = std::strlen(p->wrong);
  std::snprintf(p->wrong + used, sizeof(p->wrong) - used, "  WRONG %s:%s\n", injection.text().c_str(),
                text.c_str());
}

/// From the injection `p->next` on, until all are done.
void inject_all(const Stage& stage, const std::vector<Injection>& plan, Progress* p) {
  std::vector<std::string> before = values_of(stage.invariants);
  std::string wrong;
  for (; p->next < p->all; ++p->next) {
    const Injection& injection = plan[static_cast<size_t>(p->next)];
    std::snprintf(p->now, sizeof(p->now), "%s", injection.text().c_str());
    dpi_status status = DPI_OK;
    Counted counted;
    wrong.clear();
    wrong.shrink_to_fit();
    const Alive was = alive();
    wrong = play(stage, injection, &status, &counted);
    const Alive is_now = alive();
    if (wrong.empty() && is_now.blocks != was.blocks)
      wrong = "\n    " + std::to_string(is_now.blocks - was.blocks) + " blocks of " +
              std::to_string(is_now.bytes - was.bytes) + " bytes stay";
    ++p->totals.injections;
    ++p->totals.by_status[status & 15];
    wrong += compare(stage.invariants, &before);
    if (!wrong.empty()) note_wrong(injection, wrong, p);
  }
}

/// All that a child does. The first plays bring along what is there once per process.
void child(const MakeStage& make, const Extent& extent, Progress* p) {
  {
    const std::unique_ptr<Stage> stage = make();
    dpi_status status = DPI_OK;
    Counted counted;
    std::string wrong;
    for (int i = 0; i < kPlaysBefore && wrong.empty(); ++i) wrong = play(*stage, {}, &status, &counted);
    const std::vector<Injection> plan = plan_of(counted, extent);
    if (!plan.empty()) {  // the first exception of a process, too, brings something along
      Counted again;
      static_cast<void>(play(*stage, plan.front(), &status, &again));
    }
    p->all = wrong.empty() ? static_cast<int64_t>(plan.size()) : 0;
    if (!wrong.empty()) note_wrong({}, wrong, p);
    inject_all(*stage, plan, p);
  }
#if DPI_UNDER_ASAN
  if (__lsan_do_recoverable_leak_check() != 0) note_wrong({}, " leaks, see above", p);
#endif
}

std::string death_of(int status) {
  if (WIFSIGNALED(status)) return std::string("signal ") + strsignal(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

/// Runs children until one comes to the end; a death is told.
void run_children(const MakeStage& make, const Extent& extent, Progress* p) {
  while (p->all < 0 || p->next < p->all) {
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      child(make, extent, p);
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) std::abort();
    if (status == 0) continue;
    ++p->totals.deaths;
    std::printf("  DEATH, %s (%lld of %lld): %s\n", p->now, static_cast<long long>(p->next),
                static_cast<long long>(p->all), death_of(status).c_str());
    if (p->all < 0) return;  // before any injection
    ++p->next;
  }
}

void add(const Totals& more, Totals* to) {
  to->injections += more.injections;
  for (size_t i = 0; i < std::size(more.by_status); ++i) to->by_status[i] += more.by_status[i];
  to->wrong += more.wrong;
  to->deaths += more.deaths;
}

}  // namespace

std::string Injection::text() const {
  static const char* const kSourceNames[] = {"allocation", "read", "open", "thread", "memory hook"};
  static const char* const kHowNames[] = {"", " (short)", " (end of file)", " (interrupted)"};
  if (device_kind != nullptr) return std::string("device ") + device_kind + " " + std::to_string(fault.at);
  return std::string(kSourceNames[static_cast<int>(fault.source)]) + " " + std::to_string(fault.at) +
         (fault.all_from ? " and all after it" : "") + kHowNames[static_cast<int>(fault.how)];
}

/// Device calls count and fail inside calls of the act only, as those of the C library do.
void Run::begin() {
  if (device_.fail == nullptr) return;
  int64_t left = 0;
  for (int k = 0; k < kDeviceKinds && injection_.device_kind != nullptr; ++k) {
    if (is(injection_.device_kind, kDeviceKindNames[k])) left = injection_.fault.at - device_calls_[k];
  }
  std::string spec;
  if (left > 0)
    spec = std::string(injection_.device_kind) + ':' + std::to_string(left) + ':' +
           std::to_string(is_memory(injection_.device_kind) ? kOutOfMemory : kLaunchFailure);
  device_.fail(spec.c_str());
}

void Run::end() {
  if (device_.fail == nullptr) return;
  for (int k = 0; k < kDeviceKinds; ++k) device_calls_[k] += device_.calls(kDeviceKindNames[k]);
  device_.fail(nullptr);
}

bool Run::is_right_failure(dpi_status s) const {
  if (injection_.device_kind != nullptr)
    return s == (is_memory(injection_.device_kind) ? DPI_E_OUT_OF_MEMORY : DPI_E_DEVICE);
  switch (injection_.fault.source) {
    case Source::kAlloc:
    case Source::kThread:
    case Source::kHook:
      return s == DPI_E_OUT_OF_MEMORY;
    case Source::kRead:
    case Source::kOpen:
      return s == DPI_E_IO;
  }
  return false;
}

bool Run::first_try(const char* what, dpi_status s, dpi_status right, const dpi_error& e, const char* path) {
  const std::string where = std::string(what) + ": ";
  const std::string told = std::string(dpi_status_name(s)) + " '" + e.message + "'";
  if (s == right) {
    if (e.code != s && e.code != DPI_OK) wrong(where + told + " with another code in dpi_error");
    return true;
  }
  if (status_ == DPI_OK) status_ = s;
  if (injection_.fault.at == 0 || !is_right_failure(s)) wrong(where + told);
  if (e.code != s || e.message[0] == '\0') wrong(where + "no text, or another code: " + told);
  const bool names = path == nullptr || std::strstr(e.message, path) != nullptr;
  if (s == DPI_E_IO && !names) wrong(where + "does not name its file: " + told);
  return false;
}

void Run::second_try(const char* what, dpi_status s, dpi_status right, const dpi_error& e) {
  if (s == right) return;
  wrong(std::string(what) + ": the second try gives " + dpi_status_name(s) + " '" + e.message + "'");
}

bool sweep(const std::string& name, const MakeStage& make, const Extent& extent, Totals* totals) {
  void* const shared =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return false;
  auto* const p = new (shared) Progress;
  run_children(make, extent, p);
  const bool good = p->totals.wrong == 0 && p->totals.deaths == 0;
  std::fputs(p->wrong, stdout);
  std::printf("  %-60s %6lld injections%s\n", name.c_str(), static_cast<long long>(p->totals.injections),
              good ? "" : "   <--- wrong");
  add(p->totals, totals);
  munmap(shared, sizeof(Progress));
  return good;
}

}  // namespace dpi::test
