// Copies of hot rows beside a device's share of tables that lie over several devices (store.peer_copy_bytes):
// scores are those of a table in one memory at any share of lookups that find a copy, for 2 to 8 shares and
// four devices of random pace without a barrier; the rows that save most reads per byte have the copies; what
// they take is what was foretold; updates reach them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/peer_fixture.hpp"
#include "store/hot_keys/hot_key_writer.hpp"

namespace dpi::test::peer_copies_test {
namespace {

namespace fs = std::filesystem;

/// A list in a file, of the first tables of the bundle.
struct List {
  std::string path;

  List(const Bundle& bundle, const std::vector<std::vector<HotKey>>& keys) {
    static int n = 0;
    const std::string name = "dpi_peer_copies_" + std::to_string(getpid()) + "_" + std::to_string(n++);
    path = (fs::temp_directory_path() / name).string();
    std::vector<HotTable> heads;
    for (size_t t = 0; t < keys.size(); ++t) {
      heads.push_back(hot_table_of(bundle, t));
      heads.back().n = static_cast<int64_t>(keys[t].size());
      for (const HotKey& k : keys[t]) heads.back().lookups += k.count;
    }
    auto w = HotKeyWriter::create(path, heads);
    REQUIRE(w.ok());
    for (const auto& k : keys) REQUIRE((*w)->add(k).ok());
    REQUIRE((*w)->commit().ok());
  }
  ~List() { fs::remove(path); }
  List(const List&) = delete;
};

/// The rows of the large table that the requests ask for, each once, hotter where it comes earlier.
std::vector<int64_t> asked_rows(const Asked& asked) {
  std::vector<int64_t> rows;
  std::set<int64_t> seen;
  for (const auto& r : asked.requests) {
    const BatchPart& part = r->batch.item;
    for (int64_t i = 0; i < part.rows; ++i) {
      const int64_t id = part.ids[part.offsets[i * kFields]];
      if (seen.insert(id).second) rows.push_back(id);
    }
  }
  return rows;
}

/// Those of `percent` of them, the others' never.
std::vector<HotKey> hot_part(const std::vector<int64_t>& rows, int percent) {
  std::vector<HotKey> keys;
  const size_t n = rows.size() * static_cast<size_t>(percent) / 100;
  for (size_t i = 0; i < n; ++i) keys.push_back({rows[i], 2 * n - i});
  if (keys.empty()) keys.push_back({kLarge - 1, 1});  // a list holds something
  return keys;
}

int32_t large_table(const Model& m) {
  for (size_t t = 0; t < m.engine().plan().tables.size(); ++t) {
    const PlanTable& table = m.engine().plan().tables[t];
    if (table.rows == kLarge && table.dim == kDim) return static_cast<int32_t>(t);
  }
  FAIL("no large table");
  return -1;
}

PeerStats peers_of(const Model& m) {
  PeerStats sum;
  for (const auto& e : m.engines()) {
    const auto s = e->store().peer_stats(large_table(m));
    REQUIRE(s.has_value());
    sum.own += s->own, sum.copied += s->copied, sum.remote += s->remote, sum.copies += s->copies;
  }
  return sum;
}

/// Every row of the range becomes NaN: who reads it there says so.
void spoil_range(const Model& m) {
  const Engine& e = m.engine();
  const auto reader = e.store().open_reader({16, 1});
  const kernels::TableView v = reader.value()->view(large_table(m));
  const std::vector<uint32_t> nan(static_cast<size_t>(v.rows * v.row_bytes) / 4, 0x7FC00000u);
  dpi_backend_error err{};
  REQUIRE(e.api().upload(e.device(), const_cast<void*>(v.base), nan.data(), nan.size() * 4, &err) == 0);
}

TEST_CASE("peer copies: 2 to 8 shares and every share of copied rows have the bits of one memory") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 12);
  const std::vector<int64_t> rows = asked_rows(asked);
  const std::string before = emu.alive();
  std::string shares = "0";
  int n = 1;
  for (const int percent : {0, 50, 90, 99, 100, 100, 100}) {
    shares += ",0";
    ++n;
    CAPTURE(shares);
    CAPTURE(percent);
    const List list(f.bundle, {hot_part(rows, percent)});
    ModelPtr m = f.model({{"store.peer_devices", shares},
                          {"store.peer_copy_bytes", "1000000"},
                          {"store.hot_keys", list.path}});
    for (const unsigned pace : {1u, 2u}) {
      emu.seed(pace);
      emu.delay(0, 20);
      asked.check(*m);
      emu.delay(0, 0);
    }
    const PeerStats s = peers_of(*m);
    CHECK(s.own + s.copied + s.remote > 0);
    CHECK(s.own > 0);
    CHECK((s.copied > 0) == (percent > 0));
    if (percent <= 50) CHECK(s.remote > 0);
    if (percent == 100) CHECK(s.remote == 0);
    if (percent == 100) CHECK(s.copies > static_cast<int64_t>(rows.size()) * (n - 2) / n);
    m.reset();
    CHECK(emu.alive() == before);
  }
  CHECK(warnings(f.world).empty());
}

TEST_CASE("peer copies: rows that have one are read there, and own rows have none") {
  Fixture f;
  const Asked asked(f, 12);
  std::vector<HotKey> all = hot_part(asked_rows(asked), 100);
  const List list(f.bundle, {all});
  const ModelPtr m = f.model({{"store.peer_devices", "1,2"},  // device 0 runs, and has no share
                              {"device", "cuda_emu:0"},
                              {"store.peer_copy_bytes", "4000000"},
                              {"store.hot_keys", list.path}});
  CHECK(peers_of(*m).copies == static_cast<int64_t>(all.size()));
  spoil_range(*m);
  asked.check(*m);
  const PeerStats s = peers_of(*m);
  CHECK(s.own == 0);
  CHECK(s.remote == 0);
  CHECK(s.copied > 0);
  const ModelPtr both = f.model({{"store.peer_devices", "0,0"},
                                 {"store.share", "off"},
                                 {"store.peer_copy_bytes", "4000000"},
                                 {"store.hot_keys", list.path}});
  const backend::Spread spread = both->engine().range().spread(both->engine().forecast().range_bytes);
  const auto others = std::count_if(all.begin(), all.end(), [&](const HotKey& k) {
    return spread.owner(static_cast<uint64_t>(k.key) * 64 / spread.unit) != 0;
  });
  CHECK(peers_of(*both).copies == others);
  spoil_range(*both);
  CHECK(std::any_of(asked.requests.begin(), asked.requests.end(), [&](const auto& r) {
    const auto i = static_cast<size_t>(&r - asked.requests.data());
    return !same_bits(score(*both, *r).out, asked.want[i].out);
  }));
}

TEST_CASE("peer copies: four devices of any pace, each with copies of its own, no barrier") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 24);
  const std::vector<int64_t> rows = asked_rows(asked);
  const List list(f.bundle, {hot_part(rows, 60)});
  const std::string before = emu.alive();
  int64_t bytes[kDevices];
  for (int d = 0; d < kDevices; ++d) bytes[d] = emu.device_bytes(d);
  const uint64_t budget = 20000;
  ModelPtr m = f.model({{"devices", "0,1,2,3"},
                        {"store.peer_devices", "0,1,2,3"},
                        {"max_contexts", "8"},
                        {"store.peer_copy_bytes", std::to_string(budget)},
                        {"store.hot_keys", list.path}});
  const MemoryForecast& forecast = m->engine().memory();
  REQUIRE(forecast.devices.size() == kDevices);
  for (const DeviceShare& s : forecast.devices) {
    CHECK(s.copies == budget);
    const int64_t all = emu.device_bytes(s.index) - bytes[s.index];
    const auto rest = static_cast<int64_t>(s.tables + s.range + s.weights);
    CHECK(all > rest + static_cast<int64_t>(budget / 2));
    CHECK(all <= rest + static_cast<int64_t>(budget));
  }
  const auto foretold =
      forecast_memory(f.bundle, m->engine().plan(), m->engine().options(), {true, 256, 0, 0, 4});
  REQUIRE(foretold.ok());
  for (const DeviceShare& s : foretold.value().devices) CHECK(s.copies == budget);
  CHECK(foretold.value().peer_copies == budget);
  CHECK(says(m->info_json(), "\"copies_bytes\":20000"));
  CHECK(says(m->info_json(), "\"in_range\":true,\"copied_rows\":"));
  for (unsigned round = 0; round < 3; ++round) {
    emu.seed(round + 1);
    for (int d = 0; d < kDevices; ++d) emu.delay(d, d == static_cast<int>(round) ? 400 : 30);
    std::vector<std::thread> threads;
    std::vector<Scores> got(asked.requests.size());
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < got.size(); i += 4) got[i] = score(*m, *asked.requests[i]);
      });
    }
    for (auto& t : threads) t.join();
    for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i].out, asked.want[i].out));
  }
  for (int d = 0; d < kDevices; ++d) emu.delay(d, 0);
  const PeerStats s = peers_of(*m);
  CHECK((s.own > 0 && s.copied > 0 && s.remote > 0));
  CHECK(says(m->counters_json(), "\"peers\":[{\"name\":"));
  CHECK(says(m->counters_json(), "\"remote\":" + std::to_string(s.remote)));
  m.reset();
  CHECK(emu.alive() == before);
}

/// Two tables in ranges, of narrow and of wide rows.
struct TwoTables {
  ModelBuilder b{"two"};
  TwoTables() {
    const std::string x = b.concat({b.embed(b.categorical("narrow", kLarge), kLarge, 16),
                                    b.embed(b.categorical("wide", kLarge), kLarge, 32)});
    const std::string logit = b.linear(x, 48, 1);
    b.head("ctr", b.unary("sigmoid", logit), logit);
  }
};

TEST_CASE("peer copies: of all tables the rows that save most reads per byte have them") {
  World world;
  TwoTables two;
  StatedBundle bundle(two.b, 1);
  // Counts fall alike, and a wide row takes twice the bytes: where bytes are worth the same, its table's
  // count is twice as high.
  std::vector<std::vector<HotKey>> keys(2);
  for (int64_t i = 0; i < 20000; ++i) {
    for (auto& k : keys) k.push_back({kLarge - 1 - i, static_cast<uint64_t>(40000 - 2 * i)});
  }
  const List list(bundle, keys);
  for (const uint64_t budget : {100000u, 400000u, 1000000u}) {
    CAPTURE(budget);
    const ModelPtr m = create(bundle, world.options({{"store.peer_devices", "1"},
                                                     {"debug.fold", "off"},
                                                     {"store.peer_copy_bytes", std::to_string(budget)},
                                                     {"store.hot_keys", list.path}}));
    const auto narrow = m->engine().store().peer_stats(0), wide = m->engine().store().peer_stats(1);
    REQUIRE((narrow.has_value() && wide.has_value()));
    const int64_t n = narrow->copies, w = wide->copies;
    CAPTURE(n);
    CAPTURE(w);
    const auto bytes = static_cast<uint64_t>(n * 68 + w * 132);
    CHECK(bytes <= budget);
    CHECK(bytes + 4000 > budget);  // of which two sets, descriptions and alignment
    // The coldest copied row of each is worth as much per byte, to two sets.
    const auto count = [](int64_t i) { return 40000.0 - 2.0 * static_cast<double>(i); };
    CHECK(count(n - 32) / 68 >= count(w + 32) / 132);
    if (w > 0) CHECK(count(w - 32) / 132 >= count(n + 32) / 68);
  }
  const auto refused = Model::create(bundle, world.options({{"store.peer_devices", "1"},
                                                            {"debug.fold", "off"},
                                                            {"store.peer_copy_bytes", "100"},
                                                            {"store.hot_keys", list.path}}));
  CHECK(refused.status().code() == Code::kOutOfMemory);
  CHECK_MESSAGE(
      says(refused.status().message(), "'store.peer_copy_bytes' is 100, which is less than 16 rows"),
      refused.status().message());
}

TEST_CASE("peer copies: a version of changed rows, and one that takes rows over, have copies of these") {
  Fixture f;
  const Asked asked(f, 12);
  const std::vector<int64_t> rows = asked_rows(asked);
  const auto options = [](const List& list) {
    return Options{
        {"store.peer_devices", "1,2"}, {"store.peer_copy_bytes", "4000000"}, {"store.hot_keys", list.path}};
  };
  const List list(f.bundle, {hot_part(rows, 100)});
  const ModelPtr first = f.model(options(list));
  std::vector<int64_t> changed(rows.begin(), rows.begin() + 20);
  std::sort(changed.begin(), changed.end());
  for (const int64_t row : changed) {
    for (int64_t k = 0; k < kDim; ++k) f.bundle.tables[0][static_cast<size_t>(row * kDim + k)] += 1;
  }
  f.bundle.state();
  f.bundle.write();
  const Status old = Model::create(f.bundle, f.world.options(options(list))).status();
  CHECK(old.code() == Code::kInvalidArgument);
  CHECK_MESSAGE(says(old.message(), "make a list for it with `dpi store hot-keys`"), old.message());
  const List next_list(f.bundle, {hot_part(rows, 100)});
  const ModelPtr second = f.model(options(next_list)), plain = f.model({{"store.share", "off"}});
  const LoadBase base{second->engine().held_tables(),
                      std::vector<RowHistory>(f.bundle.manifest().tables.size()), second->engine().pads()};
  ModelOptions taken = f.world.options(options(next_list));
  taken.load.base = &base;  // every row is known to be the second's
  const ModelPtr third = create(f.bundle, taken);
  CHECK(peers_of(*second).copies == static_cast<int64_t>(rows.size()));
  CHECK(peers_of(*third).copies == static_cast<int64_t>(rows.size()));
  spoil_range(*second);  // nothing but copies says what the rows are
  bool differs = false;
  for (size_t i = 0; i < asked.requests.size(); ++i) {
    const Scores want = score(*plain, *asked.requests[i]);
    CHECK(same_bits(score(*second, *asked.requests[i]).out, want.out));
    CHECK(same_bits(score(*third, *asked.requests[i]).out, want.out));
    differs = differs || !same_bits(want.out, asked.want[i].out);
  }
  CHECK(differs);
  asked.check(*first);
}

TEST_CASE("peer copies: without access to each other too; what cannot be is refused by name") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 4);
  const std::vector<int64_t> rows = asked_rows(asked);
  const List list(f.bundle, {hot_part(rows, 100)});
  {
    const Setting off("DPI_EMU_PEERS", "off");
    const ModelPtr m = f.model({{"devices", "0,1"},
                                {"store.peer_devices", "0,1"},
                                {"store.peer_copy_bytes", "4000000"},
                                {"store.hot_keys", list.path}});
    CHECK(m->engine().range().kind == DPI_RANGE_HOST);
    CHECK(peers_of(*m).copies == 2 * static_cast<int64_t>(rows.size()));
    spoil_range(*m);
    asked.check(*m);
  }
  const auto refused = [&](const Options& how) {
    return Model::create(f.bundle, f.world.options(how)).status().message();
  };
  CHECK(says(refused({{"store.peer_copy_bytes", "1000"}, {"store.hot_keys", list.path}}),
             "none do: set 'store.peer_devices'"));
  CHECK(says(refused({{"store.peer_devices", "0,1"}, {"store.peer_copy_bytes", "1000"}}),
             "there is none: set 'store.hot_keys'"));
}

TEST_CASE("peer copies: any allocation that fails is an error, and nothing stays") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 2);
  const List list(f.bundle, {hot_part(asked_rows(asked), 100)});
  const Options how = {{"store.peer_devices", "0,1"},
                       {"debug.graphs", "off"},
                       {"store.peer_copy_bytes", "100000"},
                       {"store.hot_keys", list.path}};
  const std::string before = emu.alive();
  for (const char* kind : {"alloc", "copy", "launch", "stream"}) {
    CAPTURE(std::string(kind));
    REQUIRE(emu.fail((std::string(kind) + ":1000000:2").c_str()));
    ModelPtr counted = f.model(how);
    const int64_t all = emu.calls(kind);
    counted.reset();
    for (int64_t n = std::max<int64_t>(1, all - 12); n <= all; ++n) {  // the last ones of a load
      CAPTURE(n);
      REQUIRE(emu.fail((std::string(kind) + ":" + std::to_string(n) + ":2").c_str()));
      const auto made = Model::create(f.bundle, f.world.options(how));
      emu.fail(nullptr);
      CHECK(!made.ok());
      CHECK(emu.alive() == before);
    }
  }
}

}  // namespace
}  // namespace dpi::test::peer_copies_test
