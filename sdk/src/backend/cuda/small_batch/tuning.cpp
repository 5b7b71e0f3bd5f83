#include "backend/cuda/small_batch/tuning.hpp"

#include <charconv>

namespace dpi::backend {

using kernels::cuda::ChainMode;

namespace {

constexpr const char* kPrecisions[] = {"fp32", "tf32", "fp16", "bf16"};
constexpr int64_t kMostRows = 4096;

int32_t precision_of(ChainMode m) { return m == ChainMode::kF32Split ? 0 : static_cast<int32_t>(m); }

const char* products_of(ChainMode m) {
  return m == ChainMode::kF32 ? "simt" : m == ChainMode::kF32Split ? "3xtf32" : "tensor";
}

template <class T>
bool parse_number(const std::string& word, T least, T most, T* out) {
  const char* const end = word.data() + word.size();
  const auto got = std::from_chars(word.data(), end, *out);
  return got.ec == std::errc() && got.ptr == end && *out >= least && *out <= most;
}

bool parse_mode(const std::string& precision, const std::string& products, ChainMode* out) {
  for (const ChainMode m :
       {ChainMode::kF32, ChainMode::kF32Split, ChainMode::kTf32, ChainMode::kF16, ChainMode::kBf16}) {
    *out = m;
    if (precision == kPrecisions[precision_of(m)] && products == products_of(m)) return true;
  }
  return false;
}

}  // namespace

const char* parse_chain_tuning(const std::vector<std::string>& w, ChainTuning* t) {
  if (w.size() != 9) return "expected 9 words";
  if (!parse_mode(w[1], w[3], &t->mode)) return "precision and products do not fit";
  if (!parse_number<int64_t>(w[2], 0, int64_t{1} << 40, &t->weights)) return "weights is not a number";
  if (!parse_number<int32_t>(w[4], 1, kernels::cuda::kMaxChainRanks, &t->ranks) ||
      (t->ranks & (t->ranks - 1)) != 0)
    return "ranks is not 1, 2, 4 or 8";
  if (!parse_number<int32_t>(w[5], 1, kernels::cuda::kMaxChainWarps, &t->warps))
    return "warps is not 1 to 16";
  if (!parse_number<int64_t>(w[6], 0, kMostRows, &t->rows)) return "rows is not 0 to 4096";
  if (w[7] != "on" && w[7] != "off") return "overlap is not on or off";
  t->overlap = w[7] == "on";
  if (!parse_number<double>(w[8], 0, 1e12, &t->microseconds)) return "the time is not a number";
  return nullptr;
}

std::string chain_tuning_text(const ChainTuning& t) {
  char time[32];
  const auto end = std::to_chars(time, time + sizeof(time), t.microseconds, std::chars_format::fixed, 3);
  return std::string("chain ") + kPrecisions[precision_of(t.mode)] + " " + std::to_string(t.weights) + " " +
         products_of(t.mode) + " " + std::to_string(t.ranks) + " " + std::to_string(t.warps) + " " +
         std::to_string(t.rows) + (t.overlap ? " on " : " off ") + std::string(time, end.ptr);
}

const ChainTuning* find_chain_tuning(const std::vector<ChainTuning>& all, int32_t precision,
                                     int64_t weights) {
  for (const ChainTuning& t : all) {
    if (precision_of(t.mode) == precision && t.weights == weights) return &t;
  }
  return nullptr;
}

}  // namespace dpi::backend
