// The queue of tasks. A task waits for others and for nothing else; whoever synchronises runs ready tasks,
// picked at random, until the one it wants is done. Compile as fiber.cpp.
#include "kernels/emu/schedule.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "kernels/emu/memory.hpp"

namespace dpi::emu {

namespace {

// The emulated clock, in nanoseconds.
constexpr uint64_t kIssueTime = 1000;   // what starting something costs the host
constexpr uint64_t kKernelTime = 4000;  // and 1 per thread
constexpr uint64_t kCopyTime = 2000;    // and 1 per kBytesPerTick bytes
constexpr uint64_t kBytesPerTick = 16;

constexpr std::chrono::microseconds kNap{50};

thread_local uint64_t t_now = 0;

uint64_t g_last_number = 0;

struct Device {
  int64_t late_us = 0;  // as dpi_emu_delay says
  int64_t kernels = 0;
};
std::array<Device, kMostDevices> g_devices;
bool g_paced = false;  // some device has a delay

uint64_t host_now() {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Never freed: leak checks at the end of a process must still reach them.
std::vector<TaskPtr>& ready_tasks() {
  static auto* const kReady = new std::vector<TaskPtr>;
  return *kReady;
}

uint64_t duration(const Job& job) {
  const uint64_t blocks = uint64_t{job.grid.x} * job.grid.y * job.grid.z;
  switch (job.work) {
    case Work::kKernel:
      return kKernelTime + blocks * job.block.x * job.block.y * job.block.z;
    case Work::kCopy:
      return kCopyTime + job.bytes / kBytesPerTick;
    default:
      return 0;
  }
}

void run_kernel_task(Task* t) {
  on_clock(t->track->clock, [=] { release(&t->started); });
  const char* fault = run_kernel(t->track, {t->job.grid, t->job.block, t->job.body, &t->started, &t->ended});
  on_clock(t->track->clock, [=] { acquire(&t->ended); });
  if (fault == nullptr) return;
  t->fault = std::make_shared<FaultReport>();
  t->fault->code = kFault;
  t->fault->text = "kernel " + name_of(t->job) + ": " + fault;
}

void run_job(Task* t) {
  if (t->job.work != Work::kMark) show_memory(t->stream->device);
  if (t->job.work == Work::kKernel) ++g_devices[static_cast<size_t>(t->stream->device)].kernels;
  if (t->job.work == Work::kKernel) run_kernel_task(t);
  if (t->job.work == Work::kCopy) {  // memcpy is intercepted: a real access
    const Job& j = t->job;
    run_on_clock(t->track->clock, [=] { std::memcpy(j.dst, j.src, j.bytes); });
  }
}

void make_ready(const TaskPtr& t) {
  const int64_t late =
      t->job.work == Work::kMark || !g_paced ? 0 : g_devices[static_cast<size_t>(t->stream->device)].late_us;
  if (late > 0) t->not_before = host_now() + random_below(static_cast<size_t>(late) * 1000);
  ready_tasks().push_back(t);
}

void run(const TaskPtr& t) {
  uint64_t start = t->earliest;
  for (const TaskPtr& w : t->waits) {
    start = std::max(start, w->end);
    if (w->fault != nullptr && !w->fault->reported) t->fault = w->fault;
  }
  on_clock(t->track->clock, [&] {
    if (t->from_host) acquire(&t->issued);
    for (const TaskPtr& w : t->waits) acquire(&w->finished);
  });
  if (t->fault == nullptr) run_job(t.get());
  on_clock(t->track->clock, [&] { release(&t->finished); });
  t->end = start + duration(t->job);
  t->done = true;
  t->owned.reset();
  t->waits.clear();
  for (const TaskPtr& f : t->followers) {
    if (--f->unfinished == 0 && f->submitted) make_ready(f);
  }
  t->followers.clear();
}

bool may_begin(const Task& t, uint64_t now) {
  if (t.job.work == Work::kMark) return true;
  return g_devices[static_cast<size_t>(t.stream->device)].late_us >= 0 && t.not_before <= now;
}

// Something is ready as long as anything is not done: tasks run to their end under Busy. False: what is ready
// is on devices that are late.
bool run_one() {
  auto& ready = ready_tasks();
  size_t n = ready.size();
  if (g_paced) {
    const uint64_t now = host_now();
    n = static_cast<size_t>(
        std::partition(ready.begin(), ready.end(), [now](const TaskPtr& t) { return may_begin(*t, now); }) -
        ready.begin());
    if (n == 0) return false;
  }
  std::swap(ready[random_below(n)], ready.back());
  const TaskPtr t = ready.back();
  ready.pop_back();
  run(t);
  return true;
}

// Runs tasks until there is nothing more to wait for.
template <class Finished>
void run_until(Finished finished) {
  for (bool open = false, ran = true;;) {
    if (!ran) std::this_thread::sleep_for(kNap);
    const Busy busy;  // not longer than for one task: other host threads take turns
    if (finished()) {
      if (open) close_memory();
      return;
    }
    if (!open) open_memory();
    open = true;
    ran = run_one();
  }
}

bool issue_order() {
  static const char* const kOrder = std::getenv("DPI_EMU_ORDER");
  return kOrder != nullptr && std::strcmp(kOrder, "issue") == 0;
}

}  // namespace

dim3 block_of(const Job& job) { return job.work == Work::kKernel ? job.block : dim3(0, 0, 0); }

Track* track_of(Stream* s, size_t index) {
  while (s->tracks.size() <= index) s->tracks.push_back(std::make_unique<Track>());
  return s->tracks[index].get();
}

TaskPtr new_task(Stream* s) {
  auto t = std::make_shared<Task>();
  t->stream = s;
  t->track = track_of(s, 0);
  static_cast<void>(prepare_track(t->track, block_of(t->job)));  // its clock
  t->number = ++g_last_number;
  if (s->last != nullptr) wait_for(t, s->last);
  s->last = t;
  return t;
}

void wait_for(const TaskPtr& t, const TaskPtr& earlier) {
  t->waits.push_back(earlier);
  if (earlier->done) return;
  ++t->unfinished;
  earlier->followers.push_back(t);
}

void submit(const TaskPtr& t) {
  if (t->from_host) {
    if (t->job.work != Work::kMark) t_now += kIssueTime;
    t->earliest = t_now;
    release(&t->issued);
  }
  t->submitted = true;
  if (t->unfinished == 0) make_ready(t);
  if (!issue_order()) return;
  open_memory();
  while (!ready_tasks().empty() && run_one()) {
  }
  close_memory();
}

void drain(const Stream* s) {
  run_until([=] { return s->last == nullptr || s->last->done; });
}

void run_all() {
  run_until([] { return ready_tasks().empty(); });
}

void seen_by_host(const Task& t) { t_now = std::max(t_now, t.end); }

bool in_flight(const TaskPtr& t) { return t != nullptr && t->number > t->stream->synchronized; }

}  // namespace dpi::emu

extern "C" __attribute__((visibility("default"))) int64_t dpi_emu_kernels(int device) {
  const dpi::emu::Busy busy;
  if (device < 0 || device >= dpi::emu::kMostDevices) return -1;
  return dpi::emu::g_devices[static_cast<size_t>(device)].kernels;
}

extern "C" __attribute__((visibility("default"))) void dpi_emu_delay(int device, int64_t most_us) {
  const dpi::emu::Busy busy;
  if (device < 0 || device >= dpi::emu::kMostDevices) return;
  auto& devices = dpi::emu::g_devices;
  devices[static_cast<size_t>(device)].late_us = most_us;
  dpi::emu::g_paced =
      std::any_of(devices.begin(), devices.end(), [](const auto& d) { return d.late_us != 0; });
}
