// Reads decisions from an input's bytes: small numbers, odd numbers, texts. Past the end everything is zero,
// so every input is a whole program.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace dpi::fuzz {

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  size_t left() const { return left_.size(); }

  template <class T>
  T raw() {
    T v{};
    const size_t n = left_.size() < sizeof v ? left_.size() : sizeof v;
    if (n > 0) std::memcpy(&v, left_.data(), n);
    left_ = left_.subspan(n);
    return v;
  }
  uint8_t u8() { return raw<uint8_t>(); }
  /// 0 to n - 1.
  size_t below(size_t n) { return u8() % n; }
  bool one_in(unsigned n) { return u8() % n == n - 1; }

  template <class T, size_t N>
  const T& of(const T (&list)[N]) {
    return list[below(N)];
  }

  /// At most `most` bytes, their count read first.
  std::string text(size_t most) {
    size_t n = below(most + 1);
    if (n > left_.size()) n = left_.size();
    std::string out(reinterpret_cast<const char*>(left_.data()), n);
    left_ = left_.subspan(n);
    return out;
  }

  /// Mostly small, else at the edges of something, else anything.
  int64_t integer() {
    constexpr int64_t kEdges[] = {-1,
                                  0,
                                  1,
                                  INT64_MAX,
                                  INT64_MIN,
                                  int64_t{1} << 31,
                                  (int64_t{1} << 31) - 2,
                                  (int64_t{1} << 53) + 1,
                                  -(int64_t{1} << 31) - 1,
                                  int64_t{1} << 40};
    const uint8_t how = u8();
    if (how < 160) return how % 16;
    if (how < 220) return kEdges[how % (sizeof kEdges / sizeof kEdges[0])];
    return raw<int64_t>();
  }

  float number() {
    constexpr float kEdges[] = {
        0.0f, -0.0f, 1.0f, -1.0f, 3e38f, 1e-40f, __builtin_inff(), __builtin_nanf("")};
    const uint8_t how = u8();
    if (how < 160) return (static_cast<float>(how) - 80.0f) / 16.0f;
    if (how < 220) return kEdges[how % 8];
    return raw<float>();
  }

 private:
  std::span<const uint8_t> left_;
};

}  // namespace dpi::fuzz
