// Inside the emulation: tasks and what orders them. Used by schedule.cpp (tasks), streams.cpp and capture.cpp
// (graphs). All of it is touched under Busy only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/emu/track.hpp"

namespace dpi::emu {

struct FaultReport {
  int code = 0;
  std::string text;
  bool reported = false;  // the host has been told; what it starts from then on runs again
};

enum class Work : uint8_t { kMark, kKernel, kCopy };

/// The work of a task or of a graph's node.
struct Job {
  Work work = Work::kMark;
  dim3 grid, block;
  const Body* body = nullptr;
  const void* kernel = nullptr;
  void* dst = nullptr;
  const void* src = nullptr;
  size_t bytes = 0;
};

struct Task;
using TaskPtr = std::shared_ptr<Task>;

struct Task {
  Job job;
  std::unique_ptr<const Body> owned;  // null for the node of a graph
  Stream* stream = nullptr;
  Track* track = nullptr;
  uint64_t number = 0;
  std::vector<TaskPtr> waits;      // finished or not; cleared when done
  std::vector<TaskPtr> followers;  // not finished
  size_t unfinished = 0;           // of `waits`
  bool from_host = true;           // ordered after what the host did before it started the task
  bool submitted = false;          // not before may it run
  bool done = false;
  uint64_t earliest = 0, end = 0;  // emulated nanoseconds
  uint64_t not_before = 0;         // of the host's clock: the device is told to be slow
  std::shared_ptr<FaultReport> fault;
  char issued = 0, started = 0, ended = 0, finished = 0;  // addresses for TSan
};

struct Capture;

struct Stream {
  uint64_t number = 0;  // of stream_create, for texts
  int device = 0;
  std::vector<std::unique_ptr<Track>> tracks;  // [0] = its own, the rest for graphs launched on it
  TaskPtr last;
  uint64_t synchronized = 0;  // tasks up to this number are known to the host to be done
  std::shared_ptr<Capture> capture;
  std::vector<int> heads;  // captured nodes that the next one waits for
};

struct Event {
  bool timed = false;
  int device = 0;
  TaskPtr task;
  std::shared_ptr<Capture> capture;  // of the last record
  std::vector<int> heads;
};

/// Sets last_error() of this thread; gives `code`.
int failed(int code, const std::string& text);
/// 0, or the code of a call that needs the calling thread's device to be `device`.
int refuse_other_device(int device, const char* what);

/// The threads a job needs: of one block, or none.
dim3 block_of(const Job& job);
Track* track_of(Stream* s, size_t index);
/// Everything but `waits` has its default. The task runs after the stream's last one.
TaskPtr new_task(Stream* s);
void wait_for(const TaskPtr& t, const TaskPtr& earlier);
/// To be called once all waits are there.
void submit(const TaskPtr& t);
/// Runs tasks until the stream holds none.
void drain(const Stream* s);
/// The calling thread's emulated time is not before the task's end.
void seen_by_host(const Task& t);
bool in_flight(const TaskPtr& t);
std::string name_of(const Job& job);

// While the stream is captured these take the place of a task. capture.cpp
/// A kernel's first launch on a device loads its code, as CUDA does it, and a capture does not allow that.
void load_kernel(int device, const void* kernel);
int capture_job(Stream* s, const Job& job, std::unique_ptr<const Body> owned);
int capture_record(Event* e, Stream* s);
int capture_wait(Event* e, Stream* s);
int spoil_capture(Stream* s, const char* call);

}  // namespace dpi::emu
