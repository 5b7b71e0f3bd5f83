// XXH3-64 of bytes that come in pieces, by the widest instructions that this processor has: data sets are
// digested while they are read, and the library that is linked in is built for SSE2.
//
//   DataDigest digest;
//   digest.add(bytes);  // as often as there are pieces
//   digest.value();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dpi {

class DataDigest {
 public:
  /// One way to compute it; all give the same.
  struct Form {
    void* (*create)();  // null when there is no memory
    void (*free)(void* state);
    void (*add)(void* state, const void* bytes, size_t count);
    uint64_t (*value)(const void* state);
  };
  static const Form& plain();
  /// Null where this processor has no AVX2.
  static const Form* avx2();

  /// Throws bad_alloc. form null: the fastest.
  explicit DataDigest(const Form* form = nullptr);

  void add(std::span<const std::byte> bytes) { form_.add(state_.get(), bytes.data(), bytes.size()); }
  /// The digest of the bytes added so far.
  uint64_t value() const { return form_.value(state_.get()); }

 private:
  const Form& form_;
  std::unique_ptr<void, void (*)(void*)> state_;
};

}  // namespace dpi
