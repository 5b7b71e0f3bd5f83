// Switching between the host and fibres. Fibres live as long as the process and run one thread of one block
// after another. Compile without sanitizers, with DPI_EMU_ASAN or DPI_EMU_TSAN to match the kernels; they are
// told of every switch.
#include "kernels/emu/fiber.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <utility>

#ifdef __x86_64__
// Saves what a called function must keep, changes the stack and takes from there what was saved. Unlike
// swapcontext it makes no system call, and no sanitizer clears the shadow of a whole stack for it.
asm(R"(
.text
.hidden dpi_emu_switch_stack
.globl dpi_emu_switch_stack
.type dpi_emu_switch_stack, @function
dpi_emu_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dpi_emu_switch_stack, .-dpi_emu_switch_stack
)");
extern "C" void dpi_emu_switch_stack(void** save, void* stack);
#endif

namespace dpi::emu {

namespace {

#ifdef __x86_64__
void switch_point(Point* from, const Point* to) { dpi_emu_switch_stack(&from->sp, to->sp); }
#else
void switch_point(Point* from, const Point* to) { swapcontext(from, to); }
#endif

constexpr size_t kStackBytes = size_t{256} << 10;
/// Stacks lie whole pages apart. Their tops differ by odd numbers of cache lines, or all of them would share
/// a few lines of the cache.
constexpr size_t kColours = 64, kColourBytes = 5 * 64;

size_t used_bytes(const char* stack) {
  return kStackBytes - reinterpret_cast<uintptr_t>(stack) / kStackBytes % kColours * kColourBytes;
}

Point g_host;

void take_busy() {
  while (g_busy.test_and_set(std::memory_order_acquire)) sched_yield();
}
void give_busy() { g_busy.clear(std::memory_order_release); }

// fork() waits until nobody is inside, as a child would wait for ever for a thread that it has not. No caller
// holds a lock that another fork handler of the library takes.
[[maybe_unused]] const int g_at_fork = pthread_atfork(take_busy, give_busy, give_busy);

}  // namespace

std::atomic_flag g_busy = ATOMIC_FLAG_INIT;
Fiber* g_fiber = nullptr;
const Body* g_fiber_body = nullptr;
HostSanitizer g_host_sanitizer;

void FiberFree::operator()(Fiber* f) const { delete f; }

void to_host() {
  Fiber* me = g_fiber;
  leave_fiber(g_host_sanitizer, me->sanitizer);
  switch_point(&me->point, &g_host);
  back_on_fiber(g_host_sanitizer, me->sanitizer);
}

namespace {

void fiber_main() {
  back_on_fiber(g_host_sanitizer, g_fiber->sanitizer);
  for (;;) {
    (*g_fiber_body)();
    g_fiber->wait = Wait::kDone;
    to_host();
  }
}

#ifdef __x86_64__
void start_point(Point* p, char* stack, size_t bytes) {
  auto* top = reinterpret_cast<void**>(stack + bytes);
  top[-1] = nullptr;  // where fiber_main would return to
  top[-2] = reinterpret_cast<void*>(&fiber_main);
  for (int i = 3; i <= 8; ++i) top[-i] = nullptr;  // registers
  p->sp = top - 8;
}
#else
void start_point(Point* p, char* stack, size_t bytes) {
  getcontext(p);
  p->uc_stack.ss_sp = stack;
  p->uc_stack.ss_size = bytes;
  p->uc_link = nullptr;
  makecontext(p, fiber_main, 0);
}
#endif

}  // namespace

void resume(Fiber& f) {
  g_fiber = &f;
  leave_host(g_host_sanitizer, f.sanitizer, f.stack, kStackBytes);
  switch_point(&g_host, &f.point);
  back_on_host(g_host_sanitizer, f.sanitizer);
}

char* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

void start_over(Fiber& f) {
  unpoison(f.stack, kStackBytes);  // frames that were never left
  start_point(&f.point, f.stack, used_bytes(f.stack));
  f.sanitizer.fake_stack = nullptr;
}

void swap_stacks(Fiber& a, Fiber& b) {
  std::swap(a.point, b.point);
  std::swap(a.stack, b.stack);
}

bool prepare_track(Track* track, dim3 block) {
  const size_t n = size_t{block.x} * block.y * block.z;
  if (track->clock == nullptr) track->clock = create_tsan_fiber();
  while (track->fibers.size() < n) {
    std::unique_ptr<Fiber, FiberFree> f(new Fiber);
    f->stack = reserve(kStackBytes);
    if (f->stack == nullptr) return false;
    f->sanitizer.tsan = create_tsan_fiber();
    start_point(&f->point, f->stack, used_bytes(f->stack));
    track->fibers.push_back(std::move(f));
  }
  return true;
}

}  // namespace dpi::emu
