// The kernel's permission to use tile registers: who asks for it, what a refusal does. A program of its own,
// since a permission is the process's and stays.
#include <doctest/doctest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "backend/abi/registry.hpp"
#include "backend/cpu_device.hpp"
#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/tile_permission.hpp"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dpi::test::tile_permission_test {
namespace {

constexpr int32_t kFp32 = 0, kBf16 = 3, kInt8 = 4;

bool permitted() {
  unsigned long features = 0;
#if defined(__x86_64__)
  constexpr long kGetPermitted = 0x1022;  // ARCH_GET_XCOMP_PERM
  if (syscall(SYS_arch_prctl, kGetPermitted, &features) != 0) return false;
#endif
  return (features >> 18 & 1) != 0;
}

/// Sets this thread's signal stack. False: the kernel refuses it.
bool set_signal_stack(std::vector<char>* memory) {
  stack_t s{};
  s.ss_flags = memory == nullptr ? SS_DISABLE : 0;
  if (memory != nullptr) s.ss_sp = memory->data();
  if (memory != nullptr) s.ss_size = memory->size();
  return sigaltstack(&s, nullptr) == 0;
}

struct Opened {
  std::string name, log;
  int32_t level = -1;
};

void keep(void* sink, int32_t level, const char*, const char* message) {
  static_cast<Opened*>(sink)->log += message;
  static_cast<Opened*>(sink)->level = level;
}

/// The device's name, and what was logged while it was opened.
Opened open(int32_t precision, const char* isa) {
  Opened result;
  const CpuDevice device(precision, isa, keep, &result);
  REQUIRE_MESSAGE(device.status.ok(), device.status.message());
  dpi_backend_caps caps{};
  caps.struct_size = sizeof caps;
  dpi_backend_error err{};
  CHECK(device.b.api->caps(device.b.device, &caps, &err) == 0);
  result.name = caps.device_name;
  return result;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE(
    "tile permission: asked for by bf16 and int8 only; refused, the next best is taken and it is told") {
  namespace cpu = kernels::cpu;
  if (!cpu::isa_supported(cpu::Isa::kAmx) || cpu::tiles_refusal() != nullptr) {
    MESSAGE("skipped: this machine offers no tile registers");
    return;
  }
  REQUIRE_FALSE(permitted());
  for (const char* isa : {"avx512", "avx512_bf16"}) open(kBf16, isa);
  open(kInt8, "avx512_vnni");
  CHECK_FALSE(has(open(kFp32, "auto").name, "amx"));
  CHECK(has(open(kFp32, "amx").name, ", amx"));
  CHECK_FALSE(permitted());

  std::vector<char> small(8192);  // room for AVX-512, none for 8 KiB more
  REQUIRE(set_signal_stack(&small));
  const char* const why = "a signal stack (sigaltstack) of this process is too small";
  for (const char* isa : {"amx", "auto"}) {
    CAPTURE(isa);
    const Opened bf16 = open(kBf16, isa), int8 = open(kInt8, isa);
    CHECK(has(bf16.name, (std::string(", avx512_bf16; no amx: ") + why).c_str()));
    CHECK(has(int8.name, (std::string(", avx512_vnni; no amx: ") + why).c_str()));
    CHECK(bf16.log == std::string("isa=amx is not used: ") + why + "; avx512_bf16 is used instead");
    CHECK(bf16.level == (std::string(isa) == "amx" ? 2 : 1));
  }
  CHECK_FALSE(permitted());
  const auto reports = backend::list_backends("");
  CHECK(has(reports[1].caps.device_name, why));

  REQUIRE(set_signal_stack(nullptr));
  const Opened given = open(kBf16, "amx");
  CHECK(has(given.name, ", amx"));
  CHECK(given.log.empty());
  CHECK(permitted());
  CHECK(has(open(kInt8, "auto").name, ", amx"));
  CHECK_FALSE(has(backend::list_backends("")[1].caps.device_name, "amx"));
  CHECK_FALSE(set_signal_stack(&small));
}

}  // namespace dpi::test::tile_permission_test
