// One planted fault per run, with many seeds: `emu_planted <fault>` must fail, by a sanitizer, by an error of
// the emulation or by a wrong result, and `emu_planted none` must not. Which build finds what: README.md.
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "emu/planted.hpp"
#include "kernels/emu/device_emu.hpp"

namespace dpi::test {
namespace {

constexpr int kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr unsigned kSeeds = 20;

// Two streams and some device memory.
struct Rig {
  emu::Stream *first = nullptr, *second = nullptr;
  emu::Event *event = nullptr, *back = nullptr;
  float *a = nullptr, *b = nullptr, *c = nullptr;  // device
  float *in = nullptr, *out = nullptr;             // pinned
  int code = 0;

  Rig() {
    for (emu::Stream** s : {&first, &second}) emu::stream_create(s);
    for (emu::Event** e : {&event, &back}) emu::event_create(false, e);
    for (float** p : {&a, &b, &c}) emu::device_alloc(kBytes, reinterpret_cast<void**>(p));
    for (float** p : {&in, &out}) emu::pinned_alloc(kBytes, reinterpret_cast<void**>(p));
    for (int i = 0; i < kCount; ++i) in[i] = 1;
    for (int i = 0; i < kCount; ++i) out[i] = -1;
  }
  ~Rig() {
    for (emu::Stream* s : {first, second}) emu::stream_destroy(s);
    for (emu::Event* e : {event, back}) emu::event_destroy(e);
    for (float* p : {a, b, c}) emu::device_free(p);
    for (float* p : {in, out}) emu::pinned_free(p);
  }
  Rig(const Rig&) = delete;

  bool sync() {
    for (emu::Stream* s : {first, second}) {
      if (const int failed = emu::stream_sync(s); failed != 0) code = failed;
    }
    if (code != 0) std::printf("code %d: %s\n", code, emu::last_error());
    return code == 0;
  }
  bool all(float want) const {
    for (int i = 0; i < kCount; ++i) {
      if (!(out[i] == want)) return false;
    }
    return true;
  }
};

struct Plan {
  Fault kernel = Fault::kNone;
  bool wait = true;         // of the second stream for the first
  bool sync = true;         // before the host reads
  bool early_host = false;  // the host overwrites the input that is still to be copied
  bool touch = false;       // the host reads device memory
};

// in -> a, rotated -> b | second stream: doubled -> c -> out
bool pipeline(const Plan& p) {
  Rig r;
  r.code |= emu::copy(r.a, r.in, kBytes, r.first);
  r.code |= rotate(r.a, r.b, p.kernel, r.first);
  r.code |= emu::event_record(r.event, r.first);
  if (p.wait) r.code |= emu::event_wait(r.event, r.second);
  r.code |= scale(r.b, r.c, kCount, p.kernel, r.second);
  r.code |= emu::copy(r.out, r.c, kBytes, r.second);
  if (p.early_host) r.in[0] = 3;
  if (p.sync && !r.sync()) return false;
  if (p.touch) r.out[0] = r.c[0];
  const bool right = r.all(2);
  return r.sync() && right;
}

// A kernel alone that faults.
bool alone(const std::function<int(Rig&)>& start) {
  Rig r;
  r.code |= start(r);
  return r.sync();
}

bool counts(Fault fault) {
  Rig r;
  int counter = 0;
  r.code |= count(&counter, fault, r.first);
  return r.sync() && counter == 66;
}

bool marks(Fault fault) {
  Rig r;
  int words[2] = {1, 1};
  r.code |= mark_blocks(words, fault, r.first);
  return r.sync() && words[0] == 1 && words[1] == 1;
}

bool fetches(Fault fault) {
  Rig r;
  alignas(16) float x[256], y[256];
  for (int i = 0; i < 256; ++i) x[i] = static_cast<float>(i + 1);
  r.code |= fetch(x, y, fault, r.first);
  if (!r.sync()) return false;
  for (int i = 0; i < 256; ++i) {
    if (!(y[i] == x[255 - i])) return false;
  }
  return true;
}

// The second stream writes `a` anew while the first may still read it.
bool reuses(bool wait) {
  Rig r;
  r.code |= emu::copy(r.a, r.in, kBytes, r.first);
  r.code |= emu::event_record(r.event, r.first);
  r.code |= emu::event_wait(r.event, r.second);
  r.code |= scale(r.a, r.b, kCount, Fault::kNone, r.first);
  r.code |= emu::event_record(r.back, r.first);
  if (wait) r.code |= emu::event_wait(r.back, r.second);
  r.code |= scale(r.in, r.a, kCount, Fault::kNone, r.second);
  r.code |= emu::copy(r.out, r.b, kBytes, r.first);
  return r.sync() && r.all(2);
}

// A stream of device 1 scales memory of device 0: in a block, or in a range that device 1 has no access to.
bool foreign(bool in_range) {
  Rig r;
  void* base = nullptr;
  emu::Piece* piece = nullptr;
  r.code |= emu::range_reserve(emu::kPieceBytes, &base) | emu::piece_create(0, emu::kPieceBytes, &piece);
  r.code |= emu::piece_map(base, emu::kPieceBytes, piece) | emu::piece_release(piece);
  const int owner[] = {0};
  r.code |= emu::range_access(base, emu::kPieceBytes, owner, 1);
  emu::Stream* other = nullptr;
  r.code |= emu::use(1) | emu::stream_create(&other);
  r.code |= scale(in_range ? static_cast<float*>(base) : r.a, r.out, kCount, Fault::kNone, other);
  r.code |= emu::stream_sync(other) | emu::stream_destroy(other) | emu::use(0);
  return r.sync();
}

// Captured: a -> rotated b | doubled c -> out. The fault: the event is recorded before the kernel it stands
// for.
bool replays(bool edge) {
  Rig r;
  emu::Graph* g = nullptr;
  r.code |= rotate(r.a, r.b, Fault::kNone, r.first);  // a first launch may not be captured; of NaN, as a is
  r.code |= scale(r.b, r.c, kCount, Fault::kNone, r.first);
  r.code |= emu::stream_sync(r.first);
  r.code |= emu::capture_begin(r.first);
  r.code |= emu::copy(r.a, r.in, kBytes, r.first);
  if (!edge) r.code |= emu::event_record(r.event, r.first);
  r.code |= rotate(r.a, r.b, Fault::kNone, r.first);
  if (edge) r.code |= emu::event_record(r.event, r.first);
  r.code |= emu::event_wait(r.event, r.second);
  r.code |= scale(r.b, r.c, kCount, Fault::kNone, r.second);
  r.code |= emu::event_record(r.back, r.second);
  r.code |= emu::event_wait(r.back, r.first);
  r.code |= emu::copy(r.out, r.c, kBytes, r.first);
  r.code |= emu::capture_end(r.first, &g);
  r.code |= emu::graph_launch(g, r.first);
  const bool right = r.sync() && r.all(2);
  emu::graph_free(g);
  return right;
}

using Scenario = std::function<bool()>;

const std::map<std::string, Scenario>& scenarios() {
  const auto kernel = [](Fault fault) { return [=] { return pipeline({.kernel = fault}); }; };
  const auto shuffled = [](Fault fault) {
    return [=] { return alone([=](Rig& r) { return shuffle(r.a, r.b, fault, r.first); }); };
  };
  const auto divided = [](Fault fault) {
    return [=] { return alone([=](Rig& r) { return divergent(r.a, fault, r.first); }); };
  };
  static const std::map<std::string, Scenario> kAll{
      {"none",
       [] {
         return pipeline({}) && counts(Fault::kNone) && marks(Fault::kNone) && fetches(Fault::kNone) &&
                reuses(true) && replays(true);
       }},
      {"shared_overrun", kernel(Fault::kSharedOverrun)},
      {"missing_barrier", kernel(Fault::kMissingBarrier)},
      {"global_overrun", kernel(Fault::kGlobalOverrun)},
      {"missing_event", [] { return pipeline({.wait = false}); }},
      {"missing_sync", [] { return pipeline({.sync = false}); }},
      {"early_host", [] { return pipeline({.early_host = true}); }},
      {"host_touch", [] { return pipeline({.touch = true}); }},
      {"plain_add", [] { return counts(Fault::kPlainAdd); }},
      {"shared_word", [] { return marks(Fault::kSharedWord); }},
      {"short_wait", [] { return fetches(Fault::kShortWait); }},
      {"open_group", [] { return fetches(Fault::kOpenGroup); }},
      {"foreign_memory", [] { return foreign(false); }},
      {"foreign_range", [] { return foreign(true); }},
      {"early_reuse", [] { return reuses(false); }},
      {"missing_edge", [] { return replays(false); }},
      {"exited_lane", shuffled(Fault::kExitedLane)},
      {"foreign_mask", shuffled(Fault::kForeignMask)},
      {"divergent_barrier", divided(Fault::kNone)},
      {"divergent_calls", divided(Fault::kTwoCalls)},
  };
  return kAll;
}

int run(const char* name) {
  const auto found = scenarios().find(name);
  if (found == scenarios().end()) return 2;
  unsigned wrong = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    emu::seed(seed);
    if (!found->second()) ++wrong;
  }
  std::printf("%s: %u of %u seeds wrong\n", name, wrong, kSeeds);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dpi::test

int main(int argc, char** argv) { return dpi::test::run(argc > 1 ? argv[1] : "none"); }
