// Runs one block at a time, each CUDA thread on a fibre. A step resumes every runnable fibre once, in a fresh
// random order; a fibre runs to its next barrier, warp operation or end. Compile as fiber.cpp.
#include "kernels/emu/simt_emu.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/emu/fiber.hpp"

namespace dpi::emu {

constexpr int kWarp = 32;
constexpr size_t kArenaBytes = size_t{1} << 30;  // address space only, more than one kernel needs
#ifdef DPI_EMU_SANITIZED
constexpr size_t kArenaTouched = size_t{256} << 20;  // of it, before the next kernel begins afresh
#else
constexpr size_t kArenaTouched = size_t{1} << 20;
#endif
#ifdef DPI_EMU_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr size_t kGap = 64;
constexpr int kMaxShared = 32;
constexpr unsigned kMaxThreads = 1024;

namespace {

struct SharedArray {
  const void* key;
  char* p;
};

struct Block {
  dim3 grid, size, index;
  Fiber* threads[kMaxThreads] = {};
  int n = 0;
  SharedArray arrays[kMaxShared] = {};
  int n_arrays = 0;
};

Block g_block;
std::mt19937& random_source() {
  static std::mt19937 random{[] {
    const char* text = std::getenv("DPI_SIMT_SEED");
    return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 1u;
  }()};
  return random;
}

char g_no_sync[1 + kMaxThreads / kWarp];
char* g_sync = g_no_sync;  // addresses of one block: [0] its barrier, [1 + w] warp w
char* g_arena = nullptr;
size_t g_arena_top = 0;
bool g_failed = false;
char g_error[400] = "";

Fiber& thread_of(int i) { return *g_block.threads[i]; }

// ---- faults

int place(char* buf, size_t cap, const Fiber& f) {
  if (f.wait == Wait::kDone) return std::snprintf(buf, cap, "; thread %d has exited", f.linear);
  return std::snprintf(buf, cap, "; thread %d at %s:%d", f.linear, f.at.file != nullptr ? f.at.file : "?",
                       f.at.line);
}

void fail(const char* what, const Fiber* a = nullptr, const Fiber* b = nullptr) {
  if (g_failed) return;
  g_failed = true;
  const dim3 i = g_block.index;
  int n = std::snprintf(g_error, sizeof(g_error), "%s, block (%u, %u, %u)", what, i.x, i.y, i.z);
  for (const Fiber* f : {a, b}) {
    if (f != nullptr && n > 0 && n < static_cast<int>(sizeof(g_error)))
      n += place(g_error + n, sizeof(g_error) - static_cast<size_t>(n), *f);
  }
}

// On a fibre: the launch is over, this fibre is never resumed.
void fail_here(const char* what) {
  fail(what, g_fiber);
  to_host();
}

// ---- barriers

bool same_text(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

// Opens the warp operation that `a` waits in when every lane of its mask has come.
bool try_open(const Fiber& a) {
  const int first = a.linear / kWarp * kWarp;
  const unsigned mask = a.mask;
  for (int l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1u) == 0) continue;
    if (first + l >= g_block.n) {
      if (mask == 0xffffffffu) continue;  // a full mask in the last, partial warp
      return fail("mask names a lane past the block", &a), false;
    }
    const Fiber& p = thread_of(first + l);
    if (p.wait == Wait::kDone) return fail("mask names an exited lane", &a, &p), false;
    if (p.wait == Wait::kBlock) return fail("mask names a lane that waits at __syncthreads", &a, &p), false;
    if (p.wait == Wait::kWarp && (p.mask != mask || !same_text(p.op, a.op)))
      return fail("lanes of one mask are in different warp operations", &a, &p), false;
    if (p.wait != Wait::kWarp) return false;
  }
  for (int l = 0; l < kWarp && first + l < g_block.n; ++l) {
    if ((mask >> l & 1u) != 0) thread_of(first + l).wait = Wait::kNone;
  }
  return true;
}

void meet(unsigned mask, const char* op, Site at) {
  Fiber* me = g_fiber;
  me->at = at;
  if ((mask >> (me->linear % kWarp) & 1u) == 0) return fail_here("calling lane is not in its own mask");
  me->wait = Wait::kWarp;
  me->op = op;
  me->mask = mask;
  to_host();
}

bool open_warps() {
  bool opened = false;
  for (int i = 0; i < g_block.n && !g_failed; ++i) {
    if (thread_of(i).wait == Wait::kWarp) opened |= try_open(thread_of(i));
  }
  return opened;
}

// Nobody can run and no warp operation opened: all that are left must stand at one __syncthreads.
void open_block() {
  const Fiber* first = nullptr;
  for (int i = 0; i < g_block.n; ++i) {
    const Fiber& f = thread_of(i);
    if (f.wait == Wait::kWarp) return fail("deadlock", &f);
    if (f.wait != Wait::kBlock) continue;
    if (first == nullptr) first = &f;
    if (first->at.line != f.at.line || !same_text(first->at.file, f.at.file))
      return fail("divergent __syncthreads", first, &f);
    if (first->path != f.path) return fail("divergent calls of a function with __syncthreads", first, &f);
  }
  for (int i = 0; i < g_block.n; ++i) {
    Fiber& f = thread_of(i);
    if (f.wait == Wait::kBlock) f.wait = Wait::kNone;
  }
}

// ---- blocks

// Between kernels: memory does not grow with their number. A sanitizer gets another mapping, which takes with
// it all that it knew of the addresses.
void renew_arena() {
  if (g_arena_top > kArenaTouched) {
    g_arena_top = 0;
#ifdef DPI_EMU_SANITIZED
    unpoison(g_arena, kArenaBytes);
    munmap(g_arena, kArenaBytes);
    g_arena = nullptr;
#endif
  }
  if (g_arena != nullptr) return;
  g_arena = reserve(kArenaBytes);
  if (g_arena != nullptr) poison(g_arena, kArenaBytes);
}

// Every block gets fresh addresses, so that no sanitizer takes it for an earlier one.
char* arena_take(size_t bytes) {
  const size_t rounded = (bytes + kGap - 1) / kGap * kGap;
  if (g_arena_top + kGap + rounded > kArenaBytes) {
#ifdef DPI_EMU_SANITIZED
    return nullptr;
#else
    g_arena_top = 0;
#endif
  }
  char* p = g_arena + g_arena_top + kGap;
  g_arena_top += kGap + rounded;
  unpoison(p, bytes);
  volatile char* fill = p;  // volatile: a memset would be intercepted and count as the kernel's write
  for (size_t i = 0; i < bytes; ++i) fill[i] = static_cast<char>(0xff);
  return p;
}

// Which fibre is which thread changes from block to block: threads of equal number in different blocks would
// share a clock otherwise, and no race between them would show.
void prepare_block(Track* track, dim3 index) {
  const auto n = static_cast<size_t>(g_block.n);
  const size_t turn = random_below(n);
  const dim3 size = g_block.size;
  dim3 tid(0, 0, 0);
  for (size_t i = 0; i < n; ++i) {
    Fiber* f = track->fibers[i + turn < n ? i + turn : i + turn - n].get();
    f->linear = static_cast<int>(i);
    f->tid = tid;
    if (++tid.x == size.x) tid.x = 0, ++tid.y;
    if (tid.y == size.y) tid.y = 0, ++tid.z;
    f->wait = Wait::kNone;
    f->parity = 0;
    f->copy_begin = f->copy_end = f->copy_groups = 0;
    g_block.threads[i] = f;
  }
  g_block.index = index;
  g_block.n_arrays = 0;
}

// A thread that ends without having waited leaves its stack to the next one, which finds it in the cache.
void run_block(std::vector<int>& order) {
  bool first = !kSanitized;
  for (int done = 0; done < g_block.n && !g_failed; first = false) {
    Fiber* idle = nullptr;  // at the start of its loop, with the stack that ran last
    std::shuffle(order.begin(), order.end(), random_source());
    for (size_t k = 0; k < order.size(); ++k) {
      Fiber& f = thread_of(order[k]);
      if (f.wait != Wait::kNone) continue;
      if (idle != nullptr) swap_stacks(f, *idle);
      resume(f);
      if (g_failed) return;
      const bool ended = f.wait == Wait::kDone;
      if (ended) ++done;
      idle = first && ended ? &f : nullptr;
    }
    if (!open_warps() && done < g_block.n && !g_failed) open_block();
  }
}

// Blocks in a random order, one after another.
void run_grid(Track* track, dim3 grid) {
  std::vector<int> order(static_cast<size_t>(g_block.n));
  std::iota(order.begin(), order.end(), 0);
  std::vector<uint64_t> blocks(uint64_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), uint64_t{0});
  std::shuffle(blocks.begin(), blocks.end(), random_source());
  for (const uint64_t b : blocks) {
    const SyncKeys keys(1 + kMaxThreads / kWarp);
    g_sync = keys.p;
    const uint64_t row = b / grid.x;
    prepare_block(track, dim3(static_cast<unsigned>(b % grid.x), static_cast<unsigned>(row % grid.y),
                              static_cast<unsigned>(row / grid.y)));
    run_block(order);
    if (g_failed) break;
  }
  g_sync = g_no_sync;
}

}  // namespace

const char* wrong_shape(dim3 grid, dim3 block) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads) return "a block has 1 to 1024 threads";
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return "a grid has no blocks";
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return "a grid is too large";
  return nullptr;
}

// ---- called by kernels

// The return addresses from `frame` outwards: a frame holds its caller's frame and its return address.
static uint64_t path_from(const void* frame, const void* outermost) {
  uint64_t path = 0;
  const auto* f = static_cast<const uint64_t*>(frame);
  for (; f < outermost && f != nullptr; f = reinterpret_cast<const uint64_t*>(f[0])) path = path * 31 + f[1];
  return path;
}

void enter_kernel(const void* frame) { g_fiber->outermost = frame; }

void block_sync(Site at, const void* frame) {
  Fiber* me = g_fiber;
  me->path = frame != nullptr && me->outermost != nullptr ? path_from(frame, me->outermost) : 0;
  me->wait = Wait::kBlock;
  me->at = at;
  release(&g_sync[0]);
  to_host();
  acquire(&g_sync[0]);
}

void warp_sync(unsigned mask, Site at) {
  char* key = &g_sync[1 + g_fiber->linear / kWarp];
  release(key);
  meet(mask, "__syncwarp", at);
  acquire(key);
}

uint64_t exchange_bits(unsigned mask, uint64_t value, int source, const char* op, Site at) {
  Fiber* me = g_fiber;
  const int p = me->parity;
  me->parity ^= 1;
  me->brought[p] = value;
  meet(mask, op, at);
  const int from = me->linear / kWarp * kWarp + source % kWarp;
  return from < g_block.n ? thread_of(from).brought[p] : value;
}

void exchange_many(uint64_t value, int first, int apart, int n, uint64_t* out, const char* op, Site at) {
  const int p = g_fiber->parity;
  exchange_bits(0xffffffffu, value, 0, op, at);
  const int warp = g_fiber->linear / kWarp * kWarp;
  for (int i = 0; i < n; ++i) out[i] = thread_of(warp + first + i * apart).brought[p];
}

void queue_copy(const QueuedCopy& c) {
  Fiber& f = *g_fiber;
  if (f.copy_end - f.copy_begin == QueuedCopies::kMost)
    return fail_here("more asynchronous copies than the emulation holds");
  f.queue->copies[f.copy_end % QueuedCopies::kMost] = c;
  f.queue->groups[f.copy_end % QueuedCopies::kMost] = f.copy_groups;
  ++f.copy_end;
}

void end_copy_group() { ++g_fiber->copy_groups; }

bool take_copy(unsigned pending, QueuedCopy* out) {
  Fiber& f = *g_fiber;
  const unsigned first = f.copy_begin % QueuedCopies::kMost;
  if (f.copy_begin == f.copy_end || f.queue->groups[first] + pending >= f.copy_groups) return false;
  *out = f.queue->copies[first];
  ++f.copy_begin;
  return true;
}

void* shared_array(const void* key, size_t bytes) {
  Block& b = g_block;
  for (int i = 0; i < b.n_arrays; ++i) {
    if (b.arrays[i].key == key) return b.arrays[i].p;
  }
  char* p = b.n_arrays < kMaxShared ? arena_take(bytes) : nullptr;
  if (p == nullptr) fail_here("shared memory of the emulation is used up");
  b.arrays[b.n_arrays++] = {key, p};
  return p;
}

dim3 thread_index() { return g_fiber->tid; }
dim3 block_index() { return g_block.index; }
dim3 block_size() { return g_block.size; }
dim3 grid_size() { return g_block.grid; }
int lane() { return g_fiber->linear % kWarp; }

// ---- called by schedule.cpp

size_t random_below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_source()); }
void seed_random(unsigned value) { random_source().seed(value); }

const char* run_kernel(Track* track, const KernelRun& run) {
  g_failed = false;
  g_error[0] = '\0';
  renew_arena();
  if (g_arena == nullptr) return "no address space for shared memory";
  g_block.index = dim3(0, 0, 0);
  g_block.grid = run.grid;
  g_block.size = run.block;
  g_block.n = static_cast<int>(run.block.x * run.block.y * run.block.z);
  const Body body = [&run] {
    acquire(run.start);
    (*run.body)();
    release(run.end);
  };
  g_fiber_body = &body;
  prepare_host(g_host_sanitizer);
  run_grid(track, run.grid);
  if (!g_failed) return nullptr;
  for (auto& f : track->fibers) {
    on_clock(f->sanitizer.tsan, [&] { release(run.end); });  // it never came there by itself
    start_over(*f);
  }
  return g_error;
}

}  // namespace dpi::emu
