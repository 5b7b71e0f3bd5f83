// Streams, events and the queue of tasks behind them. A task waits for others and for nothing else; whoever
// synchronises runs ready tasks, picked at random, until the one it wants is done. Compile as simt_emu.cpp.
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
thread_local char t_error[600] = "";

uint64_t g_last_number = 0;
uint64_t g_streams = 0;

// Never freed: leak checks at the end of a process must still reach them.
std::vector<Stream*>& idle_streams() {
  static auto* const kIdle = new std::vector<Stream*>;
  return *kIdle;
}

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
  on_clock(t->lane->clock, [=] { release(&t->started); });
  const char* fault = run_kernel(t->lane, {t->job.grid, t->job.block, t->job.body, &t->started, &t->ended});
  on_clock(t->lane->clock, [=] { acquire(&t->ended); });
  if (fault == nullptr) return;
  t->fault = std::make_shared<FaultReport>();
  t->fault->code = kFault;
  t->fault->text = "kernel " + name_of(t->job) + ": " + fault;
}

void run_job(Task* t) {
  if (t->job.work == Work::kKernel) run_kernel_task(t);
  if (t->job.work == Work::kCopy) {  // memcpy is intercepted: a real access
    const Job& j = t->job;
    run_on_clock(t->lane->clock, [=] { std::memcpy(j.dst, j.src, j.bytes); });
  }
}

void run(const TaskPtr& t) {
  uint64_t start = t->earliest;
  for (const TaskPtr& w : t->waits) {
    start = std::max(start, w->end);
    if (w->fault != nullptr && !w->fault->reported) t->fault = w->fault;
  }
  on_clock(t->lane->clock, [&] {
    if (t->from_host) acquire(&t->issued);
    for (const TaskPtr& w : t->waits) acquire(&w->finished);
  });
  if (t->fault == nullptr) run_job(t.get());
  on_clock(t->lane->clock, [&] { release(&t->finished); });
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

void drain(const Stream* s) {
  run_until([=] { return s->last == nullptr || s->last->done; });
}

bool issue_order() {
  static const char* const kOrder = std::getenv("DPI_EMU_ORDER");
  return kOrder != nullptr && std::strcmp(kOrder, "issue") == 0;
}

}  // namespace

int failed(int code, const std::string& text) {
  std::snprintf(t_error, sizeof(t_error), "%s", text.c_str());
  return code;
}

const char* last_error() { return t_error; }

void seed(unsigned value) {
  const Busy busy;
  seed_random(value);
}

// ---- tasks

dim3 block_of(const Job& job) { return job.work == Work::kKernel ? job.block : dim3(0, 0, 0); }

Lane* lane_of(Stream* s, size_t index) {
  while (s->lanes.size() <= index) s->lanes.push_back(std::make_unique<Lane>());
  return s->lanes[index].get();
}

TaskPtr new_task(Stream* s) {
  auto t = std::make_shared<Task>();
  t->stream = s;
  t->lane = lane_of(s, 0);
  static_cast<void>(prepare_lane(t->lane, block_of(t->job)));  // its clock
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

void run_all() {
  run_until([] { return ready_tasks().empty(); });
}

Handles& live_handles() {
  static Handles handles;
  return handles;
}

bool in_flight(const TaskPtr& t) { return t != nullptr && t->number > t->stream->synchronized; }

namespace {

int start(Stream* s, const Job& job, std::unique_ptr<const Body> owned) {
  if (s->capture != nullptr) return capture_job(s, job, std::move(owned));
  if (!prepare_lane(lane_of(s, 0), block_of(job))) return failed(kOutOfMemory, "no memory for fibres");
  const TaskPtr t = new_task(s);
  t->job = job;
  t->owned = std::move(owned);
  submit(t);
  return 0;
}

}  // namespace

int launch_body(const void* kernel, dim3 grid, dim3 block, Stream* s, const Body* body) {
  const Busy busy;
  std::unique_ptr<const Body> owned(body);
  if (s == nullptr) return failed(kInvalidValue, "a kernel was started on no stream");
  Job job;
  job.work = Work::kKernel;
  job.grid = grid;
  job.block = block;
  job.body = body;
  job.kernel = kernel;
  if (const int code = injected(Kind::kLaunch); code != 0) return code;
  if (const char* wrong = wrong_shape(grid, block); wrong != nullptr)
    return failed(kInvalidConfiguration, "kernel " + name_of(job) + ": " + wrong);
  return start(s, job, std::move(owned));
}

int copy(void* dst, const void* src, size_t bytes, Stream* s) {
  const Busy busy;
  if (const int code = injected(Kind::kCopy); code != 0) return code;
  Job job;
  job.work = Work::kCopy;
  job.dst = dst;
  job.src = src;
  job.bytes = bytes;
  return start(s, job, nullptr);
}

// ---- streams

int stream_create(Stream** out) {
  const Busy busy;
  if (const int code = injected(Kind::kStream); code != 0) return code;
  ++live_handles().streams;
  if (idle_streams().empty()) idle_streams().push_back(new Stream);
  *out = idle_streams().back();
  idle_streams().pop_back();
  (*out)->number = ++g_streams;
  return 0;
}

int stream_destroy(Stream* s) {
  drain(s);
  const Busy busy;
  if (s->capture != nullptr) static_cast<void>(spoil_capture(s, "stream_destroy"));
  s->capture.reset();
  s->heads.clear();
  if (s->last != nullptr) s->synchronized = s->last->number;
  idle_streams().push_back(s);
  --live_handles().streams;
  return 0;
}

int stream_sync(Stream* s) {
  {
    const Busy busy;
    if (s->capture != nullptr) return spoil_capture(s, "synchronize");
  }
  if (const int code = refuse_in_capture("synchronize"); code != 0) return code;
  drain(s);
  const Busy busy;
  const int told = injected(Kind::kSync);
  if (s->last == nullptr) return told;
  acquire(&s->last->finished);
  t_now = std::max(t_now, s->last->end);
  s->synchronized = s->last->number;
  const auto fault = s->last->fault;
  if (fault == nullptr || fault->reported) return told;
  fault->reported = true;
  return failed(fault->code, fault->text);
}

// ---- events

int event_create(bool timed, Event** out) {
  const Busy busy;
  if (const int code = injected(Kind::kEvent); code != 0) return code;
  ++live_handles().events;
  *out = new Event;
  (*out)->timed = timed;
  return 0;
}

int event_destroy(Event* e) {
  const Busy busy;
  --live_handles().events;
  delete e;
  return 0;
}

int event_record(Event* e, Stream* s) {
  const Busy busy;
  if (const int code = injected(Kind::kEvent); code != 0) return code;
  if (s->capture != nullptr) return capture_record(e, s);
  const TaskPtr t = new_task(s);
  submit(t);
  e->task = t;
  e->capture.reset();
  return 0;
}

int event_wait(Event* e, Stream* s) {
  const Busy busy;
  if (const int code = injected(Kind::kEvent); code != 0) return code;
  if (s->capture != nullptr || e->capture != nullptr) return capture_wait(e, s);
  if (e->task == nullptr) return 0;
  const TaskPtr t = new_task(s);
  wait_for(t, e->task);
  submit(t);
  return 0;
}

int event_elapsed(Event* from, Event* to, float* ms) {
  const Busy busy;
  if (const int code = injected(Kind::kEvent); code != 0) return code;
  for (const Event* e : {from, to}) {
    if (!e->timed) return failed(kInvalidValue, "an event has no time: it was not created as a timed one");
    if (e->capture != nullptr) return failed(kCapturedEvent, "an event that was captured has no time");
    if (e->task == nullptr) return failed(kInvalidValue, "an event was never recorded");
    if (!e->task->done) return failed(kNotReady, "an event has not passed yet");
  }
  *ms =
      static_cast<float>((static_cast<double>(to->task->end) - static_cast<double>(from->task->end)) * 1e-6);
  return 0;
}

}  // namespace dpi::emu
