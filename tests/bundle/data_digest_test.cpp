// XXH3 by each way of computing it: what the library gives for the bytes at once, however they are cut.
#include "bundle/data_digest.hpp"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <algorithm>
#include <random>
#include <vector>

namespace dpi::test::data_digest_test {
namespace {

std::vector<std::byte> random_bytes(size_t n) {
  std::mt19937_64 rng(n);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(rng());
  return out;
}

/// By pieces of 0 to `most` bytes.
uint64_t digest_of(const DataDigest::Form* form, std::span<const std::byte> bytes, size_t most) {
  std::mt19937 rng(static_cast<unsigned>(most));
  DataDigest digest(form);
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), std::uniform_int_distribution<size_t>(0, most)(rng));
    digest.add(bytes.first(n));
    bytes = bytes.subspan(n);
  }
  return digest.value();
}

// Around what XXH3 tells apart: 16, 128, 240 bytes, stripes of 64, its buffer of 256, blocks of 1024.
constexpr size_t kSizes[] = {0,    1,    3,    4,    8,     16,    17,    63,      64,
                             65,   127,  128,  129,  239,   240,   241,   255,     256,
                             257,  319,  320,  511,  512,   513,   1023,  1024,    1025,
                             2047, 2048, 2049, 5000, 65535, 65536, 65537, 300'001, 1'048'576};

TEST_CASE("every form gives the library's digest, whole and in pieces") {
  std::vector<const DataDigest::Form*> forms = {nullptr, &DataDigest::plain()};
  if (DataDigest::avx2() != nullptr) forms.push_back(DataDigest::avx2());
  for (const size_t size : kSizes) {
    const std::vector<std::byte> bytes = random_bytes(size);
    const uint64_t want = XXH3_64bits(bytes.data(), bytes.size());
    for (const DataDigest::Form* form : forms) {
      for (const size_t most : {size + 1, size_t{700}, size_t{90}}) {
        CAPTURE(size);
        CAPTURE(most);
        CHECK(digest_of(form, bytes, most) == want);
      }
    }
  }
}

TEST_CASE("the digest so far can be asked for, and goes on") {
  const std::vector<std::byte> bytes = random_bytes(5000);
  DataDigest digest;
  for (size_t at = 0; at < bytes.size(); at += 500) {
    CHECK(digest.value() == XXH3_64bits(bytes.data(), at));
    digest.add(std::span(bytes).subspan(at, 500));
  }
  CHECK(digest.value() == XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace
}  // namespace dpi::test::data_digest_test
