// Layers as oneDNN computes them in bf16 and int8, for narrow_bench.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace dpi::bench {

/// One call of layers of such widths, relu fused, weights packed beforehand: float32 in and out, between them
/// bf16, or bytes by fixed scales. Empty where the build has no oneDNN 2 or the processor no such product.
std::function<void()> onednn_layers(const std::vector<int64_t>& widths, int64_t rows, bool int8);

}  // namespace dpi::bench
