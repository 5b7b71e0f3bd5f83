// Option threads: the same bits, counts and faults as one thread, whole rows and users with items, several
// callers.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "runtime/model/model.hpp"
#include "support/device.hpp"
#include "support/random_batch.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::threads_test {
namespace {

struct Threaded {
  std::unique_ptr<Bundle> bundle;
  std::unique_ptr<Model> model;

  Threaded(const char* file, int32_t threads, int64_t max_rows = 4096, int32_t spin_us = 0) {
    auto opened = Bundle::open(source_dir() + "/" + file);
    REQUIRE(opened.ok());
    bundle = std::move(opened).value();
    ModelOptions options;
    options.environment = Environment::create();
    options.environment->pool().set_processors(64);  // more threads than this machine may have processors for
    options.device = device();
    options.threads = threads;
    options.spin_us = spin_us;
    options.max_rows = max_rows;
    options.max_contexts = 4;
    options.refuse_nonfinite = false;
    auto made = Model::create(*bundle, options);
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    model = std::move(made).value();
  }
};

struct Answer {
  Status status;
  std::vector<float> scores, logits;

  Answer(Model& model, const Batch& batch, uint64_t deadline_ns = 0)
      : scores(static_cast<size_t>(batch.item.rows * model.engine().heads()), -1.0f), logits(scores) {
    RunControl control;
    control.logits = logits.data();
    control.deadline_ns = deadline_ns;
    status = model.predict(batch, scores.data(), control);
  }
  bool operator==(const Answer& o) const {
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
    };
    return status.ok() && o.status.ok() && same(scores, o.scores) && same(logits, o.logits);
  }
};

const char* const kModels[] = {"weights/demo/adult_widedeep.h5", "weights/demo/bank_dcnv2.h5",
                               "weights/demo/msweb_deepfm.h5", "weights/demo/msweb_can.h5"};

TEST_CASE("any number of threads gives the bits of one") {
  for (const char* file : kModels) {
    CAPTURE(file);
    const Threaded one(file, 1);
    const int64_t share = one.model->engine().work_rows(false).min_share;
    for (const int32_t threads : {2, 3, 8}) {
      CAPTURE(threads);
      const Threaded many(file, threads), chunked(file, threads, 40), awake(file, threads, 4096, 300);
      CHECK(awake.model->engine().work_rows(true).min_share < share);
      for (const int64_t rows : {int64_t{1}, 2 * share - 1, 2 * share, 3 * share + 5, 9 * share + 3}) {
        CAPTURE(rows);
        const RandomBatch request(one.model->engine().schema(), rows, 0, 3);
        const Answer want(*one.model, request.batch);
        REQUIRE(want.status.ok());
        CHECK(Answer(*many.model, request.batch) == want);
        CHECK(Answer(*chunked.model, request.batch) == want);
        CHECK(Answer(*awake.model, request.batch) == want);
      }
    }
  }
}

TEST_CASE("users whose items are cut by a share") {
  for (const char* file : {"tests/e2e/op_bundles/row_spaces.h5", kModels[0]}) {
    CAPTURE(file);
    const Threaded one(file, 1), three(file, 3);
    const int64_t rows = 7 * one.model->engine().work_rows(false).min_share + 1;
    for (const int64_t users : {int64_t{1}, int64_t{5}, rows}) {
      CAPTURE(users);
      const RandomBatch request(one.model->engine().schema(), rows, users, 3);
      CHECK(Answer(*three.model, request.batch) == Answer(*one.model, request.batch));
    }
  }
}

TEST_CASE("of several faults the first row's is told, whatever thread meets it") {
  const Threaded one(kModels[0], 1), four(kModels[0], 4);
  const auto& schema = one.model->engine().schema();
  const int64_t rows = 8 * one.model->engine().work_rows(false).min_share;
  RandomBatch request(schema, rows, 0, 3);
  const int64_t columns = schema.columns.n_columns;
  std::vector<float> dense(request.batch.item.dense, request.batch.item.dense + rows * columns);
  request.batch.item.dense = dense.data();
  for (const int64_t bad :
       {rows - 1, rows / 2 + 1, rows / 3, int64_t{2}}) {  // one more each time, further in front
    dense[static_cast<size_t>(bad * columns)] = INFINITY;
    for (int i = 0; i < 5; ++i) {
      const Answer want(*one.model, request.batch), got(*four.model, request.batch);
      CHECK(got.status.code() == want.status.code());
      CHECK(got.status.message() == want.status.message());
      CHECK(got.status.message().find("row " + std::to_string(bad) + ",") != std::string::npos);
    }
  }
}

/// Rows of which a value or a logit has been written.
std::vector<bool> written(const Answer& a, int64_t heads) {
  std::vector<bool> rows(a.scores.size() / static_cast<size_t>(heads));
  for (size_t i = 0; i < a.scores.size(); ++i) {
    if (!(a.scores[i] == -1.0f && a.logits[i] == -1.0f)) rows[i / static_cast<size_t>(heads)] = true;
  }
  return rows;
}

TEST_CASE("a call that fails has written nothing behind a row that it has not written") {
  for (const auto& [threads, max_rows] :
       {std::pair<int32_t, int64_t>{2, 4096}, {4, 4096}, {4, 64}, {3, 16}}) {
    CAPTURE(threads);
    CAPTURE(max_rows);
    const Threaded one(kModels[0], 1), many(kModels[0], threads, max_rows, 300);
    const auto& schema = one.model->engine().schema();
    const int64_t heads = one.model->engine().heads(), columns = schema.columns.n_columns;
    const int64_t rows = 40 * one.model->engine().work_rows(false).min_share + 3;
    RandomBatch request(schema, rows, 0, 3);
    CHECK(Answer(*many.model, request.batch) == Answer(*one.model, request.batch));
    const std::vector<float> good(request.batch.item.dense, request.batch.item.dense + rows * columns);
    for (const int64_t bad : {int64_t{0}, int64_t{1}, rows / 3, rows / 2 + 1, rows - 1}) {
      CAPTURE(bad);
      std::vector<float> dense = good;
      request.batch.item.dense = dense.data();
      dense[static_cast<size_t>(bad * columns)] = INFINITY;
      for (int i = 0; i < 20; ++i) {
        const Answer got(*many.model, request.batch);
        CHECK(got.status.code() == Code::kInvalidArgument);
        const std::vector<bool> at = written(got, heads);
        CHECK(std::find(at.begin() + bad, at.end(), true) == at.end());
        CHECK(std::is_partitioned(at.begin(), at.end(), [](bool w) { return w; }));
      }
    }
    request.batch.item.dense = good.data();
    for (int64_t ns = 1; ns < 40'000'000; ns += 1 + ns / 3) {
      const Answer got(*many.model, request.batch, monotonic_ns() + static_cast<uint64_t>(ns));
      CHECK((got.status.ok() || got.status.code() == Code::kTimeout));
      const std::vector<bool> at = written(got, heads);
      CHECK(std::is_partitioned(at.begin(), at.end(), [](bool w) { return w; }));
    }
  }
}

TEST_CASE("what calls counted is the sum over their threads") {
  const Threaded one(kModels[0], 1), four(kModels[0], 4);
  const auto& schema = one.model->engine().schema();
  const int64_t rows = 8 * one.model->engine().work_rows(false).min_share;
  RandomBatch request(schema, rows, 0, 3);
  const std::vector<int64_t> unknown(static_cast<size_t>(request.batch.item.nnz), int64_t{1} << 40);
  request.batch.item.ids = unknown.data();
  std::vector<float> dense(request.batch.item.dense,
                           request.batch.item.dense + rows * schema.columns.n_columns);
  request.batch.item.dense = dense.data();
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    if (fails) dense[static_cast<size_t>((rows / 2 + 3) * schema.columns.n_columns)] = INFINITY;
    for (const Threaded* m : {&one, &four}) CHECK(Answer(*m->model, request.batch).status.ok() != fails);
    if (fails) continue;
    CHECK(four.model->counters_json() == one.model->counters_json());
    CHECK(one.model->counters_json().find("\"out_of_range\":" + std::to_string(rows)) != std::string::npos);
  }
  CHECK(four.model->counters_json().find("\"errors\":{\"1\":1}") != std::string::npos);
}

TEST_CASE("callers side by side share the threads") {
  const Threaded one(kModels[1], 1), three(kModels[1], 3), awake(kModels[1], 3, 4096, 300);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (unsigned c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      const int64_t rows = static_cast<int64_t>(c + 2) * one.model->engine().work_rows(false).min_share + c;
      const RandomBatch request(one.model->engine().schema(), rows, 0, c);
      const Answer want(*one.model, request.batch);
      for (int i = 0; i < 20; ++i) {
        if (!(Answer(*three.model, request.batch) == want)) ++wrong;
        if (!(Answer(*awake.model, request.batch) == want)) ++wrong;
      }
    });
  }
  for (auto& c : callers) c.join();
  CHECK(wrong == 0);
}

TEST_CASE("a deadline that has passed and a flag to cancel end the call in every share") {
  const Threaded four(kModels[0], 4, 64);
  const RandomBatch request(four.model->engine().schema(),
                            20 * four.model->engine().work_rows(false).min_share, 0, 3);
  std::vector<float> out(static_cast<size_t>(request.batch.item.rows * four.model->engine().heads()));
  RunControl control;
  control.deadline_ns = 1;
  CHECK(four.model->predict(request.batch, out.data(), control).code() == Code::kTimeout);
  control.deadline_ns = 0;
  const int32_t cancel = 1;
  control.cancel = &cancel;
  CHECK(four.model->predict(request.batch, out.data(), control).code() == Code::kCancelled);
  control.cancel = nullptr;
  CHECK(four.model->predict(request.batch, out.data(), control).ok());
}

}  // namespace
}  // namespace dpi::test::threads_test
