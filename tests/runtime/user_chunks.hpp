// A model whose users have far larger values than their rows, and requests of few and of many users. For
// tests of the runtime.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

#include "runtime/model/model.hpp"
#include "support/built_bundle.hpp"

namespace dpi::test {

constexpr int64_t kHistory = 64, kWidth = 8, kVocab = 11;

/// Three layers over a history of the user and one candidate.
inline ModelBuilder history_model() {
  ModelBuilder b("history");
  const std::string history = b.sequence("history", kVocab, kHistory, RowSpace::kShared);
  const std::string item = b.embed(b.categorical("item", kVocab), kVocab, kWidth);
  const std::string places = b.embed(history, kVocab, kWidth, {{"pooling", "none"}});
  std::string x = b.concat({places, b.reshape(item, {1, kWidth})}, 0);
  const std::string one = b.constant_of({1}, std::vector<float>(1, 1));
  const std::string mask = b.concat({b.op("Mask", {history}, {{"rule", "length"}}), one}, 0);
  const auto slice = [&](const std::string& v, int64_t axis, int64_t begin, int64_t end) {
    return b.op("View", {v}, {{"kind", "slice"}, {"axis", axis}, {"begin", begin}, {"end", end}});
  };
  for (int64_t l = 0; l < 3; ++l) {
    const std::string all = b.unary("silu", b.linear(x, kWidth, 4 * kWidth));
    const auto part = [&](int64_t k) { return slice(all, 1, k * kWidth, (k + 1) * kWidth); };
    const std::string y = b.op("Attention", {part(0), part(1), part(2), mask},
                               {{"heads", int64_t{2}},
                                {"scale", 0.4},
                                {"form", "silu"},
                                {"divisor", 8.0},
                                {"causal", true},
                                {"mask", "keys"}});
    x = b.binary("add", x, b.linear(b.binary("mul", part(3), y), kWidth, kWidth));
  }
  const std::string last = b.reshape(slice(x, 0, kHistory, kHistory + 1), {kWidth});
  const std::string logit = b.linear(last, kWidth, 1);
  b.head("ctr", b.unary("sigmoid", logit), logit);
  return b;
}

/// Users with so many rows each. Every history is longer than the model reads.
struct UserRequest {
  std::vector<int64_t> bags, bag_offsets{0}, user_offsets{0}, items, flat, flat_offsets{0};
  int64_t with_rows = 0;
  Batch batch, each_its_own;

  explicit UserRequest(const std::vector<int64_t>& counts) {
    std::mt19937 random(3);
    const auto id = [&] { return static_cast<int64_t>(random() % kVocab); };
    for (const int64_t n : counts) {
      const auto from = static_cast<int64_t>(bags.size());
      for (int64_t i = 0; i < kHistory + 2; ++i) bags.push_back(id());
      bag_offsets.push_back(static_cast<int64_t>(bags.size()));
      user_offsets.push_back(user_offsets.back() + n);
      with_rows += n > 0 ? 1 : 0;
      for (int64_t r = 0; r < n; ++r) {
        items.push_back(id());
        flat.insert(flat.end(), bags.begin() + from, bags.end());
        flat_offsets.push_back(static_cast<int64_t>(flat.size()));
        flat.push_back(items.back());
        flat_offsets.push_back(static_cast<int64_t>(flat.size()));
      }
    }
    const auto n = static_cast<int64_t>(items.size());
    batch.item = {n, nullptr, 0, items.data(), nullptr, nullptr, n};
    batch.shared = {static_cast<int64_t>(counts.size()), nullptr, 0, bags.data(), bag_offsets.data(), nullptr,
                    static_cast<int64_t>(bags.size())};
    batch.shared_offsets = user_offsets.data();
    each_its_own.item = {
        n, nullptr, 0, flat.data(), flat_offsets.data(), nullptr, static_cast<int64_t>(flat.size())};
  }
  UserRequest(const UserRequest&) = delete;
  UserRequest& operator=(const UserRequest&) = delete;
};

/// On a device, with so many bytes for the values of a chunk.
inline std::unique_ptr<Model> load_within(ModelBuilder& b, const std::string& on, uint64_t bytes,
                                          uint64_t user_cache_bytes = 0) {
  ModelOptions options;
  options.device = on;
  options.max_contexts = 1;
  options.scratch_bytes = bytes;
  options.user_cache_bytes = user_cache_bytes;
  BuiltBundle bundle(b);
  auto model = Model::create(bundle, options);
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  return std::move(model).value();
}

inline std::vector<float> logits_of(Model& model, const Batch& batch) {
  const auto n = static_cast<size_t>(batch.item.rows);
  std::vector<float> out(n, -99.0f), logits(n, -99.0f);
  RunControl control;
  control.logits = logits.data();
  const Status s = model.predict(batch, out.data(), control);
  REQUIRE_MESSAGE(s.ok(), s.message());
  return logits;
}

}  // namespace dpi::test
