// Models of several heads, some with a logit and some without: no file of the tree is one. The oracle is the
// reference backend in one chunk.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/model/model.hpp"
#include "support/built_bundle.hpp"
#include "support/device.hpp"
#include "support/random_batch.hpp"

namespace dpi::test::heads_test {
namespace {

constexpr int64_t kRows = 37;
constexpr size_t kHeads = 3;

/// Three towers over one input; the first head names no logit.
struct Towers {
  ModelBuilder b{"towers"};
  Towers() {
    std::vector<std::string> vectors;
    for (int i = 0; i < 3; ++i) vectors.push_back(b.embed(b.categorical("c" + std::to_string(i), 50), 50, 8));
    const std::string x = b.concat(vectors);
    for (size_t h = 0; h < kHeads; ++h) {
      std::string y = x;
      for (int l = 0; l < 3; ++l) y = b.unary("relu", b.linear(y, l == 0 ? 24 : 40, 40));
      const std::string logit = b.linear(y, 40, 1);
      b.head("h" + std::to_string(h), b.unary("sigmoid", logit), h == 0 ? "" : logit);
    }
  }
};

struct Scores {
  std::vector<float> value = std::vector<float>(kRows * kHeads, -99.0f), logit = value;
};

/// Three calls: alone, captured and replayed where there are graphs.
Scores score(Towers& towers, ModelOptions options) {
  BuiltBundle bundle(towers.b);
  options.max_contexts = 1;
  auto model = Model::create(bundle, options);
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  Scores scores;
  for (unsigned call = 0; call < 3; ++call) {
    const RandomBatch request(model.value()->engine().schema(), kRows, 0, call + 1);
    RunControl control;
    scores = {};
    control.logits = scores.logit.data();
    const Status s = model.value()->predict(request.batch, scores.value.data(), control);
    REQUIRE_MESSAGE(s.ok(), s.message());
  }
  return scores;
}

TEST_CASE("values and logits of several heads, in chunks and on several streams") {
  Towers towers;
  ModelOptions options;
  options.device = "ref";
  options.max_rows = 64;
  const Scores want = score(towers, options);
  options.device = device();
  for (const bool fold : {true, false}) {  // without folds every branch has a stream of its own
    for (const int64_t max_rows : {5, 16, 64}) {
      CAPTURE(fold);
      CAPTURE(max_rows);
      options.fold = fold;
      options.max_rows = max_rows;
      const Scores got = score(towers, options);
      int64_t wrong = 0;
      for (size_t i = 0; i < want.value.size(); ++i) {
        wrong += std::fabs(got.value[i] - want.value[i]) <= 1e-5f ? 0 : 1;
        if (i % kHeads == 0) {
          wrong += std::isnan(got.logit[i]) ? 0 : 1;
        } else {
          wrong += std::fabs(got.logit[i] - want.logit[i]) <= 1e-5f ? 0 : 1;
          const double p = 1 / (1 + std::exp(-static_cast<double>(got.logit[i])));
          wrong += std::fabs(p - static_cast<double>(got.value[i])) <= 1e-6 ? 0 : 1;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("without folds the towers end on streams of their own") {
  if (device() != "cuda_emu") return;
  Towers towers;
  BuiltBundle bundle(towers.b);
  ModelOptions options;
  options.device = device();
  options.fold = false;
  const auto engine = Engine::create(bundle, options);
  REQUIRE_MESSAGE(engine.ok(), engine.status().message());
  CHECK(engine.value()->plan().n_streams == kHeads);
  CHECK(engine.value()->plan().end_waits.size() == kHeads - 1);
}

}  // namespace
}  // namespace dpi::test::heads_test
