// Models, predictions and contexts.
#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "fuzz/capi_batch.hpp"
#include "fuzz/capi_state.hpp"

namespace dpi::fuzz {
namespace {

constexpr float kUntouched = -77.25f;

/// Scores and what lies around them.
class Scores {
 public:
  Scores(Input* in, int64_t rows, int32_t heads)
      : needed_(rows > 0 && rows < 1000 ? static_cast<size_t>(rows * heads) : 0) {
    const size_t how = in->below(16);
    length_ = how == 0 ? needed_ / 2 : how == 1 ? needed_ + 3 : needed_;
    memory_ = std::make_unique<float[]>(length_);
    std::fill_n(memory_.get(), length_, kUntouched);
  }
  float* data() { return memory_.get(); }
  size_t size() const { return length_; }

  void check(dpi_status status) const {
    if (status == DPI_OK) mark_predicted();
    if (status == DPI_OK) expect(length_ >= needed_, "scores that do not fit are refused");
    for (size_t i = needed_; i < length_; ++i) {
      expect(memory_[i] == kUntouched, "nothing is written behind the scores");
    }
  }

 private:
  size_t needed_ = 0, length_ = 0;
  std::unique_ptr<float[]> memory_;
};

struct Run {
  dpi_run_options options{};
  int32_t cancel = 0;
  uint64_t version = 0;
  std::vector<float> logits;

  Run(Input* in, size_t scores) {
    options.struct_size = odd_struct_size(in, sizeof options);
    if (in->one_in(16)) options.flags = 1;
    if (in->below(4) == 0) options.deadline_ns = in->below(2) == 0 ? 1 : UINT64_MAX;
    if (in->below(4) == 0) {
      cancel = static_cast<int32_t>(in->below(2));
      options.cancel = &cancel;
    }
    if (in->below(2) == 0) {
      logits.resize(in->one_in(8) ? scores / 2 : scores);
      options.logits = logits.data();
      options.logits_len = logits.size();
    }
    if (in->below(2) == 0) options.version = &version;
  }
  const dpi_run_options* get(Input* in) const { return in->below(2) == 0 ? nullptr : &options; }
};

void predict_flat(State& s, dpi_model* model) {
  const OddBatch batch(s.in, model);
  const dpi_batch& b = *batch.get();
  if (b.shared_offsets != nullptr) return;
  const dpi_model_info info = info_of(model);
  Scores scores(s.in, b.rows, info.num_heads);
  const auto rows = static_cast<size_t>(b.rows > 0 && b.rows < 1000 ? b.rows : 0);
  const size_t bags = rows * static_cast<size_t>(info.num_slots);
  size_t dense_len = b.dense == nullptr ? 0 : rows * static_cast<size_t>(info.dense_dim);
  size_t weights_len = b.weights == nullptr || b.nnz < 0 ? 0 : static_cast<size_t>(b.nnz);
  if (s.in->one_in(16)) dense_len /= 2, weights_len /= 2;
  SizedError error(s.in);
  const dpi_status status =
      dpi_predict_flat(model, b.rows, b.dense, dense_len, b.dense_stride, b.ids,
                       b.ids == nullptr || b.nnz < 0 ? 0 : static_cast<size_t>(b.nnz), b.offsets,
                       b.offsets == nullptr ? 0 : bags + 1, b.weights, weights_len, b.layout, scores.data(),
                       scores.size(), s.in->below(4) == 0 ? 1 : 0, nullptr, error.get());
  error.check(status);
  scores.check(status);
}

/// The same batch on two threads at once: both get the same, bit for bit.
void predict_twice(State& s, dpi_model* model) {
  const OddBatch batch(s.in, model);
  const int32_t heads = info_of(model).num_heads;
  Scores here(s.in, batch.rows(), heads);
  const auto there = std::make_unique<float[]>(here.size());
  std::fill_n(there.get(), here.size(), kUntouched);
  dpi_status second = DPI_E_INTERNAL;
  std::thread other(
      [&] { second = dpi_predict(model, batch.get(), there.get(), here.size(), nullptr, nullptr); });
  const dpi_status first = dpi_predict(model, batch.get(), here.data(), here.size(), nullptr, nullptr);
  other.join();
  here.check(first);
  expect(first == second, "a call's status does not depend on another thread's call");
  expect(first != DPI_OK || here.size() == 0 ||
             std::memcmp(here.data(), there.get(), here.size() * sizeof(float)) == 0,
         "nor do its scores");
}

void read_texts(State& s, const dpi_model* model) {
  using Call = size_t (*)(const dpi_model*, char*, size_t);
  constexpr Call kCalls[] = {dpi_model_schema_json, dpi_model_info_json, dpi_model_counters_json};
  const Call call = s.in->of(kCalls);
  const size_t cap = s.in->below(128);
  const auto text = std::make_unique<char[]>(cap);
  const size_t n = call(model, cap == 0 ? nullptr : text.get(), cap);
  expect((n == 0) == (model == nullptr), "a model has a text, a null handle has none");
  if (cap > 0 && n > 0) expect(strnlen(text.get(), cap) < cap, "a text that is cut ends with NUL");
}

template <class Info, class Call>
void read_info(State& s, Call call) {
  Info info{};
  info.struct_size = odd_struct_size(s.in, sizeof info);
  SizedError error(s.in);
  error.check(call(&info, error.get()));
}

}  // namespace

void call_model(State& s) {
  ModelSlot& slot = s.slot(s.models);
  dpi_model* model = slot.model;
  switch (s.in->below(8)) {
    case 0:
      if (model != nullptr && slot.references < 4) dpi_model_retain(model), ++slot.references;
      break;
    case 1:
      s.drop(&slot);
      break;
    case 2:
      read_info<dpi_model_info>(s, [&](auto* i, auto* e) { return dpi_model_get_info(model, i, e); });
      break;
    case 3: {
      const auto f = static_cast<int32_t>(s.in->integer());
      read_info<dpi_feature_info>(s, [&](auto* i, auto* e) { return dpi_model_get_feature(model, f, i, e); });
      const char* name = dpi_model_feature_name(model, f);
      if (name != nullptr)
        expect(dpi_model_feature_index(model, name) == f, "a feature is found by its name");
      (void)dpi_model_head_name(model, f);
      break;
    }
    case 4: {
      const std::string name = s.in->text(8);
      expect(dpi_model_feature_index(model, s.in->one_in(16) ? nullptr : name.c_str()) >= -1,
             "an index or -1");
      break;
    }
    case 5: {
      SizedError error(s.in);
      const int64_t rows = s.in->below(2) == 0 ? static_cast<int64_t>(s.in->below(20)) : -s.in->integer();
      error.check(dpi_model_warm_up(model, rows > 100 ? 100 : rows, error.get()));
      break;
    }
    default:
      read_texts(s, model);
  }
}

void call_predict(State& s) {
  dpi_model* model = s.model();
  if (model == nullptr) {
    SizedError error(s.in);
    const dpi_status status = dpi_predict(nullptr, nullptr, nullptr, 0, nullptr, error.get());
    error.check(status);
    expect(status == DPI_E_INVALID_ARGUMENT, "a null model is refused");
    return;
  }
  const size_t how = s.in->below(64);
  if (how < 12) return predict_flat(s, model);
  if (how == 12) return predict_twice(s, model);
  const OddBatch batch(s.in, model);
  Scores scores(s.in, batch.rows(), info_of(model).num_heads);
  const Run run(s.in, scores.size());
  SizedError error(s.in);
  const dpi_status status = dpi_predict(model, s.in->one_in(64) ? nullptr : batch.get(), scores.data(),
                                        scores.size(), run.get(s.in), error.get());
  error.check(status);
  scores.check(status);
}

namespace {

void make_context(State& s, size_t at) {
  dpi_model* model = s.model();
  dpi_context_free(s.contexts[at]);
  s.contexts[at] = nullptr;
  SizedError error(s.in);
  const int64_t rows = s.in->one_in(8) ? s.in->integer() % 4096 : static_cast<int64_t>(s.in->below(20));
  const int64_t nnz = s.in->below(2) == 0 ? 0 : static_cast<int64_t>(s.in->raw<uint16_t>());
  const dpi_status status = dpi_context_create(model, rows, nnz, &s.contexts[at], error.get());
  error.check(status);
  expect((status == DPI_OK) == (s.contexts[at] != nullptr), "a context comes with DPI_OK only");
  s.context_models[at] = status == DPI_OK ? model : nullptr;
}

/// Fills the view from end to end with what may be wrong, and scores some of it.
void predict_view(State& s, size_t at) {
  dpi_context* context = s.contexts[at];
  dpi_context_view view{};
  view.struct_size = odd_struct_size(s.in, sizeof view);
  SizedError error(s.in);
  const dpi_status got = dpi_context_get_view(context, &view, error.get());
  error.check(got);
  if (got != DPI_OK) return;
  const dpi_model_info info = info_of(s.context_models[at]);
  const int64_t rows =
      s.in->one_in(8) ? s.in->integer()
                      : static_cast<int64_t>(
                            s.in->below(static_cast<size_t>(view.max_rows < 200 ? view.max_rows + 1 : 200)));
  const int64_t sound = rows < 0 || rows > view.max_rows ? 0 : rows;
  const int64_t bags = sound * info.num_slots;
  for (int64_t i = 0; i < sound * info.dense_dim; ++i) view.dense[i] = s.in->number();
  for (int64_t i = 0; i < bags && i < view.max_nnz; ++i)
    view.ids[i] = static_cast<int64_t>(s.in->below(6)) - 1;
  for (int64_t b = 0; b <= bags; ++b) view.offsets[b] = b;
  if (s.in->one_in(8)) view.offsets[s.in->below(static_cast<size_t>(bags + 1))] = s.in->integer();
  if (s.in->one_in(8) && view.max_nnz > 0) view.weights[0] = s.in->number();
  const int64_t nnz = s.in->below(3) == 0 ? -1 : s.in->one_in(8) ? s.in->integer() : bags;
  error.check(
      dpi_context_predict(context, rows, nnz, static_cast<int32_t>(s.in->below(3)), nullptr, error.get()));
}

}  // namespace

void call_context(State& s) {
  const size_t at = s.in->below(State::kSlots);
  dpi_context* context = s.contexts[at];
  const size_t how = s.in->below(8);
  if (how == 0) return make_context(s, at);
  if (how == 1) {
    dpi_context_free(context);
    s.contexts[at] = nullptr;
    return;
  }
  SizedError error(s.in);
  if (context == nullptr) {
    error.check(dpi_context_predict(nullptr, 1, -1, 0, nullptr, error.get()));
    return make_context(s, at);
  }
  if (how < 5) return predict_view(s, at);
  dpi_model* model = s.context_models[at];
  const OddBatch batch(s.in, model);
  Scores scores(s.in, batch.rows(), info_of(model).num_heads);
  const Run run(s.in, scores.size());
  const dpi_status status = dpi_context_predict_batch(context, batch.get(), scores.data(), scores.size(),
                                                      run.get(s.in), error.get());
  error.check(status);
  scores.check(status);
}

}  // namespace dpi::fuzz
