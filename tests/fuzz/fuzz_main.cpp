// libFuzzer's entry points over one target (DPI_FUZZ_<NAME>, from CMakeLists.txt). What became of the inputs
// is printed at the end, for README.md's figures.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "fuzz/target.hpp"
#include "support/outcome.hpp"

namespace {

const dpi::fuzz::Target& target() {
  using namespace dpi::fuzz;
#if defined(DPI_FUZZ_BUNDLE)
  return kBundleTarget;
#elif defined(DPI_FUZZ_DELTA)
  return kDeltaTarget;
#elif defined(DPI_FUZZ_CAPI)
  return kCapiTarget;
#elif defined(DPI_FUZZ_ROWS)
  return kRowsTarget;
#elif defined(DPI_FUZZ_CSV)
  return kCsvTarget;
#elif defined(DPI_FUZZ_OPTIONS)
  return kOptionsTarget;
#elif defined(DPI_FUZZ_TUNING)
  return kTuningTarget;
#endif
}

// Of processor time: libFuzzer's -timeout counts what other programs take too, and is there for inputs that
// wait.
constexpr double kMostSeconds = 10;

void print_tally() {
  const auto& t = dpi::fuzz::tally();
  std::fprintf(stderr, "dpi_fuzz %s: %llu inputs, %llu loaded, %llu predicted\n", target().name,
               static_cast<unsigned long long>(t.inputs), static_cast<unsigned long long>(t.loaded),
               static_cast<unsigned long long>(t.predicted));
}

}  // namespace

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);  // libFuzzer's

__attribute__((visibility("default"))) int LLVMFuzzerInitialize(int*, char***) {
  std::atexit(print_tally);
  return 0;
}

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dpi::fuzz::begin_input();
  const std::clock_t begin = std::clock();
  target().run({data, size});
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  dpi::fuzz::expect(seconds <= kMostSeconds, "an input takes 10 s of processor time at most");
  return 0;
}

#if defined(DPI_FUZZ_BUNDLE) || defined(DPI_FUZZ_DELTA) || \
    defined(DPI_FUZZ_RECORD)  // where there is none, libFuzzer's own mutations are left as they are
__attribute__((visibility("default"))) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                                                      size_t max_size, unsigned seed) {
  return target().mutate(data, size, max_size, seed, LLVMFuzzerMutate);
}
#endif

}  // extern "C"
