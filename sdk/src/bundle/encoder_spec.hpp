// The steps that turn a raw value into an id or a float, as a bundle states them (weights/FORMAT.md part 5).
// Filled and checked by the manifest's reader; encode/ compiles them. Paths are data sets under /encoders.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace dpi {

namespace step {

struct Trim {
  static constexpr const char* kName = "trim";
  bool operator==(const Trim&) const = default;
};
struct Lower {
  static constexpr const char* kName = "lower";
  bool operator==(const Lower&) const = default;
};
struct Upper {
  static constexpr const char* kName = "upper";
  bool operator==(const Upper&) const = default;
};
struct Missing {
  static constexpr const char* kName = "missing";
  std::vector<std::string> values;
  bool operator==(const Missing&) const = default;
};
struct VocabString {
  static constexpr const char* kName = "vocab_string";
  std::string bytes, offsets;
  std::string ids;  // empty = entry k has id first_id + k
  int64_t first_id = 1;
  bool operator==(const VocabString&) const = default;
};
struct VocabInt {
  static constexpr const char* kName = "vocab_int";
  std::string keys;
  std::string ids;  // empty = entry k has id first_id + k
  int64_t first_id = 1;
  bool operator==(const VocabInt&) const = default;
};
struct VocabFloat {
  static constexpr const char* kName = "vocab_float";
  std::string keys;  // bit patterns of doubles, finite, 0 without sign
  std::string ids;   // empty = entry k has id first_id + k
  int64_t first_id = 1;
  bool operator==(const VocabFloat&) const = default;
};
struct Hash {
  static constexpr const char* kName = "hash";
  bool murmur = false;  // murmur3_32, else xxh64
  int64_t seed = 0;     // murmur: below 2^32
  int64_t modulus = 1;  // 0 = all 64 bits, for features of keys
  int64_t offset = 0;
  bool operator==(const Hash&) const = default;
};
struct ToId {
  static constexpr const char* kName = "to_id";
  bool operator==(const ToId&) const = default;
};
struct ToFloat {
  static constexpr const char* kName = "to_float";
  bool operator==(const ToFloat&) const = default;
};
struct Clip {
  static constexpr const char* kName = "clip";
  double lo = 0, hi = 0;  // lo <= hi
  bool operator==(const Clip&) const = default;
};
struct Log1p {
  static constexpr const char* kName = "log1p";
  bool operator==(const Log1p&) const = default;
};
struct SignedLog1p {
  static constexpr const char* kName = "signed_log1p";
  bool operator==(const SignedLog1p&) const = default;
};
struct Standard {
  static constexpr const char* kName = "standard";
  double mean = 0, std = 1;  // std != 0
  bool operator==(const Standard&) const = default;
};
struct MinMax {
  static constexpr const char* kName = "minmax";
  double min = 0, max = 1;  // different
  double lo = 0, hi = 1;
  bool operator==(const MinMax&) const = default;
};
struct Buckets {
  static constexpr const char* kName = "buckets";
  std::vector<double> boundaries;  // never decrease
  bool right = false;
  int64_t first_id = 0;
  bool operator==(const Buckets&) const = default;
};

}  // namespace step

using EncoderStep =
    std::variant<step::Trim, step::Lower, step::Upper, step::Missing, step::VocabString, step::VocabInt,
                 step::VocabFloat, step::Hash, step::ToId, step::ToFloat, step::Clip, step::Log1p,
                 step::SignedLog1p, step::Standard, step::MinMax, step::Buckets>;

struct EncoderSpec {
  std::vector<EncoderStep> steps;  // none = no encoder
  // Sequences only, and never weighted ones: how a text that holds a whole bag falls into elements.
  bool has_splitter = false;
  std::string splitter;  // empty = runs of white space
  // Sequences only: the id of a missing element, which keeps its place; without one it leaves the bag.
  bool has_missing_element = false;
  int64_t missing_element = 0;  // in [0, vocab_size), or any key

  bool empty() const { return steps.empty(); }
  bool operator==(const EncoderSpec&) const = default;
};

/// The step's name in a manifest.
inline const char* name_of(const EncoderStep& step) {
  return std::visit([](const auto& s) { return s.kName; }, step);
}

}  // namespace dpi
