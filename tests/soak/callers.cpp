#include "soak/callers.hpp"

#include <cstdio>
#include <cstdlib>

#include "support/built_bundle.hpp"
#include "support/paper_models.hpp"
#include "support/source_dir.hpp"

namespace dpi::soak {

namespace {

// From a row that is looked up alone to calls whose rows are shared out.
constexpr int64_t kRows[] = {1, 3, 16, 40, 129, 300};
constexpr const char* kDemo = "/weights/demo/msweb_deepfm.h5";

/// What is asked for is there, or the program ends.
template <class T>
T need(Result<T> made) {
  if (made.ok()) return std::move(made).value();
  std::fprintf(stderr, "soak_callers: %s\n", made.status().message().c_str());
  std::exit(2);
}

ModelOptions options_of(int32_t threads, const std::shared_ptr<Environment>& environment) {
  ModelOptions o;
  o.environment = environment;
  o.device = "cpu";
  o.threads = threads;
  o.max_rows = 256;
  o.max_contexts = 2;
  return o;
}

}  // namespace

ThreeModels::ThreeModels() {
  test::PaperShape shape;
  shape.vocab = 30;
  shape.hidden = {500, 330};
  built_.push_back(test::paper_model(test::PaperModel::kDeepFm, shape));
  shape.hidden = {64, 32};
  built_.push_back(test::paper_model(test::PaperModel::kDcnV2, shape));
  for (size_t m = 0; m < kCount; ++m) {
    const std::unique_ptr<Model> one = make(m, options_of(1, Environment::create()));
    requests_.emplace_back();
    for (const int64_t rows : kRows) {
      Request r{
          std::make_unique<test::RandomBatch>(one->engine().schema(), rows, 0, static_cast<unsigned>(rows)),
          {}};
      r.want = score(*one, r.rows->batch);
      requests_.back().push_back(std::move(r));
    }
  }
}

std::unique_ptr<Model> ThreeModels::make(size_t m, const ModelOptions& options) {
  if (m == 0) {
    const auto bundle = need(Bundle::open(test::source_dir() + kDemo));
    return need(Model::create(*bundle, options));
  }
  test::BuiltBundle bundle(built_[m - 1]);
  return need(Model::create(bundle, options));
}

std::unique_ptr<Model> ThreeModels::load(size_t m, const std::shared_ptr<Environment>& environment) {
  return make(m, options_of(2, environment));
}

std::vector<float> score(Model& model, const Batch& batch) {
  std::vector<float> out(static_cast<size_t>(batch.item.rows * model.engine().heads()), -1.0f);
  const Status s = model.predict(batch, out.data(), {});
  if (s.ok()) return out;
  std::fprintf(stderr, "soak_callers: %s\n", s.message().c_str());
  std::exit(1);
}

}  // namespace dpi::soak
