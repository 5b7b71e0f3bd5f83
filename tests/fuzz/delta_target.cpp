// A delta's bytes: opened, its rows read, applied to a base that it may or may not fit (changing.h5), the
// result read whole. Only documented outcomes, and never another bundle than the one whose hashes it names.
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "bundle/apply.hpp"
#include "bundle/patch.hpp"
#include "fuzz/bundle_mutator.hpp"
#include "fuzz/target.hpp"
#include "support/outcome.hpp"
#include "support/source_dir.hpp"

namespace dpi::fuzz {
namespace {

const std::vector<char>& base_bytes() {
  static const std::vector<char> bytes = [] {
    std::ifstream in(test::source_dir() + "/tests/bundle/data/changing.h5", std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(in), {});
  }();
  return bytes;
}

void expect_told(const Status& s) {
  expect_documented(static_cast<dpi_status>(s.code()));
  expect(s.ok() || !s.message().empty(), "a refusal has a text");
}

/// Rows come in order, as many as were announced.
void read_rows(const Delta& delta) {
  for (const TableDelta& t : delta.tables()) {
    int64_t rows = 0;
    expect_told(delta.read_rows(
        t, [&](int64_t first, int64_t n, std::span<const std::byte> bytes, std::span<const float> scales) {
          expect(first == rows && n > 0 && !bytes.empty(), "rows come in order");
          expect(scales.size() == (t.scale == nullptr ? 0 : static_cast<size_t>(n)), "a scale for each row");
          rows += n;
          return Status();
        }));
    expect(rows == t.set(), "as many rows as are set");
  }
}

void apply(const std::shared_ptr<const Delta>& delta) {
  BundleOptions options;
  options.check_hashes = true;
  auto base = Bundle::open_memory(std::as_bytes(std::span(base_bytes())), options);
  expect(base.ok(), "the base is a bundle");
  const std::shared_ptr<Bundle> old = std::move(base).value();
  auto first = first_to_apply(old->content_hash(), old->name(), {delta});
  expect_told(first.status());
  if (!first.ok()) return;
  auto bundle = open_patched(old, {delta}, *first, options);
  expect_told(bundle.status());
  if (!bundle.ok()) return;
  expect((*bundle)->content_hash() == delta->version() || *first == 1, "the version that the delta names");
  const Status read = (*bundle)->verify_all({});
  expect_told(read);
  if (read.ok()) mark_predicted();
}

void run(InputBytes input) {
  // An allocation of its own, so that a sanitizer sees a read past its end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[input.size()]);
  if (!input.empty()) std::memcpy(bytes.get(), input.data(), input.size());
  DeltaOptions options;
  options.check_hashes = true;
  auto opened = Delta::open_source(
      ByteSource::over_memory(std::as_bytes(std::span(bytes.get(), input.size()))), "delta", options);
  expect_told(opened.status());
  if (!opened.ok()) return;
  mark_loaded();
  loaded_inputs().add(input, static_cast<uint32_t>(input.size() + input[input.size() / 2]));
  const std::shared_ptr<const Delta> delta = std::move(opened).value();
  read_rows(*delta);
  apply(delta);
}

}  // namespace

const Target kDeltaTarget{"delta", run, mutate_delta};

}  // namespace dpi::fuzz
