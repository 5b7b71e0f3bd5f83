// A build without libsodium: this program's copy of the reader is one. It opens every bundle, and refuses by
// name what would need hashes.
#include "bundle/bundle_bytes.hpp"
#include "bundle/delta.hpp"
#include "bundle/signature.hpp"

namespace dpi::test::no_sodium_test {
namespace {

TEST_CASE("bundles open and verify by their digests") {
  CHECK_FALSE(have_content_hash());
  const auto bundle = Bundle::open(small_path());
  REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
  CHECK_FALSE((*bundle)->hashes_checked());
  CHECK((*bundle)->verify_all({}).ok());
}

void check_refused(const Status& s) {
  CHECK(s.code() == Code::kUnsupported);
  CHECK_MESSAGE(s.message().find("no libsodium") != std::string::npos, s.message());
}

TEST_CASE("signatures and hashes are refused by name") {
  BundleOptions options;
  options.require_signature = std::string(64, 'a');
  check_refused(Bundle::open(small_path(), options).status());
  options.require_signature.clear();
  options.check_hashes = true;
  check_refused(Bundle::open(small_path(), options).status());
  check_refused(make_signing_key().status());
  check_refused(key_id_of({}).status());
  check_refused(sign_file(small_path(), {}, {}, {}));
  check_refused(Delta::open(source_dir() + "/tests/bundle/data/changing.delta").status());
}

}  // namespace
}  // namespace dpi::test::no_sodium_test
