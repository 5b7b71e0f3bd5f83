// A record file's bytes: read to its end, every array of every request touched, and those scored whose
// columns a model has. Refusals name the file; what was read before one is whole.
#include <xxhash.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/target.hpp"
#include "runtime/record/record_reader.hpp"
#include "support/handles.hpp"
#include "support/outcome.hpp"
#include "support/source_dir.hpp"

namespace dpi::fuzz {
namespace {

using namespace record_layout;

constexpr int64_t kMostRows = 64;

dpi_model* model() {
  static const Owned<dpi_model> loaded = [] {
    const Owned<dpi_options> options(dpi_options_create());
    set(options.get(), "device", "cpu");
    dpi_model* m = nullptr;
    const std::string file = test::source_dir() + "/weights/demo/adult_widedeep.h5";
    expect(dpi_model_load(file.c_str(), options.get(), &m, nullptr) == DPI_OK, "the tree's bundles load");
    return Owned<dpi_model>(m);
  }();
  return loaded.get();
}

/// A read of every byte, for a sanitizer to see.
template <class T>
void touch(const T* at, int64_t n) {
  static volatile uint64_t seen = 0;
  if (at != nullptr && n > 0) seen = seen + XXH3_64bits(at, static_cast<size_t>(n) * sizeof(T));
}

void touch_part(const BatchPart& p, int64_t slots, int64_t columns) {
  touch(p.ids, p.nnz);
  touch(p.offsets, p.rows * slots + 1);
  touch(p.weights, p.nnz);
  touch(p.dense, p.rows * columns);
}

void score(const RecordedRequest& r, const dpi_model_info& m) {
  const bool shared = r.batch.has_shared();
  const auto is = [](uint32_t a, int32_t b) { return int64_t{a} == int64_t{b}; };
  if (r.head.rows > kMostRows || r.head.shared_rows > kMostRows || !is(r.head.heads, m.num_heads) ||
      !is(r.head.slots, shared ? m.num_item_slots : m.num_slots) ||
      !is(r.head.columns, shared ? m.item_dense_dim : m.dense_dim) ||
      (shared &&
       (!is(r.head.shared_slots, m.num_shared_slots) || !is(r.head.shared_columns, m.shared_dense_dim))))
    return;
  const BatchPart &item = r.batch.item, &users = r.batch.shared;
  dpi_batch b = DPI_BATCH_INIT;
  b.rows = item.rows;
  b.dense = item.dense;
  b.ids = item.ids;
  b.offsets = item.offsets;
  b.weights = item.weights;
  b.nnz = item.nnz;
  b.layout = r.batch.slot_major ? DPI_LAYOUT_SLOT_MAJOR : DPI_LAYOUT_ROW_MAJOR;
  b.shared_rows = users.rows;
  b.shared_offsets = r.batch.shared_offsets;
  b.shared_dense = users.dense;
  b.shared_ids = users.ids;
  b.shared_bag_offsets = users.offsets;
  b.shared_weights = users.weights;
  b.shared_nnz = users.nnz;
  std::vector<float> out(static_cast<size_t>(item.rows) * static_cast<size_t>(m.num_heads));
  dpi_error error = DPI_ERROR_INIT;
  const dpi_status status = dpi_predict(model(), &b, out.data(), out.size(), nullptr, &error);
  expect_documented(status, error);
  if (status == DPI_OK) mark_predicted();
}

void run(InputBytes input) {
  // An allocation of its own, so that a sanitizer sees a read past its end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[input.size()]);
  if (!input.empty()) std::memcpy(bytes.get(), input.data(), input.size());
  auto reader = RecordReader::open(
      ByteSource::over_memory(std::as_bytes(std::span(bytes.get(), input.size()))), "file");
  dpi_model_info info{};
  info.struct_size = sizeof info;
  expect(dpi_model_get_info(model(), &info, nullptr) == DPI_OK, "a model has an info");
  Status status = reader.status();
  int64_t requests = 0;
  while (status.ok()) {
    const auto more = (*reader)->next();
    status = more.status();
    if (!more.ok() || !*more) break;
    const RecordedRequest& r = (*reader)->request();
    expect(r.number == requests++, "requests are counted");
    touch_part(r.batch.item, r.head.slots, r.head.columns);
    touch_part(r.batch.shared, r.head.shared_slots, r.head.shared_columns);
    touch(r.batch.shared_offsets, r.head.shared_rows + 1);
    touch(r.scores, r.head.rows * r.head.heads);
    mark_loaded();
    score(r, info);
  }
  expect_documented(static_cast<dpi_status>(status.code()));
  expect(status.ok() || status.message().starts_with("file: "), "a refusal names the file");
  if (reader.ok() && status.ok())
    expect((*reader)->bytes_read() <= input.size(), "the end of what is whole lies in the file");
}

/// Digests as they must be, of the frames that the lengths tell.
void seal(uint8_t* data, size_t size) {
  FileHead file{};
  if (size < sizeof file) return;
  std::memcpy(&file, data, sizeof file);
  file.digest = XXH3_64bits(&file, offsetof(FileHead, digest));
  std::memcpy(data, &file, sizeof file);
  for (size_t at = sizeof file; size - at >= sizeof(FrameHead);) {
    FrameHead head{};
    std::memcpy(&head, data + at, sizeof head);
    const size_t left = size - at - sizeof head;
    uint8_t* const payload = data + at + sizeof head;
    if (head.length <= left) {
      BundleHead bundle{};
      if (head.kind == kBundle && head.length >= sizeof bundle) {
        std::memcpy(&bundle, payload, sizeof bundle);
        if (bundle.schema_bytes <= head.length - sizeof bundle)
          bundle.schema_digest = XXH3_64bits(payload + sizeof bundle, bundle.schema_bytes);
        std::memcpy(payload, &bundle, sizeof bundle);
      }
      head.digest = XXH3_64bits(payload, static_cast<size_t>(head.length));
    }
    head.head_digest = XXH3_64bits_withSeed(&head, offsetof(FrameHead, head_digest), at);
    std::memcpy(data + at, &head, sizeof head);
    if (head.length > left) return;
    at += sizeof head + static_cast<size_t>(head.length);
  }
}

/// Fifteen of sixteen results have their seals.
size_t mutate(uint8_t* data, size_t size, size_t most, uint32_t seed, PlainMutate plain) {
  size = plain(data, size, most);
  if (seed % 16 != 0) seal(data, size);
  return size;
}

}  // namespace

const Target kRecordTarget{"record", run, mutate};

}  // namespace dpi::fuzz
