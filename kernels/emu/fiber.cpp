// Switching between the host and fibres (ucontext; setjmp after the first entry where no sanitizer watches).
// Fibres live as long as the process and run one thread of one block after another. Compile without
// sanitizers, with DPI_EMU_ASAN or DPI_EMU_TSAN to match the kernels.
#include "kernels/emu/fiber.hpp"

#include <sys/mman.h>

namespace dpi::emu {

namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

[[maybe_unused]] ucontext_t g_host;
[[maybe_unused]] jmp_buf g_host_point;

}  // namespace

std::atomic_flag g_busy = ATOMIC_FLAG_INIT;
Fiber* g_fiber = nullptr;
const Body* g_fiber_body = nullptr;
HostSanitizer g_host_sanitizer;

void FiberFree::operator()(Fiber* f) const { delete f; }

void to_host() {
  Fiber* me = g_fiber;
  leave_fiber(g_host_sanitizer, me->sanitizer);
#ifdef DPI_EMU_SANITIZED
  swapcontext(&me->context, &g_host);
#else
  if (_setjmp(me->point) == 0) _longjmp(g_host_point, 1);
#endif
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

}  // namespace

void resume(Fiber& f) {
  g_fiber = &f;
  leave_host(g_host_sanitizer, f.sanitizer, f.stack, kStackBytes);
#ifdef DPI_EMU_SANITIZED
  swapcontext(&g_host, &f.context);
#else
  if (_setjmp(g_host_point) == 0) {
    if (f.entered) _longjmp(f.point, 1);
    f.entered = true;
    setcontext(&f.context);
  }
#endif
  back_on_host(g_host_sanitizer, f.sanitizer);
}

char* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

void start_over(Fiber& f) {
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = kStackBytes;
  f.context.uc_link = nullptr;
  makecontext(&f.context, fiber_main, 0);
  f.entered = false;
  f.sanitizer.fake_stack = nullptr;
}

bool prepare_lane(Lane* lane, dim3 block) {
  const size_t n = size_t{block.x} * block.y * block.z;
  if (lane->clock == nullptr) lane->clock = create_tsan_fiber();
  while (lane->fibers.size() < n) {
    std::unique_ptr<Fiber, FiberFree> f(new Fiber);
    f->stack = reserve(kStackBytes);
    if (f->stack == nullptr) return false;
    f->sanitizer.tsan = create_tsan_fiber();
    start_over(*f);
    lane->fibers.push_back(std::move(f));
  }
  return true;
}

}  // namespace dpi::emu
