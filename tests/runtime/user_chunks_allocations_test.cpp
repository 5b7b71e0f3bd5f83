// Calls that take chunks of several forms allocate nothing: a chunk's form is chosen, and its values bound,
// in memory that is there.
#include "runtime/user_chunks.hpp"
#include "support/count_allocations.hpp"
#include "support/device.hpp"

namespace dpi::test::user_chunks_allocations_test {

TEST_CASE("chunks of few and of many users allocate nothing") {
  ModelBuilder b = history_model();
  const auto model = load_within(b, device(), 200'000);
  const UserRequest few({300, 7, 300}), many(std::vector<int64_t>(60, 3));
  std::vector<float> out(few.items.size());
  REQUIRE(model->predict(many.batch, out.data(), {}).ok());
  for (const Batch* batch : {&few.batch, &many.batch, &many.each_its_own, &few.batch}) {
    Status s;
    CHECK(allocations_during([&] { s = model->predict(*batch, out.data(), {}); }) == 0);
    CHECK_MESSAGE(s.ok(), s.message());
  }
}

TEST_CASE("calls with users that are new, known and evicted allocate nothing") {
  ModelBuilder b = history_model();
  const auto model = load_within(b, device(), 200'000, 400'000);
  const UserRequest one({5}), two({3, 4}), many(std::vector<int64_t>(60, 3));
  std::vector<float> out(many.items.size());
  REQUIRE(model->predict(many.each_its_own, out.data(), {}).ok());  // makes the context
  for (const Batch* batch :
       {&one.batch, &one.batch, &two.batch, &many.batch, &one.batch, &many.each_its_own}) {
    Status s;
    CHECK(allocations_during([&] { s = model->predict(*batch, out.data(), {}); }) == 0);
    CHECK_MESSAGE(s.ok(), s.message());
  }
  CHECK(model->counts().users.hits > 0);
  CHECK(model->counts().users.misses > model->engine().user_cache()->sizes().entries);
}

}  // namespace dpi::test::user_chunks_allocations_test
