// The queue of tasks. A task waits for others and for nothing else; whoever synchronises runs ready tasks,
// picked at random, until the one it wants is done. Compile as fiber.cpp.
#include "kernels/emu/schedule.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/emu/memory.hpp"

namespace dpi::emu {

namespace {

// The emulated clock, in nanoseconds.
constexpr uint64_t kIssueTime = 1000;   // what starting something costs the host
constexpr uint64_t kKernelTime = 4000;  // and 1 per thread
constexpr uint64_t kCopyTime = 2000;    // and 1 per kBytesPerTick bytes
constexpr uint64_t kBytesPerTick = 16;

thread_local uint64_t t_now = 0;

uint64_t g_last_number = 0;

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
  if (t->job.work == Work::kKernel) run_kernel_task(t);
  if (t->job.work == Work::kCopy) {  // memcpy is intercepted: a real access
    const Job& j = t->job;
    run_on_clock(t->track->clock, [=] { std::memcpy(j.dst, j.src, j.bytes); });
  }
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
    if (--f->unfinished == 0) ready_tasks().push_back(f);
  }
  t->followers.clear();
}

// Something is ready as long as anything is not done: tasks run to their end under Busy.
void run_one() {
  auto& ready = ready_tasks();
  std::swap(ready[random_below(ready.size())], ready.back());
  const TaskPtr t = ready.back();
  ready.pop_back();
  run(t);
}

// Runs tasks until there is nothing more to wait for.
template <class Finished>
void run_until(Finished finished) {
  for (bool open = false;;) {
    const Busy busy;  // not longer than for one task: other host threads take turns
    if (finished()) {
      if (open) close_memory();
      return;
    }
    if (!open) open_memory();
    open = true;
    run_one();
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
  if (t->unfinished == 0) ready_tasks().push_back(t);
  if (!issue_order()) return;
  open_memory();
  while (!ready_tasks().empty()) run_one();
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
