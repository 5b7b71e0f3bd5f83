#include "kernels/cpu/tile_permission.hpp"

#include <atomic>
#include <cerrno>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dpi::kernels::cpu {

#if defined(__x86_64__)
namespace {

constexpr long kGetSupported = 0x1021, kAsk = 0x1023;  // ARCH_GET_XCOMP_SUPP, ARCH_REQ_XCOMP_PERM
constexpr unsigned long kTileData = 18;                // XFEATURE_XTILE_DATA

std::atomic<int> g_refused{0};  // errno of the last request

bool kernel_offers_tiles() {
  unsigned long features = 0;
  return syscall(SYS_arch_prctl, kGetSupported, &features) == 0 && (features >> kTileData & 1) != 0;
}

}  // namespace

bool processor_has_tiles() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTile | kInt8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAll) == kAll;
}

bool ask_for_tiles() {
  const bool given = syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
  g_refused = given ? 0 : errno;
  return given;
}

const char* tiles_refusal() {
  if (!kernel_offers_tiles()) return "the kernel offers no tile registers";
  if (g_refused == 0) return nullptr;
  return g_refused == ENOSPC ? "a signal stack (sigaltstack) of this process is too small"
                             : "the kernel refused tile registers";
}
#else
bool processor_has_tiles() { return false; }
bool ask_for_tiles() { return false; }
const char* tiles_refusal() { return "the processor has no tile registers"; }
#endif

}  // namespace dpi::kernels::cpu
