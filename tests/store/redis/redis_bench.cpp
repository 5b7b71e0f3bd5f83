// Fetches through the plugin beside bare hiredis pipelining of the same HMGETs, turn by turn in one run.
//
//   build/release/bin/bench/redis_bench
//
// Bare: the keys are grouped by partition and the arguments laid out beforehand, replies are copied to their
// rows; nothing is checked, retried or limited in time. 10th percentile and median of 200 fetches in us: the
// first is what is told of a machine that does other work too.
#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "base/clock.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/redis/slots.hpp"
#include "store/redis/table.hpp"

using namespace dpi;
using namespace dpi::test;

namespace {

constexpr int kSets = 16, kTurns = 200;

// The HMGETs of one set of keys, each for its server.
struct BareCommands {
  struct One {
    size_t server;
    std::vector<std::string> words;
    std::vector<size_t> rows;
  };
  std::vector<One> all;
};

class Bare {
 public:
  Bare(const KnownTable& t, int64_t partitions, const std::vector<uint16_t>& ports)
      : t_(t), table_(redis::Table::make(t.described()).value()) {
    table_.set_partitions(partitions);
    for (const uint16_t port : ports) contexts_.push_back(redisConnect("127.0.0.1", port));
  }
  ~Bare() {
    for (redisContext* c : contexts_) redisFree(c);
  }

  BareCommands commands(const std::vector<int64_t>& keys) const {
    std::map<int64_t, BareCommands::One> by_partition;
    for (size_t i = 0; i < keys.size(); ++i) {
      const int64_t p = table_.partition_of(keys[i]);
      auto& one = by_partition[p];
      if (one.words.empty()) one.words = {"HMGET", table_.partition_key(p)};
      one.server = table_.partition_slot(p) * contexts_.size() / redis::kSlots;
      one.words.emplace_back(redis::Field(keys[i]).view());
      one.rows.push_back(i);
    }
    BareCommands c;
    for (auto& [p, one] : by_partition) c.all.push_back(std::move(one));
    return c;
  }

  // Whether all rows came.
  bool fetch(const BareCommands& commands, unsigned char* rows) {
    for (const auto& one : commands.all) {
      std::vector<const char*> argv;
      std::vector<size_t> sizes;
      for (const std::string& w : one.words) {
        argv.push_back(w.data());
        sizes.push_back(w.size());
      }
      redisAppendCommandArgv(contexts_[one.server], static_cast<int>(argv.size()), argv.data(), sizes.data());
    }
    for (redisContext* c : contexts_) {
      for (int done = 0; done == 0;) redisBufferWrite(c, &done);
    }
    bool good = true;
    for (const auto& one : commands.all) {
      redisReply* r = nullptr;
      if (redisGetReply(contexts_[one.server], reinterpret_cast<void**>(&r)) != REDIS_OK) return false;
      for (size_t i = 0; i < one.rows.size(); ++i) {
        const redisReply* row = r->element[i];
        good = good && row->len == static_cast<size_t>(t_.row_bytes());
        if (good) std::memcpy(rows + one.rows[i] * row->len, row->str, row->len);
      }
      freeReplyObject(r);
    }
    return good;
  }

 private:
  const KnownTable& t_;
  redis::Table table_;
  std::vector<redisContext*> contexts_;
};

struct Times {
  std::vector<double> us;
  double at(double part) {
    std::sort(us.begin(), us.end());
    return us[static_cast<size_t>(part * static_cast<double>(us.size() - 1))];
  }
};

std::vector<int64_t> present_keys(const KnownTable& t, size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<int64_t> keys;
  while (keys.size() < n) keys.insert(t.keys[random() % t.keys.size()]);
  std::vector<int64_t> shuffled(keys.begin(), keys.end());
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  return shuffled;
}

void measure(const char* what, const Handle& h, Bare& bare, const KnownTable& t) {
  for (const size_t n : {16, 256, 1024}) {
    std::vector<std::vector<int64_t>> keys;
    std::vector<BareCommands> commands;
    for (uint64_t s = 0; s < kSets; ++s) {
      keys.push_back(present_keys(t, n, s));
      commands.push_back(bare.commands(keys.back()));
      REQUIRE(compare(h, 0, t, keys.back()) == "");
    }
    std::vector<unsigned char> rows(n * static_cast<size_t>(t.row_bytes()));
    std::vector<unsigned char*> to;
    for (size_t i = 0; i < n; ++i) to.push_back(rows.data() + i * static_cast<size_t>(t.row_bytes()));
    Times ours, theirs;
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto& k = keys[turn % kSets];
      std::vector<uint64_t> found(n / 64 + 1);
      const dpi_store_fetch r{0, static_cast<int64_t>(n), k.data(), to.data(), found.data(), 0, nullptr};
      dpi_store_error error;
      const auto plugin = [&] {
        const uint64_t start = monotonic_ns();
        REQUIRE(Handle::api().fetch(h.get(), &r, &error) == 0);
        ours.us.push_back(static_cast<double>(monotonic_ns() - start) * 1e-3);
      };
      const auto pipeline = [&] {
        const uint64_t start = monotonic_ns();
        REQUIRE(bare.fetch(commands[turn % kSets], rows.data()));
        theirs.us.push_back(static_cast<double>(monotonic_ns() - start) * 1e-3);
      };
      // The second finds the server's memory warm: each is that as often.
      if (turn % 2 == 0) plugin();
      pipeline();
      if (turn % 2 != 0) plugin();
    }
    std::printf("%-34s %5zu keys: plugin %7.0f (%7.0f)   bare hiredis %7.0f (%7.0f)\n", what, n, ours.at(0.1),
                ours.at(0.5), theirs.at(0.1), theirs.at(0.5));
  }
}

void measure_on(const char* servers, const std::string& address, const std::vector<uint16_t>& ports) {
  for (const int64_t partitions : {24, 1000}) {
    for (const bool keyed : {false, true}) {
      const auto t = KnownTable::make("x", 'a', 16, 300'000, keyed, 1);
      load({{"address", address}, {"partitions", std::to_string(partitions)}}, t);
      Handle h;
      REQUIRE(h.open({{"address", address}}, {&t}, DPI_STORE_READ) == 0);
      Bare bare(t, partitions, ports);
      const std::string what =
          std::string(servers) + ", " + std::to_string(partitions) + " partitions" + (keyed ? ", keyed" : "");
      measure(what.c_str(), h, bare, t);
      Handle w;
      REQUIRE(w.open({{"address", address}}, {&t}, DPI_STORE_WRITE) == 0);
      REQUIRE(w.drop(0) == 0);
    }
  }
}

}  // namespace

TEST_CASE("fetch of rows of 64 bytes") {
  if (!redis_installed()) return;
  {
    RedisServer server;
    measure_on("alone", server.address(), {server.port()});
  }
  RedisCluster cluster(3);
  measure_on("3 nodes", cluster.addresses(), {cluster[0].port(), cluster[1].port(), cluster[2].port()});
}
