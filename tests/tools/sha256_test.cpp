// SHA-256 against the examples of FIPS 180-4 and lengths around the block size (Python's hashlib).
#include "sdk/tools/dpi/shared/sha256.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace dpi::test::sha256_test {
namespace {

std::string of(const std::string& text, size_t piece) {
  dpi::tool::Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece)
    hash.add(text.data() + at, std::min(piece, text.size() - at));
  return hash.finish();
}

}  // namespace

TEST_CASE("sha256") {
  CHECK(of("", 1) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(of("abc", 1) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 9) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(of(std::string(1000000, 'a'), 4097) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(of(std::string(55, 'x'), 64) == "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  CHECK(of(std::string(56, 'x'), 64) == "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  CHECK(of(std::string(63, 'x'), 64) == "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  CHECK(of(std::string(64, 'x'), 64) == "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  CHECK(of(std::string(65, 'x'), 64) == "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
  CHECK(of(std::string(119, 'x'), 64) == "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
  CHECK(of(std::string(120, 'x'), 64) == "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
}

}  // namespace dpi::test::sha256_test
