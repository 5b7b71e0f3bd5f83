// Chunks of models whose users have far larger values than their rows: within bytes a chunk takes as many
// rows as fit beside its users, and a user is computed once. How often it was says the counter of cut
// histories: one for each time its row is read.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "backend/abi/batch_bucket.hpp"
#include "runtime/engine/flight_sizes.hpp"
#include "runtime/user_chunks.hpp"
#include "support/device.hpp"

namespace dpi::test::user_chunks_test {
namespace {

constexpr uint64_t kBytes = 200'000;

const std::vector<std::vector<int64_t>>& drawn_counts() {
  static const std::vector<std::vector<int64_t>> counts = {
      {100}, std::vector<int64_t>(60, 3), {1, 0, 90, 2, 2, 2, 70, 0, 5}, std::vector<int64_t>(40, 1)};
  return counts;
}

uint64_t histories_read(const Model& model) { return model.counts().by_feature[0].cut; }

int64_t wrong(const std::vector<float>& got, const std::vector<float>& want, double bound) {
  int64_t n = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = got[i], w = want[i];
    n += std::isfinite(w) && std::fabs(g - w) <= bound * std::max(1.0, std::fabs(w)) ? 0 : 1;
  }
  return n;
}

}  // namespace

TEST_CASE("user chunks: values of every form have room, and lie apart") {
  ModelBuilder b = history_model();
  Graph graph = b.graph();
  const Result<Plan> made = make_plan(graph, {});
  REQUIRE(made.ok());
  const Plan& plan = made.value();
  for (const bool buckets : {false, true}) {
    for (const int64_t bytes : {1, 30'000, 200'000, 1'000'000, 1 << 30}) {
      CAPTURE(buckets);
      CAPTURE(bytes);
      const Result<ChunkForms> forms = ChunkForms::make(plan, {1000, bytes, 64, buckets});
      REQUIRE(forms.ok());
      int64_t rows = 0, users = 1001;
      for (const ChunkForm& f : forms.value().all()) {
        CHECK(f.rows > rows);
        CHECK(f.users < users);
        CHECK(f.users <= f.rows);
        CHECK((f.memory.arena_bytes <= bytes || (f.rows == 1 && f.users == 1)));
        const Status sound = check_plan(plan, f.memory, f.rows, f.users);
        CHECK_MESSAGE(sound.ok(), sound.message());
        CHECK(&forms.value().memory_for(f.rows, f.users) == &f.memory);
        if (buckets) CHECK(bucket_of(f.rows, 1000) == f.rows);
        if (buckets) CHECK(bucket_of(f.users, 1000) == f.users);
        rows = f.rows;
        users = f.users;
      }
      if (bytes == 200'000) CHECK(rows > 4 * forms.value().users());
      if (bytes == 1 << 30) CHECK(forms.value().all().size() == 1);
    }
  }
}

TEST_CASE(
    "user chunks: a user's positions are computed once, and scores are those of rows with users of their "
    "own") {
  ModelBuilder b = history_model();
  const auto oracle = load_within(b, "ref", 1 << 30), wide = load_within(b, device(), 1 << 30);
  const auto tight = load_within(b, device(), kBytes);
  const bool host = tight->engine().host_memory();
  for (const std::vector<int64_t>& counts : drawn_counts()) {
    const UserRequest request(counts);
    CAPTURE(request.batch.item.rows);
    const std::vector<float> want = logits_of(*oracle, request.each_its_own);
    for (int call = 0; call < 3; ++call) {  // op by op, captured and replayed where there are graphs
      const uint64_t before = histories_read(*tight);
      const std::vector<float> got = logits_of(*tight, request.batch);
      CHECK(histories_read(*tight) - before == static_cast<uint64_t>(request.with_rows));
      CHECK(wrong(got, want, 2e-5) == 0);
      if (host) CHECK(got == logits_of(*wide, request.batch));
    }
    if (!host && request.with_rows < request.batch.item.rows) continue;  // it is slow
    CHECK(wrong(logits_of(*tight, request.each_its_own), want, 2e-5) == 0);
  }
}

TEST_CASE("user chunks: a user with more rows than fit is computed again for each chunk") {
  ModelBuilder b = history_model();
  const auto oracle = load_within(b, "ref", 1 << 30), tight = load_within(b, device(), kBytes);
  if (!tight->engine().host_memory()) return;  // so many rows are slow there
  const UserRequest request({600, 7, 600});
  const std::vector<float> want = logits_of(*oracle, request.batch);
  CHECK(wrong(logits_of(*tight, request.batch), want, 2e-5) == 0);
  CHECK(histories_read(*tight) > 3);
}

}  // namespace dpi::test::user_chunks_test
