#include "ops/dims.hpp"

#include <algorithm>

namespace dpi::ops {

std::string text_of(std::span<const int64_t> d) {
  std::string s = "[";
  for (size_t i = 0; i < d.size(); ++i) s += (i == 0 ? "" : ", ") + std::to_string(d[i]);
  return s + "]";
}

std::string text_of(const Dims& d) { return text_of(std::span(d.d, static_cast<size_t>(d.rank))); }

std::string dims_text(const Dims& d) {
  std::string s = "[";
  for (int i = 0; i < d.rank; ++i) s += (i == 0 ? "" : ",") + std::to_string(d.d[i]);
  return s + "]";
}

Dims dims_of(std::initializer_list<int64_t> extents) {
  Dims d;
  for (const int64_t n : extents) d.d[d.rank++] = n;
  return d;
}

std::optional<Dims> dims_from(std::span<const int64_t> extents) {
  if (extents.empty() || extents.size() > static_cast<size_t>(kernels::kMaxRank)) return std::nullopt;
  Dims d;
  for (const int64_t n : extents) {
    if (n < 1) return std::nullopt;
    d.d[d.rank++] = n;
  }
  return d;
}

Dims drop_last(const Dims& d, int n) {
  Dims r;
  r.rank = d.rank - n;
  std::copy_n(d.d, r.rank, r.d);
  return r;
}

Dims append(Dims d, int64_t extent) {
  d.d[d.rank++] = extent;
  return d;
}

Dims with_extent(Dims d, int axis, int64_t extent) {
  d.d[axis < 0 ? axis + d.rank : axis] = extent;
  return d;
}

Dims without_axis(const Dims& d, int axis) {
  Dims r;
  for (int i = 0; i < d.rank; ++i) {
    if (i != axis) r.d[r.rank++] = d.d[i];
  }
  return r;
}

Dims up_to_axis(Dims d, int axis) {
  d.rank = axis + 1;
  return d;
}

std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  Dims r;
  r.rank = std::max(a.rank, b.rank);
  for (int i = 1; i <= r.rank; ++i) {
    const int64_t x = i <= a.rank ? a.d[a.rank - i] : 1;
    const int64_t y = i <= b.rank ? b.d[b.rank - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    r.d[r.rank - i] = std::max(x, y);
  }
  return r;
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  if (from.rank > to.rank) return false;
  for (int i = 1; i <= from.rank; ++i) {
    if (from.at(-i) != 1 && from.at(-i) != to.at(-i)) return false;
  }
  return true;
}

}  // namespace dpi::ops
