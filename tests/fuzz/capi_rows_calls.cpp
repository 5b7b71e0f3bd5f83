// dpi_rows: what is refused changes nothing, and a batch is always there to be scored.
#include <string>

#include "fuzz/capi_state.hpp"

namespace dpi::fuzz {
namespace {

void make_rows(State& s, size_t at) {
  dpi_model* model = s.model();
  dpi_rows_free(s.rows[at]);
  s.rows[at] = nullptr;
  SizedError error(s.in);
  const dpi_status status = dpi_rows_create(model, &s.rows[at], error.get());
  error.check(status);
  expect((status == DPI_OK) == (s.rows[at] != nullptr), "rows come with DPI_OK only");
  s.rows_models[at] = status == DPI_OK ? model : nullptr;
}

std::string cell(Input* in) {
  constexpr const char* kCells[] = {"",     "1",     "-1",    "26",   "0.5",         "1e308",
                                    "nan",  "inf",   " ulm ", "bonn", "k\xc3\xb6ln", "30",
                                    "a|b",  "^^",    "a b",   "?",    "\xff",        "9223372036854775808",
                                    "0x10", "1e-320"};
  return in->below(2) == 0 ? in->of(kCells) : in->text(24);
}

void add_lists(State& s, dpi_rows* rows, int32_t f) {
  SizedError error(s.in);
  const size_t n = s.in->below(6);
  std::vector<int64_t> values(n);
  std::vector<float> weights(n), floats(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = s.in->integer();
    weights[i] = s.in->number();
    floats[i] = s.in->number();
  }
  const float* w = s.in->below(2) == 0 ? nullptr : weights.data();
  const auto count = s.in->one_in(16) ? -static_cast<int64_t>(n) : static_cast<int64_t>(n);
  switch (s.in->below(3)) {
    case 0:
      return error.check(dpi_rows_add_integers(rows, f, values.data(), w, count, error.get()));
    case 1:
      return error.check(dpi_rows_set_ids(rows, f, values.data(), w, count, error.get()));
    default:
      return error.check(dpi_rows_set_floats(rows, f, floats.data(), count, error.get()));
  }
}

void set_value(State& s, dpi_rows* rows, int32_t f) {
  SizedError error(s.in);
  const std::string text = cell(s.in);
  const int64_t length = s.in->below(4) == 0 ? -1 : static_cast<int64_t>(text.size());
  switch (s.in->below(6)) {
    case 0:
      return error.check(dpi_rows_set_number(rows, f, static_cast<double>(s.in->number()), error.get()));
    case 1:
      return error.check(dpi_rows_set_integer(rows, f, s.in->integer(), error.get()));
    case 2:
      return error.check(dpi_rows_set_unsigned(rows, f, static_cast<uint64_t>(s.in->integer()), error.get()));
    case 3:
      return error.check(dpi_rows_add_text(rows, f, text.c_str(), length, s.in->number(), error.get()));
    case 4:
      return add_lists(s, rows, f);
    default:
      return error.check(dpi_rows_set_text(rows, f, text.c_str(), length, error.get()));
  }
}

void predict_rows(State& s, dpi_rows* rows, const dpi_model* model) {
  SizedError error(s.in);
  const auto heads = static_cast<size_t>(info_of(model).num_heads);
  const auto count = static_cast<size_t>(dpi_rows_count(rows));
  std::vector<float> out(count * heads + s.in->below(2), -1.0f);
  const dpi_status status = dpi_rows_predict(rows, out.data(), out.size(), nullptr, error.get());
  error.check(status);
  if (status == DPI_OK) mark_predicted();
}

}  // namespace

void call_rows(State& s) {
  const size_t at = s.in->below(State::kSlots);
  dpi_rows* rows = s.rows[at];
  if (rows == nullptr) {
    SizedError error(s.in);
    expect(dpi_rows_count(nullptr) <= 0, "no rows have no count");
    error.check(dpi_rows_begin(nullptr, error.get()));
    return make_rows(s, at);
  }
  const size_t how = s.in->below(24);
  SizedError error(s.in);
  if (how == 0) return make_rows(s, at);
  if (how == 1) {
    dpi_rows_free(rows);
    s.rows[at] = nullptr;
    return;
  }
  if (how == 2) return dpi_rows_clear(rows);
  if (how == 3) return error.check(dpi_rows_begin_shared(rows, error.get()));
  if (how < 7) return error.check(dpi_rows_begin(rows, error.get()));
  if (how < 10) return predict_rows(s, rows, s.rows_models[at]);
  if (how == 10) {
    dpi_batch batch{};
    batch.struct_size = odd_struct_size(s.in, sizeof batch);
    const dpi_status status = dpi_rows_get_batch(rows, &batch, error.get());
    error.check(status);
    expect(status != DPI_OK || batch.rows == dpi_rows_count(rows), "a batch has the rows that were begun");
    return;
  }
  const auto features = static_cast<size_t>(info_of(s.rows_models[at]).num_features);
  const auto f =
      s.in->one_in(32) ? static_cast<int32_t>(s.in->integer()) : static_cast<int32_t>(s.in->below(features));
  set_value(s, rows, f);
}

}  // namespace dpi::fuzz
