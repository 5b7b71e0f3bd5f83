// Blocks of one data set, read by one thread and by several: the same bytes in the same order, on the
// caller's thread, and the same status whatever fails where.
#include "bundle/extent_reader.hpp"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/thread_pool.hpp"

namespace dpi::test::extent_reader_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint64_t kOffset = 333;  // of the data in its file

Bytes random_bytes(size_t n) {
  std::mt19937_64 rng(n);
  Bytes out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(rng());
  return out;
}

/// Lets other threads go first now and then, so that blocks are read in another order than they begin in.
class UnevenSource final : public ByteSource {
 public:
  explicit UnevenSource(const Bytes& data) : data_(data) { size_ = kOffset + data.size(); }
  uint64_t fails_from = UINT64_MAX;  // of the data

  Status read(uint64_t offset, void* dst, size_t n) override {
    for (uint64_t i = calls_.fetch_add(1) * 7919 % 5; i > 0; --i) std::this_thread::yield();
    if (offset < kOffset || offset + n > size_) return {Code::kInternal, "a read outside the extent"};
    const uint64_t at = offset - kOffset;
    if (at + n > fails_from)
      return {Code::kIo, "the file ends at byte " + std::to_string(std::max(at, fails_from))};
    std::copy_n(data_.begin() + static_cast<ptrdiff_t>(at), n, static_cast<std::byte*>(dst));
    return {};
  }

 private:
  const Bytes& data_;
  std::atomic<uint64_t> calls_{0};
};

DataSetInfo info_of(const Bytes& data) {
  DataSetInfo info;
  info.path = "/tables/x";
  info.extent = {kOffset, data.size(), XXH3_64bits(data.data(), data.size()), {}};
  if (!have_content_hash()) return info;
  auto hash = TreeHash::create(TreeHash::kData);
  REQUIRE(hash.ok());
  hash->add(data);
  info.extent.hash = hash->finish();
  return info;
}

struct Threads {
  ThreadPool pool;
  Threads() { REQUIRE(pool.grow(8).ok()); }
  ExtentCheck check(int32_t threads, bool hashes) { return {hashes, {&pool, threads}}; }
};

constexpr int32_t kThreads[] = {1, 2, 3, 8, 100};

/// What was handed out, and whether it came in order on this thread.
struct Taken {
  Bytes bytes;
  size_t blocks = 0;
  bool sound = true;
  std::thread::id thread = std::this_thread::get_id();

  Status take(uint64_t at, std::span<const std::byte> block) {
    sound = sound && at == bytes.size() && !block.empty() && std::this_thread::get_id() == thread;
    bytes.insert(bytes.end(), block.begin(), block.end());
    ++blocks;
    return {};
  }
};

TEST_CASE("blocks come in order on the caller's thread, by any number of threads") {
  Threads threads;
  for (const size_t n : {size_t{1}, size_t{999}, size_t{70001}, (size_t{2} << 20) + 77}) {
    const Bytes data = random_bytes(n);
    const DataSetInfo info = info_of(data);
    for (const size_t block : {n / 61 + 1, n / 3 + 1, n, n + 5}) {
      for (const int32_t t : kThreads) {
        for (const bool hashes : {false, have_content_hash()}) {
          for (const size_t room : {size_t{0}, n - 1, n, n + 9}) {
            CAPTURE(n);
            CAPTURE(block);
            CAPTURE(t);
            UnevenSource source(data);
            Bytes into(room);
            Taken taken;
            bool there = true;  // where it was asked for
            const Status s = read_extent(source, "f", info, threads.check(t, hashes), {block, into},
                                         [&](uint64_t at, std::span<const std::byte> b) {
                                           there = there && (room < n || b.data() == into.data() + at);
                                           return taken.take(at, b);
                                         });
            REQUIRE_MESSAGE(s.ok(), s.message());
            CHECK(taken.sound);
            CHECK(there);
            CHECK(taken.blocks == (n + block - 1) / block);
            CHECK(taken.bytes == data);
            if (room >= n) CHECK(std::equal(data.begin(), data.end(), into.begin()));
          }
        }
      }
    }
  }
}

TEST_CASE("damage has one status, whoever finds it") {
  Threads threads;
  const Bytes data = random_bytes(size_t{3} << 20);
  const DataSetInfo sound = info_of(data);
  const auto status_of = [&](const DataSetInfo& info, int32_t t, bool hashes) {
    UnevenSource source(data);
    return read_extent(source, "f", info, threads.check(t, hashes), {100'000, {}},
                       [](uint64_t, std::span<const std::byte>) { return Status(); });
  };
  DataSetInfo damaged = sound, forged = sound;
  damaged.extent.digest ^= 1;
  forged.extent.hash[31] ^= std::byte{1};
  const std::string text = status_of(damaged, 1, false).message();
  CHECK(text.find("f:/tables/x: its data is damaged") == 0);
  for (const int32_t t : kThreads) {
    CHECK(status_of(damaged, t, false).code() == Code::kBadModel);
    CHECK(status_of(damaged, t, false).message() == text);
    if (!have_content_hash()) continue;
    CHECK(status_of(sound, t, true).ok());
    CHECK(status_of(forged, t, true).message().find("its data does not match its hash") != std::string::npos);
  }
}

TEST_CASE("a read that fails shows after the blocks before it") {
  Threads threads;
  const Bytes data = random_bytes(100'000);
  const DataSetInfo info = info_of(data);
  for (const uint64_t from : {0, 999, 1000, 50'500, 99'999}) {
    for (const int32_t t : kThreads) {
      CAPTURE(from);
      CAPTURE(t);
      UnevenSource source(data);
      source.fails_from = from;
      Taken taken;
      const Status s =
          read_extent(source, "f", info, threads.check(t, false), {1000, {}},
                      [&](uint64_t at, std::span<const std::byte> b) { return taken.take(at, b); });
      CHECK(s.code() == Code::kIo);
      CHECK(s.message() == "f:/tables/x: the file ends at byte " + std::to_string(from));
      CHECK(taken.sound);
      CHECK(taken.blocks == from / 1000);
    }
  }
}

TEST_CASE("a caller that says no, or throws, hears no more") {
  Threads threads;
  const Bytes data = random_bytes(100'000);
  const DataSetInfo info = info_of(data);
  for (const int32_t t : kThreads) {
    CAPTURE(t);
    UnevenSource source(data);
    source.fails_from = 45'000;  // behind what the caller refuses
    int64_t blocks = 0;
    const Status s = read_extent(source, "f", info, threads.check(t, false), {1000, {}},
                                 [&](uint64_t, std::span<const std::byte>) -> Status {
                                   if (++blocks == 44) return {Code::kCancelled, "enough"};
                                   return {};
                                 });
    CHECK(s.code() == Code::kCancelled);
    CHECK(s.message() == "enough");
    CHECK(blocks == 44);
    blocks = 0;
    CHECK_THROWS_AS((void)read_extent(source, "f", info, threads.check(t, false), {1000, {}},
                                      [&](uint64_t, std::span<const std::byte>) -> Status {
                                        if (++blocks == 3) throw std::runtime_error("no");
                                        return {};
                                      }),
                    std::runtime_error);
    CHECK(blocks == 3);
  }
}

}  // namespace
}  // namespace dpi::test::extent_reader_test
