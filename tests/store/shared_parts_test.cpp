// The list of parts that models hold together: who makes, who waits, who is not waited for.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/shared_parts.hpp"

namespace dpi::test::shared_parts_test {
namespace {

using Claim = SharedParts::Claim;

/// Fails where it would have to wait.
Claim claim(SharedParts& parts, const std::vector<std::string>& keys) {
  auto c = parts.claim(keys, [] { return Status(Code::kCancelled, "waits"); });
  REQUIRE(c.ok());
  return std::move(c).value();
}

std::shared_ptr<void> part(int n) { return std::make_shared<int>(n); }

TEST_CASE("a part is there while somebody holds it") {
  SharedParts parts;
  std::shared_ptr<void> made = part(1);
  {
    Claim first = claim(parts, {"a", "b"});
    CHECK(first.part(0) == nullptr);
    first.publish(0, made);
  }
  CHECK(made.use_count() == 1);
  CHECK(claim(parts, {"b", "a"}).part(1) == made);
  claim(parts, {"b"}).publish(0, made);  // was not published, and is anybody's again
  CHECK(claim(parts, {"b"}).part(0) == made);
  made.reset();
  CHECK(claim(parts, {"a"}).part(0) == nullptr);
}

TEST_CASE("who was given a part that is something else may put another in its place") {
  SharedParts parts;
  const std::shared_ptr<void> wrong = part(1), right = part(2), late = part(3);
  claim(parts, {"a"}).publish(0, wrong);
  Claim deceived = claim(parts, {"a"});
  CHECK(deceived.part(0) == wrong);
  deceived.publish(0, right);
  CHECK(claim(parts, {"a"}).part(0) == right);
}

TEST_CASE("nobody waits for his own thread, nor replaces what others make") {
  SharedParts parts;
  Claim outer = claim(parts, {"a", "a"});  // one name twice
  CHECK(outer.part(1) == nullptr);
  const std::shared_ptr<void> inner_part = part(1), outer_part = part(2);
  {
    Claim inner = claim(parts, {"a"});
    CHECK(inner.part(0) == nullptr);
    inner.publish(0, inner_part);
  }
  outer.publish(0, outer_part);
  CHECK(claim(parts, {"a"}).part(0) == outer_part);
}

TEST_CASE("a load of which nothing is heard is waited for no longer than patience") {
  SharedParts parts;
  Claim silent = claim(parts, {"a"});
  bool got = false;
  std::thread([&] {
    const auto own = parts.claim({"a", "b"}, [] { return Status(); }, 1'000'000);
    got = own.ok() && own.value().part(0) == nullptr;
  }).join();
  CHECK(got);
  const std::shared_ptr<void> made = part(1);
  silent.publish(0, made);  // it was slow, not dead
  CHECK(claim(parts, {"a"}).part(0) == made);
}

TEST_CASE("a load that waits holds nothing, so two cannot wait for each other") {
  SharedParts parts;
  std::atomic<bool> waits{false};
  const std::shared_ptr<void> made = part(1), other = part(2);
  auto holds_a = std::make_unique<Claim>(claim(parts, {"a"}));
  std::shared_ptr<void> found;
  std::thread waiter([&] {
    auto c = parts.claim({"b", "a"}, [&] {
      waits = true;
      return Status();
    });
    found = c.value().part(1);
  });
  for (int ms = 0; ms < 5000 && !waits; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Claim b = claim(parts, {"b"});  // would wait for the waiter if that held it; its own thread is another
  b.publish(0, other);
  holds_a->publish(0, made);
  waiter.join();
  CHECK(found == made);
}

TEST_CASE("waiting ends with what go_on says") {
  SharedParts parts;
  const Claim held = claim(parts, {"a"});
  Code code = Code::kOk;
  std::thread([&] {
    code = parts.claim({"a"}, [] { return Status(Code::kCancelled, "enough"); }).status().code();
  }).join();
  CHECK(code == Code::kCancelled);
}

TEST_CASE("a forked child's list is empty") {
  SharedParts parts;
  const std::shared_ptr<void> made = part(1);
  claim(parts, {"a"}).publish(0, made);
  parts.before_fork();
  parts.after_fork(false);
  CHECK(claim(parts, {"a"}).part(0) == made);
  parts.before_fork();
  parts.after_fork(true);
  CHECK(claim(parts, {"a"}).part(0) == nullptr);
}

}  // namespace
}  // namespace dpi::test::shared_parts_test
