// Captured graphs: what is started on a captured stream becomes a node that waits for what the stream held;
// streams join a capture by waiting for its events. Compile as fiber.cpp.
#include <pthread.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kernels/emu/memory.hpp"
#include "kernels/emu/schedule.hpp"

namespace dpi::emu {

namespace {

struct Node {
  Job job;
  std::unique_ptr<const Body> owned;
  size_t track = 0;
  std::vector<int> waits;
};

}  // namespace

struct Capture {
  std::vector<Node> nodes;
  std::vector<Stream*> members;  // [0] = where it began
  pthread_t thread{};
  bool over = false;
  std::string spoiled;  // why, empty = it is not
};

struct Graph {
  std::vector<Node> nodes;
  size_t tracks = 0;
  int device = 0;
  TaskPtr last;  // end of the last launch
};

namespace {

std::vector<std::shared_ptr<Capture>>& open_captures() {
  static auto* const kOpen = new std::vector<std::shared_ptr<Capture>>;
  return *kOpen;
}

// By device. Like the plan of open captures above these are the emulation's own and live as long as it.
std::set<std::pair<int, const void*>>& loaded_kernels() {
  static auto* const kLoaded = new std::set<std::pair<int, const void*>>;
  return *kLoaded;
}

std::string stream_text(const Stream* s) { return "stream " + std::to_string(s->number); }

void add_heads(Stream* s, const std::vector<int>& more) {
  s->heads.insert(s->heads.end(), more.begin(), more.end());
  std::sort(s->heads.begin(), s->heads.end());
  s->heads.erase(std::unique(s->heads.begin(), s->heads.end()), s->heads.end());
}

// Which nodes the origin's end waits for, directly or not.
std::vector<bool> reached(const Capture& c) {
  std::vector<bool> in(c.nodes.size(), false);
  for (const int n : c.members[0]->heads) in[static_cast<size_t>(n)] = true;
  for (size_t n = c.nodes.size(); n-- > 0;) {  // a node waits for earlier ones only
    if (!in[n]) continue;
    for (const int w : c.nodes[n].waits) in[static_cast<size_t>(w)] = true;
  }
  return in;
}

int check_joined(const Capture& c) {
  const std::vector<bool> in = reached(c);
  for (const Stream* m : c.members) {
    for (const int n : m->heads) {
      if (in[static_cast<size_t>(n)]) continue;
      return failed(kCaptureUnjoined, stream_text(m) + " was not joined back to the captured " +
                                          stream_text(c.members[0]) + ": nothing waits for its node " +
                                          std::to_string(n) + " (" +
                                          name_of(c.nodes[static_cast<size_t>(n)].job) + ")");
    }
  }
  return 0;
}

void dissolve(const std::shared_ptr<Capture>& c) {
  c->over = true;
  auto& open = open_captures();
  open.erase(std::remove(open.begin(), open.end(), c), open.end());
}

void leave(const Capture& c) {
  for (Stream* m : c.members) {
    if (m->capture.get() != &c) continue;
    m->heads.clear();
    m->capture.reset();
  }
}

}  // namespace

void load_kernel(int device, const void* kernel) { loaded_kernels().insert({device, kernel}); }

int capture_job(Stream* s, const Job& job, std::unique_ptr<const Body> owned) {
  Capture& c = *s->capture;
  if (job.work == Work::kKernel && !loaded_kernels().contains({s->device, job.kernel})) {
    c.spoiled = "the first launch of kernel " + name_of(job) + ", whose code is not loaded yet";
    return failed(kCaptureUnsupported, c.spoiled);
  }
  const auto me = std::find(c.members.begin(), c.members.end(), s);
  c.nodes.push_back({job, std::move(owned), static_cast<size_t>(me - c.members.begin()), s->heads});
  s->heads = {static_cast<int>(c.nodes.size()) - 1};
  return 0;
}

int capture_record(Event* e, Stream* s) {
  e->capture = s->capture;
  e->heads = s->heads;
  e->task.reset();
  return 0;
}

int capture_wait(Event* e, Stream* s) {
  const std::shared_ptr<Capture> c = e->capture;
  if (c == nullptr) {
    if (e->task == nullptr) return 0;
    s->capture->spoiled = "event_wait for an event of outside";
    return failed(kCaptureIsolation,
                  "the captured " + stream_text(s) + " waits for an event that was recorded outside");
  }
  if (c->over) {
    if (s->capture != nullptr) s->capture->spoiled = "event_wait for an event of another capture";
    return failed(kCapturedEvent,
                  stream_text(s) + " waits for an event that was last recorded in an earlier capture");
  }
  if (s->capture != nullptr && s->capture != c) {
    s->capture->spoiled = c->spoiled = "event_wait for an event of another capture";
    return failed(kCaptureIsolation, stream_text(s) + " waits for an event of another capture");
  }
  if (s->capture == nullptr) {
    s->capture = c;
    s->heads.clear();
    if (std::find(c->members.begin(), c->members.end(), s) == c->members.end()) c->members.push_back(s);
  }
  add_heads(s, e->heads);
  return 0;
}

int spoil_capture(Stream* s, const char* call) {
  s->capture->spoiled = std::string(call) + " on " + stream_text(s);
  return failed(kCaptureUnsupported, std::string(call) + " on the captured " + stream_text(s));
}

int refuse_in_capture(const char* call) {
  const Busy busy;
  int code = 0;
  for (const auto& c : open_captures()) {
    if (pthread_equal(c->thread, pthread_self()) == 0) continue;
    c->spoiled = std::string(call) + " by the capturing thread";
    code = failed(kCaptureUnsupported,
                  std::string(call) + " while this thread captures " + stream_text(c->members[0]));
  }
  return code;
}

int capture_begin(Stream* s) {
  const Busy busy;
  if (const int code = injected(Kind::kCapture); code != 0) return code;
  if (s->capture != nullptr) return spoil_capture(s, "capture_begin");
  s->capture = std::make_shared<Capture>();
  s->capture->members = {s};
  s->capture->thread = pthread_self();
  s->heads.clear();
  open_captures().push_back(s->capture);
  return 0;
}

int capture_end(Stream* s, Graph** out) {
  const Busy busy;
  *out = nullptr;
  const std::shared_ptr<Capture> c = s->capture;
  if (c == nullptr || c->members[0] != s)
    return failed(kCaptureUnmatched, "no capture began on " + stream_text(s));
  if (pthread_equal(c->thread, pthread_self()) == 0)
    return failed(kCaptureWrongThread, "the capture of " + stream_text(s) + " began on another thread");
  dissolve(c);
  const int told = injected(Kind::kCapture);
  if (told != 0) c->spoiled = last_error();
  const int code =
      c->spoiled.empty()
          ? check_joined(*c)
          : failed(kCaptureInvalidated, "the capture of " + stream_text(s) + " was spoiled by " + c->spoiled);
  leave(*c);
  if (code != 0) return told != 0 ? told : code;
  ++live_handles().graphs;
  *out = new Graph;
  (*out)->nodes = std::move(c->nodes);
  (*out)->tracks = c->members.size();
  (*out)->device = s->device;
  c->nodes.clear();
  return 0;
}

int graph_launch(Graph* g, Stream* s) {
  const Busy busy;
  if (const int code = injected(Kind::kGraph); code != 0) return code;
  if (s->capture != nullptr) return spoil_capture(s, "graph_launch");
  if (g->device != s->device)
    return failed(kInvalidHandle, "a graph of device " + std::to_string(g->device) + " was launched on " +
                                      stream_text(s) + " of device " + std::to_string(s->device));
  if (in_flight(g->last) && g->last->stream != s)
    return failed(kInvalidValue, "a graph was launched on " + stream_text(s) + " while it runs on " +
                                     stream_text(g->last->stream));
  for (const Node& n : g->nodes) {
    if (!prepare_track(track_of(s, n.track), block_of(n.job)))
      return failed(kOutOfMemory, "no memory for fibres");
  }
  const TaskPtr begin = new_task(s);
  submit(begin);
  std::vector<TaskPtr> tasks;
  for (const Node& n : g->nodes) {
    auto t = std::make_shared<Task>();
    t->job = n.job;
    t->stream = s;
    t->track = track_of(s, n.track);
    t->number = begin->number;
    t->from_host = false;
    if (n.waits.empty()) wait_for(t, begin);
    for (const int w : n.waits) wait_for(t, tasks[static_cast<size_t>(w)]);
    tasks.push_back(std::move(t));
  }
  g->last = new_task(s);
  for (const TaskPtr& t : tasks) wait_for(g->last, t);
  for (const TaskPtr& t : tasks) submit(t);
  submit(g->last);
  return 0;
}

int graph_free(Graph* g) {
  const Busy busy;
  if (in_flight(g->last))
    return failed(kInvalidValue, "a graph was freed while it runs on " + stream_text(g->last->stream));
  --live_handles().graphs;
  delete g;
  return 0;
}

std::string graph_text(const Graph* g) {
  const Busy busy;
  std::string text;
  for (size_t i = 0; i < g->nodes.size(); ++i) {
    const Node& n = g->nodes[i];
    text += std::to_string(i) + (n.job.work == Work::kCopy ? " copy " : " kernel ") + name_of(n.job) + " <-";
    for (const int w : n.waits) text += ' ' + std::to_string(w);
    text += '\n';
  }
  return text;
}

}  // namespace dpi::emu
