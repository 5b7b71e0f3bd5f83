#include "backend/cuda/tuning/small_batch_line.hpp"

#include <charconv>

#include "backend/cuda/tuning/gemm_choice.hpp"

namespace dpi::backend::small_batch {

namespace gpu = kernels::cuda::small_batch;

namespace {

constexpr int64_t kMostRows = 4096;

int32_t precision_of(gpu::Mode m) { return m == gpu::Mode::kF32Split ? 0 : static_cast<int32_t>(m); }

const char* name_of(gpu::Mode m) { return precision_name(static_cast<GemmPrecision>(precision_of(m))); }

const char* products_of(gpu::Mode m) {
  return m == gpu::Mode::kF32 ? "simt" : m == gpu::Mode::kF32Split ? "3xtf32" : "tensor";
}

template <class T>
bool parse_number(const std::string& word, T least, T most, T* out) {
  const char* const end = word.data() + word.size();
  const auto got = std::from_chars(word.data(), end, *out);
  return got.ec == std::errc() && got.ptr == end && *out >= least && *out <= most;
}

bool parse_mode(const std::string& precision, const std::string& products, gpu::Mode* out) {
  for (const gpu::Mode m :
       {gpu::Mode::kF32, gpu::Mode::kF32Split, gpu::Mode::kTf32, gpu::Mode::kF16, gpu::Mode::kBf16}) {
    *out = m;
    if (precision == name_of(m) && products == products_of(m)) return true;
  }
  return false;
}

}  // namespace

const char* parse_tuning(const std::vector<std::string>& w, TuningLine* t) {
  if (w.size() != 9) return "expected 9 words";
  if (!parse_mode(w[1], w[3], &t->mode)) return "precision and products do not fit";
  if (!parse_number<int64_t>(w[2], 0, int64_t{1} << 40, &t->weights)) return "weights is not a number";
  if (!parse_number<int32_t>(w[4], 1, kernels::cuda::small_batch::kMaxRanks, &t->ranks) ||
      (t->ranks & (t->ranks - 1)) != 0)
    return "ranks is not 1, 2, 4 or 8";
  if (!parse_number<int32_t>(w[5], 1, kernels::cuda::small_batch::kMaxWarps, &t->warps))
    return "warps is not 1 to 16";
  if (!parse_number<int64_t>(w[6], 0, kMostRows, &t->rows)) return "rows is not 0 to 4096";
  if (w[7] != "on" && w[7] != "off") return "overlap is not on or off";
  t->overlap = w[7] == "on";
  if (!parse_number<double>(w[8], 0, 1e12, &t->microseconds)) return "the time is not a number";
  return nullptr;
}

std::string tuning_text(const TuningLine& t) {
  char time[32];
  const auto end = std::to_chars(time, time + sizeof(time), t.microseconds, std::chars_format::fixed, 3);
  return std::string("small_batch ") + name_of(t.mode) + " " + std::to_string(t.weights) + " " +
         products_of(t.mode) + " " + std::to_string(t.ranks) + " " + std::to_string(t.warps) + " " +
         std::to_string(t.rows) + (t.overlap ? " on " : " off ") + std::string(time, end.ptr);
}

const TuningLine* find_tuning(const std::vector<TuningLine>& all, int32_t precision, int64_t weights) {
  for (const TuningLine& t : all) {
    if (precision_of(t.mode) == precision && t.weights == weights) return &t;
  }
  return nullptr;
}

}  // namespace dpi::backend::small_batch
