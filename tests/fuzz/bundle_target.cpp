// A bundle's bytes: loaded on `ref` and on `cpu`, described, asked for scores, its golden rows verified,
// every byte read and hashed, freed. Memory is bounded by hooks, so a model too large for them is refused,
// not run.
#include <cmath>
#include <cstring>

#include "bundle/bundle.hpp"
#include "encode/encoder.hpp"
#include "fuzz/bundle_mutator.hpp"
#include "fuzz/target.hpp"
#include "support/handles.hpp"
#include "support/some_rows.hpp"

namespace dpi::fuzz {
namespace {

constexpr size_t kMostMemory = size_t{4} << 20;
constexpr int64_t kRows = 3;

struct Loaded {
  dpi_status status = DPI_OK;
  Owned<dpi_model> model;
};

Loaded load(InputBytes input, dpi_env* env, const char* device, const char* verify) {
  const Owned<dpi_options> options(dpi_options_create());
  for (const auto& [key, value] : {std::pair{"device", device},
                                   {"verify", verify},
                                   {"determinism", "strict"},
                                   {"max_rows", "8"},
                                   {"max_nnz", "256"},
                                   {"max_contexts", "1"}})
    set(options.get(), key, value);
  expect(dpi_options_set_env(options.get(), env, nullptr) == DPI_OK, "an environment can be set");
  Error error;
  dpi_model* model = nullptr;
  // An allocation of its own, so that a sanitizer sees a read past its end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[input.size()]);
  if (!input.empty()) std::memcpy(bytes.get(), input.data(), input.size());
  const dpi_status s = dpi_model_load_memory(bytes.get(), input.size(), options.get(), &model, &error);
  expect_documented(s, error);
  expect((s == DPI_OK) == (model != nullptr), "a handle comes with DPI_OK only");
  return {s, Owned<dpi_model>(model)};
}

void describe(const dpi_model* m) {
  (void)text_of([&](char* buf, size_t cap) { return dpi_model_schema_json(m, buf, cap); });
  (void)text_of([&](char* buf, size_t cap) { return dpi_model_info_json(m, buf, cap); });
  (void)text_of([&](char* buf, size_t cap) { return dpi_model_counters_json(m, buf, cap); });
  const dpi_model_info info = info_of(m);
  for (int32_t f = 0; f < info.num_features; ++f) {
    const char* name = dpi_model_feature_name(m, f);
    expect(name != nullptr && is_printable_line(name), "a feature has a printable name");
    expect(dpi_model_feature_index(m, name) == f, "a feature is found by its name");
  }
  for (int32_t h = 0; h < info.num_heads; ++h) {
    const char* name = dpi_model_head_name(m, h);
    expect(name != nullptr && is_printable_line(name), "a head has a printable name");
  }
}

/// Scores; empty when the call was refused.
std::vector<float> scores(dpi_model* m, const dpi_batch& batch) {
  const auto heads = static_cast<size_t>(info_of(m).num_heads);
  std::vector<float> out(static_cast<size_t>(batch.rows) * heads, -7.0f);
  Error error;
  const dpi_status s = dpi_predict(m, &batch, out.data(), out.size(), nullptr, &error);
  expect_documented(s, error);
  if (s != DPI_OK) return {};
  for (const float v : out) expect(std::isfinite(v), "scores of a call that is not refused are finite");
  return out;
}

/// Rows together and one by one: determinism=strict promises the same bits.
void predict(dpi_model* m, uint32_t seed) {
  const SomeRows rows(m, kRows, seed);
  const std::vector<float> together = scores(m, rows.batch);
  if (together.empty()) return;
  mark_predicted();
  const size_t heads = together.size() / kRows;
  for (int64_t r = 0; r < kRows; ++r) {
    const SomeRows one(rows, m, r);
    const std::vector<float> alone = scores(m, one.batch);
    const bool same =
        alone.size() == heads && std::memcmp(alone.data(), together.data() + static_cast<size_t>(r) * heads,
                                             heads * sizeof(float)) == 0;
    expect(same, "a row's bits do not depend on its batch (determinism=strict)");
  }
}

/// Raw cells of every feature; what is refused leaves the row as it was.
void predict_raw(dpi_model* m) {
  constexpr const char* kCells[] = {"1", "bonn", "", "-1.5e3", " NA ", "a|b^c d", "9223372036854775808"};
  dpi_rows* made = nullptr;
  Error error;
  const dpi_status created = dpi_rows_create(m, &made, &error);
  expect_documented(created, error);
  const Owned<dpi_rows> rows(made);
  if (created != DPI_OK) return;
  const dpi_model_info info = info_of(m);
  (void)dpi_rows_begin_shared(rows.get(), nullptr);
  size_t cell = 0;
  for (int64_t r = 0; r < 2; ++r) {
    if (dpi_rows_begin(rows.get(), &error) != DPI_OK) return;
    for (int32_t f = 0; f < info.num_features && f < 64; ++f) {
      const dpi_status s = dpi_rows_set_text(rows.get(), f, kCells[cell++ % std::size(kCells)], -1, &error);
      expect_documented(s, error);
    }
  }
  std::vector<float> out(2 * static_cast<size_t>(info.num_heads));
  expect_documented(dpi_rows_predict(rows.get(), out.data(), out.size(), nullptr, &error), error);
}

/// The reader alone, with hashes and every extent.
void read_whole(InputBytes input) {
  BundleOptions options;
  options.check_hashes = have_content_hash();
  auto bundle = Bundle::open_memory(std::as_bytes(input), options);
  const Status s = bundle.ok() ? (*bundle)->verify_all({}) : std::move(bundle).status();
  expect_documented(static_cast<dpi_status>(s.code()));
  expect(s.ok() || !s.message().empty(), "a refusal has a text");
}

void run(InputBytes input) {
  MemoryBudget budget{kMostMemory};
  {
    const Owned<dpi_env> env = make_env(&budget);
    const Loaded ref = load(input, env.get(), "ref", "off");
    Loaded cpu = load(input, env.get(), "cpu", "off");
    const bool short_of_memory = ref.status == DPI_E_OUT_OF_MEMORY || cpu.status == DPI_E_OUT_OF_MEMORY;
    expect(short_of_memory || ref.status == cpu.status, "ref and cpu take and refuse the same bundles");
    read_whole(input);
    if (ref.model != nullptr && cpu.model != nullptr) {
      mark_loaded();
      describe(cpu.model.get());
      const auto seed = static_cast<uint32_t>(input.size() + input[input.size() / 2]);
      loaded_inputs().add(input, seed);
      predict(cpu.model.get(), seed);
      (void)scores(ref.model.get(), SomeRows(ref.model.get(), 1, seed).batch);
      predict_raw(cpu.model.get());
      cpu.model.reset();
      (void)load(input, env.get(), "cpu", "golden");
    }
  }
  expect(budget.taken == 0, "every block came back");
}

}  // namespace

const Target kBundleTarget{"bundle", run, mutate_bundle};

}  // namespace dpi::fuzz
