// Streams and events of the emulated device: what the host calls. Compile as fiber.cpp.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/emu/memory.hpp"
#include "kernels/emu/schedule.hpp"

namespace dpi::emu {

namespace {

constexpr int kDefaultDevices = 4;

thread_local char t_error[600] = "";
thread_local int t_code = 0;
thread_local int t_device = 0;
uint64_t g_streams = 0;

// Never freed: leak checks at the end of a process must still reach them.
std::vector<Stream*>& idle_streams() {
  static auto* const kIdle = new std::vector<Stream*>;
  return *kIdle;
}

}  // namespace

int failed(int code, const std::string& text) {
  std::snprintf(t_error, sizeof(t_error), "%s", text.c_str());
  t_code = code;
  return code;
}

int refuse_other_device(int device, const char* what) {
  if (device == current_device()) return 0;
  return failed(kInvalidHandle, std::string(what) + " of device " + std::to_string(device) +
                                    " while device " + std::to_string(current_device()) + " is in use");
}

const char* last_error() { return t_error; }
int take_last_code() { return std::exchange(t_code, 0); }
int peek_last_code() { return t_code; }

int device_count() {
  const char* const text = std::getenv("DPI_EMU_DEVICES");
  const int n = text != nullptr ? std::atoi(text) : kDefaultDevices;
  return std::clamp(n, 1, kMostDevices);
}

int use(int device) {
  if (device < 0 || device >= device_count())
    return failed(kInvalidDevice, "there is no device " + std::to_string(device));
  t_device = device;
  return 0;
}

int current_device() { return t_device; }

void seed(unsigned value) {
  const Busy busy;
  seed_random(value);
}

Handles& live_handles() {
  static Handles handles;
  return handles;
}

// ---- what a stream does

namespace {

int start(Stream* s, const Job& job, std::unique_ptr<const Body> owned) {
  if (s->capture != nullptr) return capture_job(s, job, std::move(owned));
  if (job.work == Work::kKernel) load_kernel(s->device, job.kernel);
  if (!prepare_track(track_of(s, 0), block_of(job))) return failed(kOutOfMemory, "no memory for fibres");
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
  if (const int code = refuse_other_device(s->device, "a kernel was started on a stream"); code != 0)
    return code;
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
  if (const int code = refuse_other_device(s->device, "a copy was started on a stream"); code != 0)
    return code;
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
  (*out)->device = current_device();
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
  seen_by_host(*s->last);
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
  (*out)->device = current_device();
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
  if (e == nullptr || s == nullptr) return failed(kInvalidValue, "an event or a stream that is none");
  if (e->device != s->device)
    return failed(kInvalidHandle, "an event of device " + std::to_string(e->device) +
                                      " was recorded on a stream of device " + std::to_string(s->device));
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
