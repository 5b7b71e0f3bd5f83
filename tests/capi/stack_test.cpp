// How much of the caller's stack a predict uses: services call it on fibres with a stack of 64 KiB or less.
// Each predict runs on a painted stack of its own; the lowest byte that lost its paint tells how deep it
// went.
#include <ucontext.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "support/capi_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::stack_test {
namespace {

constexpr bool kWideFrames = DPI_UNDER_ASAN || DPI_UNDER_TSAN;
constexpr size_t kPromised = 16 << 10;  // dpi.h, "Stack"
constexpr size_t kStack = 256 << 10;
constexpr unsigned char kPaint = 0xA5;

struct Call {
  dpi_model* model = nullptr;
  const dpi_batch* batch = nullptr;
  float* out = nullptr;
  size_t out_len = 0;
  dpi_status status = DPI_E_INTERNAL;
};
Call* g_call = nullptr;

void predict_now() {
  g_call->status = dpi_predict(g_call->model, g_call->batch, g_call->out, g_call->out_len, nullptr, nullptr);
}

/// Bytes of the stack below `body`'s frame that it wrote to.
size_t stack_of(void (*body)()) {
  std::vector<unsigned char> stack(kStack, kPaint);
  ucontext_t here, there;
  REQUIRE(getcontext(&there) == 0);
  there.uc_stack.ss_sp = stack.data();
  there.uc_stack.ss_size = stack.size();
  there.uc_link = &here;
  makecontext(&there, body, 0);
  REQUIRE(swapcontext(&here, &there) == 0);
  const auto touched = std::find_if(stack.begin(), stack.end(), [](unsigned char c) { return c != kPaint; });
  return static_cast<size_t>(stack.end() - touched);
}

void use_40_kib() {
  volatile char buffer[40 << 10];
  for (size_t i = 0; i < sizeof buffer; i += 64) buffer[i] = 1;
}

size_t stack_of_predict(dpi_model* m, const OneHotRows& rows) {
  std::vector<float> out(static_cast<size_t>(rows.batch.rows) * rows.heads);
  Call call{m, &rows.batch, out.data(), out.size()};
  g_call = &call;
  size_t most = 0;
  for (int i = 0; i < 2; ++i) {
    most = std::max(most, stack_of(predict_now));
    REQUIRE(call.status == DPI_OK);
  }
  return most;
}

std::vector<std::string> bundles() {
  std::vector<std::string> found;
  for (const char* folder : {"weights/demo", "tests/e2e/golden"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/" + folder)) {
      if (entry.path().extension() == ".h5") found.push_back(entry.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

ModelPtr load_path(const std::string& path, const char* isa) {
  const std::string set = isa;
  const char* precision = "fp32";
  if (set == "avx512_bf16" || set == "amx" || set == "neon_mmla") precision = "bf16";
  if (set == "avx512_vnni" || set == "neon_dot") precision = "int8";
  Error e;
  dpi_model* m = nullptr;
  const auto o = options({{"device", device()}, {"isa", isa}, {"precision", precision}});
  const dpi_status s = dpi_model_load(path.c_str(), o.get(), &m, &e);
  INFO(e.text());
  REQUIRE((s == DPI_OK || s == DPI_E_UNSUPPORTED));  // an instruction set that this processor lacks
  return ModelPtr(m);
}

}  // namespace

TEST_CASE("the paint tells") {
  if (kWideFrames) return;
  const size_t used = stack_of(use_40_kib);
  CHECK(used >= (40 << 10));
  CHECK(used <= (44 << 10));
}

TEST_CASE("a predict keeps to the promised stack") {
  if (kWideFrames) {
    skip_program("sanitizers make frames wider");
    return;
  }
  size_t most = 0;
  int measured = 0;
  std::vector<const char*> isas = {"scalar"};
  if (device() == "cpu")
    isas = {"scalar", "avx2", "avx512",   "avx512_bf16", "avx512_vnni",
            "amx",    "neon", "neon_dot", "neon_mmla"};  // `ref` has one
  for (const std::string& path : bundles()) {
    for (const char* isa : isas) {
      const ModelPtr m = load_path(path, isa);
      if (m == nullptr) continue;
      for (const int64_t n : {1, 3, 40, 5000}) {
        CAPTURE(path);
        CAPTURE(isa);
        CAPTURE(n);
        const size_t used = stack_of_predict(m.get(), OneHotRows(m.get(), n));
        CHECK(used <= kPromised);
        most = std::max(most, used);
        ++measured;
      }
    }
  }
  MESSAGE(most << " bytes at most in " << measured << " calls");
  CHECK(measured >= 100);
}

}  // namespace dpi::test::stack_test
