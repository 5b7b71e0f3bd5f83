// Tables in one range of addresses over the memory of several devices (option store.peer_devices): scores are
// those of a table in one memory, for 2 to 8 shares of one emulated device and for four devices of random
// pace; where no such memory is to be had, rows lie elsewhere and the load says so.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/abi/spread.hpp"
#include "runtime/peer_fixture.hpp"

namespace dpi::test::peer_tables_test {
namespace {

/// Base of the largest table as each engine reads it.
std::set<const void*> bases(const Model& m) {
  std::set<const void*> all;
  for (const auto& e : m.engines()) {
    const auto reader = e->store().open_reader({16, 1});
    for (size_t t = 0; t < e->plan().tables.size(); ++t) {
      if (e->plan().tables[t].rows == kLarge && e->plan().tables[t].dim == kDim)
        all.insert(reader.value()->view(static_cast<int32_t>(t)).base);
    }
  }
  return all;
}

/// Without a device (dpi inspect) the same bytes are forecast of each.
void check_foretold(Fixture& f, const Model& m) {
  const Engine& e = m.engine();
  const auto foretold = forecast_memory(f.bundle, e.plan(), e.options(), {true, 256, 0, 0, 4});
  REQUIRE(foretold.ok());
  REQUIRE(foretold.value().devices.size() == e.memory().devices.size());
  for (size_t d = 0; d < e.memory().devices.size(); ++d) {
    CHECK(foretold.value().devices[d].index == e.memory().devices[d].index);
    CHECK(foretold.value().devices[d].tables == e.memory().devices[d].tables);
    CHECK(foretold.value().devices[d].range == e.memory().devices[d].range);
  }
}

TEST_CASE("peers: pieces cover a range once, and no owner has two more than another") {
  for (const uint64_t bytes :
       {uint64_t{1}, 2 * kMiB, 2 * kMiB + 1, 19 * kMiB, 1000 * kMiB, uint64_t{3} << 36}) {
    for (const uint64_t owners : {1, 2, 3, 7, 8, 72}) {
      CAPTURE(bytes);
      CAPTURE(owners);
      const backend::Spread s(bytes, 2 * kMiB, owners);
      uint64_t sum = 0, most = 0, least = UINT64_MAX, at = 0;
      for (uint64_t p = 0; p < s.pieces(); ++p) {
        CHECK(s.offset(p) == at);
        CHECK(s.bytes_of(p) > 0);
        CHECK(s.bytes_of(p) % (2 * kMiB) == 0);
        at += s.bytes_of(p);
      }
      for (uint64_t o = 0; o < owners; ++o) {
        const uint64_t own = s.owner_bytes(o);
        sum += own;
        most = std::max(most, own);
        least = std::min(least, own);
      }
      CHECK(at == s.bytes);
      CHECK(sum == s.bytes);
      CHECK((s.bytes >= bytes && s.bytes < bytes + 2 * kMiB));
      CHECK(most - least <= s.unit);
      CHECK(s.pieces() <= owners * backend::Spread::kPiecesPerOwner);
    }
  }
}

TEST_CASE("peers: 2 to 8 shares of one device have the bits of one memory") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 6);
  const std::string before = emu.alive();
  std::string shares = "0";
  for (int n = 2; n <= 8; ++n) {
    shares += ",0";
    CAPTURE(shares);
    ModelPtr m = f.model({{"store.peer_devices", shares}});
    CHECK(m->engine().range().kind == DPI_RANGE_PEERS);
    CHECK(m->engine().forecast().range_bytes > 18 * kMiB);
    CHECK(says(m->info_json(), "\"table_range\":{\"kind\":\"peers\",\"devices\":\"" + shares + "\""));
    emu.delay(0, 20);
    asked.check(*m);
    emu.delay(0, 0);
    m.reset();
    CHECK(emu.alive() == before);
  }
  CHECK(warnings(f.world).empty());
}

TEST_CASE("peers: four devices read one range, each call whole on one of them, at any pace") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 24);
  const std::string before = emu.alive();
  int64_t bytes[kDevices], kernels[kDevices];
  for (int d = 0; d < kDevices; ++d) bytes[d] = emu.device_bytes(d);
  for (const char* share : {"on", "off"}) {
    CAPTURE(std::string(share));
    ModelPtr m = f.model({{"devices", "0,1,2,3"},
                          {"store.peer_devices", "0,1,2,3"},
                          {"max_contexts", "8"},
                          {"store.share", share}});
    CHECK(bases(*m).size() == 1);
    const MemoryForecast& forecast = m->engine().memory();
    REQUIRE(forecast.devices.size() == kDevices);
    uint64_t range = 0;
    for (const DeviceShare& s : forecast.devices) {
      CAPTURE(s.index);
      CHECK(emu.device_bytes(s.index) - bytes[s.index] ==
            static_cast<int64_t>(s.tables + s.range + s.weights));
      CHECK((s.range >= 4 * kMiB && s.range <= 6 * kMiB));
      range += s.range;
    }
    CHECK(range == m->engine().forecast().range_bytes);
    check_foretold(f, *m);
    for (int d = 0; d < kDevices; ++d) kernels[d] = emu.kernels(d);
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
    for (int d = 0; d < kDevices; ++d) {
      CHECK(emu.kernels(d) > kernels[d]);
      emu.delay(d, 0);
    }
    m.reset();
    CHECK(emu.alive() == before);
  }
}

TEST_CASE("peers: an owner that has come to a stand holds nobody up") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 8);
  const ModelPtr m = f.model({{"store.peer_devices", "0,1,2,3"}});  // runs on device 0
  emu.delay(1, -1);
  emu.delay(2, -1);
  emu.delay(3, -1);
  asked.check(*m);
}

/// Emulated microseconds from before a call to behind it, as the thread that makes it sees them.
class Stopwatch {
 public:
  explicit Stopwatch(const Engine& e) : e_(e) {
    dpi_backend_error err{};
    REQUIRE(e.api().stream_create(e.device(), 0, &stream_, &err) == 0);
    for (dpi_backend_event*& event : events_) REQUIRE(e.api().event_create(e.device(), &event, &err) == 0);
  }
  ~Stopwatch() {
    for (dpi_backend_event* event : events_) e_.api().event_destroy(e_.device(), event);
    e_.api().stream_destroy(e_.device(), stream_);
  }
  Stopwatch(const Stopwatch&) = delete;

  float time(Model& m, const RandomBatch& request) {
    mark(0);
    CHECK(score(m, request).status.ok());
    mark(1);
    float ms = 0;
    dpi_backend_error err{};
    REQUIRE(e_.api().event_elapsed(events_[0], events_[1], &ms, &err) == 0);
    return ms * 1000;
  }

 private:
  void mark(size_t i) {
    dpi_backend_error err{};
    REQUIRE(e_.api().event_record(events_[i], stream_, &err) == 0);
    REQUIRE(e_.api().stream_synchronize(stream_, &err) == 0);
  }

  const Engine& e_;
  dpi_backend_stream* stream_ = nullptr;
  dpi_backend_event* events_[2] = {};
};

TEST_CASE("peers: the next chunk's remote rows are read behind this chunk's dense part") {
  Fixture f;
  float took[2][2];  // of one chunk, of three; one after the other, in flight together
  for (const int flying : {0, 1}) {
    const ModelPtr m = f.model({{"store.peer_devices", "0,1,2,3"},
                                {"debug.timestamps", "on"},
                                {"in_flight", flying != 0 ? "3" : "1"}});
    Stopwatch watch(m->engine());
    for (const int chunks : {1, 3}) {
      const RandomBatch request(m->engine().schema(), 16 * chunks, 0, 1);  // max_rows is 16
      static_cast<void>(watch.time(*m, request));
      took[chunks > 1][flying] = watch.time(*m, request);
    }
  }
  MESSAGE("emulated us: one chunk ", took[0][0], ", three one by one ", took[1][0], ", in flight ",
          took[1][1]);
  CHECK(took[1][0] > 2.8f * took[0][0]);
  // Were rows read when the chunk before is done with its dense part, it would take as long.
  CHECK(took[1][1] < 2.0f * took[0][1]);
}

TEST_CASE("peers: models of equal tables have one range, which goes with the last") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 6);
  const std::string before = emu.alive();
  const Options how = {{"devices", "0,1"}, {"store.peer_devices", "0,1"}};
  ModelPtr first = f.model(how), second = f.model(how);
  CHECK(bases(*first) == bases(*second));
  CHECK(second->engine().memory().shared >= first->engine().forecast().range_bytes);
  CHECK(says(second->info_json(), "\"in_range\":true"));
  ModelPtr other = f.model({{"devices", "0,1"}, {"store.peer_devices", "0,1,2"}});  // is no such memory
  CHECK(bases(*first) != bases(*other));
  other.reset();
  first.reset();
  asked.check(*second);
  second.reset();
  CHECK(emu.alive() == before);
  CHECK(warnings(f.world).empty());
}

TEST_CASE("peers: without access to each other the range is host memory, and the load says so") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 6);
  const Setting off("DPI_EMU_PEERS", "off");
  const std::string before = emu.alive();
  int64_t bytes[kDevices];
  for (int d = 0; d < kDevices; ++d) bytes[d] = emu.device_bytes(d);
  ModelPtr m = f.model({{"devices", "0,1"}, {"store.peer_devices", "0,1"}});
  CHECK(m->engine().range().kind == DPI_RANGE_HOST);
  for (int d = 0; d < 2; ++d) CHECK(emu.device_bytes(d) - bytes[d] < static_cast<int64_t>(4 * kMiB));
  CHECK(m->table_bytes().host > 18 * kMiB);
  CHECK(bases(*m).size() == 1);
  const std::vector<std::string> told = warnings(f.world);
  REQUIRE(told.size() == 1);
  CHECK_MESSAGE(says(told[0], "in host memory, which is slow to read: GPU 1 cannot reach memory of GPU 0"),
                told[0]);
  CHECK(says(m->info_json(), "\"kind\":\"host\""));
  asked.check(*m);
  m.reset();
  CHECK(emu.alive() == before);
  // shares of one device need no access to another
  const ModelPtr alone = f.model({{"store.peer_devices", "0,0,0"}});
  CHECK(alone->engine().range().kind == DPI_RANGE_PEERS);
}

TEST_CASE("peers: on a machine with one GPU tables lie in its memory, and the load says so") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 6);
  const Setting one("DPI_EMU_DEVICES", "1");
  const ModelPtr m = f.model({{"store.peer_devices", "0,1,2,3"}});
  CHECK(m->engine().range().kind == DPI_RANGE_NONE);
  CHECK(m->engine().forecast().range_bytes == 0);
  const std::vector<std::string> told = warnings(f.world);
  REQUIRE(told.size() == 1);
  CHECK_MESSAGE(says(told[0], "tables lie in the device's own memory: there is one GPU"), told[0]);
  asked.check(*m);
}

TEST_CASE("peers: devices that there are not, and backends without their own memory, are refused by name") {
  Fixture f;
  const auto refused = [&](const Options& how) {
    return Model::create(f.bundle, f.world.options(how)).status();
  };
  const Status absent = refused({{"store.peer_devices", "0,9"}});
  CHECK(absent.code() == Code::kNoDevice);
  CHECK_MESSAGE(says(absent.message(), "store.peer_devices: GPU 9 asked, there are 4"), absent.message());
  const Status host = refused({{"device", "cpu"}, {"store.peer_devices", "0,1"}});
  CHECK(host.code() == Code::kUnsupported);
  CHECK_MESSAGE(says(host.message(), "store.peer_devices names devices, but backend 'cpu'"), host.message());
}

TEST_CASE("peers: any call that fails while a range is made is an error, and nothing stays") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 2);
  const Options how = {{"devices", "0,1"}, {"store.peer_devices", "0,1,2"}, {"debug.graphs", "off"}};
  const std::string before = emu.alive();
  int64_t failed = 0;
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(emu.fail(("map:" + std::to_string(n) + ":2").c_str()));
    auto made = Model::create(f.bundle, f.world.options(how));
    if (emu.calls("map") < n) {
      emu.fail(nullptr);
      REQUIRE(made.ok());
      asked.check(*made.value());
      break;
    }
    ++failed;
    CHECK(made.status().code() == Code::kOutOfMemory);
    CHECK_MESSAGE(says(made.status().message(), "injected fault"), made.status().message());
    CHECK(emu.alive() == before);
    n += n > 4 ? 3 : 0;  // pieces are all alike
  }
  CHECK(failed >= 8);
  CHECK(emu.alive() == before);
}

}  // namespace
}  // namespace dpi::test::peer_tables_test
