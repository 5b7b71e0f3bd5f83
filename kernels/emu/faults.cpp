// Calls of the emulated device that a test makes fail. Compile as fiber.cpp.
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/emu/control.hpp"
#include "kernels/emu/memory.hpp"
#include "kernels/emu/schedule.hpp"

namespace dpi::emu {

namespace {

constexpr std::array<const char*, static_cast<size_t>(Kind::kCount)> kKinds = {
    "alloc", "pinned", "copy", "launch", "event", "stream", "capture", "graph", "sync", "map"};

struct Planned {
  size_t kind = 0;
  int64_t call = 0;
  int code = 0;
};

struct Faults {
  std::vector<Planned> planned;
  std::array<int64_t, kKinds.size()> calls{};
};

size_t kind_of(const std::string& name) {
  size_t k = 0;
  while (k < kKinds.size() && name != kKinds[k]) ++k;
  return k;
}

// "launch:7:719,copy:1:2"; false = not understood.
bool parse(const char* spec, std::vector<Planned>* out) {
  const std::string text = spec != nullptr ? spec : "";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const size_t colon = word.find(':');
    if (colon == std::string::npos) return false;
    char* rest = nullptr;
    Planned p{kind_of(word.substr(0, colon)), std::strtoll(word.c_str() + colon + 1, &rest, 10), 0};
    if (p.kind == kKinds.size() || p.call < 1 || *rest != ':') return false;
    p.code = static_cast<int>(std::strtol(rest + 1, &rest, 10));
    if (p.code == 0 || *rest != '\0') return false;
    out->push_back(p);
    begin = end + 1;
  }
  return true;
}

Faults& faults() {
  static auto* const kFaults = [] {
    auto* f = new Faults;
    static_cast<void>(parse(std::getenv("DPI_EMU_FAIL"), &f->planned));
    return f;
  }();
  return *kFaults;
}

}  // namespace

int injected(Kind kind) {
  Faults& f = faults();
  const auto k = static_cast<size_t>(kind);
  const int64_t call = ++f.calls[k];
  for (const Planned& p : f.planned) {
    if (p.kind == k && p.call == call)
      return failed(p.code, std::string("injected fault: ") + kKinds[k] + " call " + std::to_string(call));
  }
  return 0;
}

}  // namespace dpi::emu

extern "C" __attribute__((visibility("default"))) bool dpi_emu_fail(const char* spec) {
  const dpi::emu::Busy busy;
  std::vector<dpi::emu::Planned> planned;
  if (!dpi::emu::parse(spec, &planned)) return false;
  dpi::emu::faults().planned = std::move(planned);
  dpi::emu::faults().calls = {};
  return true;
}

extern "C" __attribute__((visibility("default"))) int64_t dpi_emu_calls(const char* kind) {
  const dpi::emu::Busy busy;
  const size_t k = dpi::emu::kind_of(kind);
  return k < dpi::emu::kKinds.size() ? dpi::emu::faults().calls[k] : -1;
}

extern "C" __attribute__((visibility("default"))) int dpi_emu_last_code() {
  return dpi::emu::peek_last_code();
}

extern "C" __attribute__((visibility("default"))) void dpi_emu_seed(unsigned value) { dpi::emu::seed(value); }
