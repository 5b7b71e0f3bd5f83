// What is counted of calls that are watched: 16-bit elements at the end of their range, over the emulation.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/cuda/kernels.hpp"
#include "kernels/emu/device_emu.hpp"

namespace dpi::test::saturated_test {
namespace {

using kernels::DType;

TEST_CASE("saturated: largest values and infinities of a row's own elements are counted, NaN is not") {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const uint16_t largest = type == DType::kF16 ? 0x7bff : 0x7f7f;
    const auto infinity = static_cast<uint16_t>(largest + 1);
    constexpr int64_t kRows = 70, kWidth = 37, kStride = 40;
    std::vector<uint16_t> data(kRows * kStride, largest);  // so are the paddings
    uint64_t want = 7;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kWidth; ++c) {
        const uint16_t values[] = {0,
                                   largest,
                                   infinity,
                                   static_cast<uint16_t>(largest | 0x8000),
                                   static_cast<uint16_t>(largest - 1),
                                   static_cast<uint16_t>(infinity + 1)};
        const auto k = static_cast<size_t>((r * 31 + c * 7) % 6);
        data[static_cast<size_t>(r * kStride + c)] = values[k];
        want += k >= 1 && k <= 3 ? 1 : 0;
      }
    }
    uint64_t count = 7;
    kernels::Tensor t;
    t.data = reinterpret_cast<float*>(data.data());
    t.dims = {1, {kWidth}};
    t.rows = kRows;
    t.row_stride = kStride;
    t.dtype = type;
    emu::Stream* stream = nullptr;
    REQUIRE(emu::stream_create(&stream) == 0);
    CHECK(kernels::cuda::count_saturated(t, &count, stream) == 0);
    CHECK_MESSAGE(emu::stream_sync(stream) == 0, std::string(emu::last_error()));
    emu::stream_destroy(stream);
    CHECK(count == want);
  }
}

}  // namespace
}  // namespace dpi::test::saturated_test
