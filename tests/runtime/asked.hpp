// Requests of different sizes, and the scores of a model whose tables lie in one memory and are its own.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "runtime/shared_world.hpp"

namespace dpi::test {

struct Asked {
  std::vector<std::unique_ptr<RandomBatch>> requests;
  std::vector<Scores> want;
  int64_t ids = 0;  // of one field

  /// `f` makes models: f.model(options).
  template <class Fixture>
  Asked(Fixture& f, size_t n) {
    const ModelPtr plain = f.model({{"store.share", "off"}});
    for (size_t i = 0; i < n; ++i) {
      const int64_t rows = 1 + static_cast<int64_t>(i * 7 % 37);
      ids += rows;
      requests.push_back(
          std::make_unique<RandomBatch>(plain->engine().schema(), rows, 0, static_cast<unsigned>(i)));
      want.push_back(score(*plain, *requests.back()));
    }
  }
  void check(Model& m) const {
    for (size_t i = 0; i < requests.size(); ++i) {
      const Scores got = score(m, *requests[i]);
      CHECK_MESSAGE(got.status.ok(), got.status.message());
      CHECK(same_bits(got.out, want[i].out));
    }
  }
};

}  // namespace dpi::test
