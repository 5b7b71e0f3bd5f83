// One model on several devices: scores are those of one device to the bit, every device works, a call goes to
// the least busy one and waits for no other, and what cannot be followed is refused by name. On four emulated
// devices.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/emu_control.hpp"
#include "runtime/shared_world.hpp"
#include "runtime/stated_bundle.hpp"

namespace dpi::test::devices_test {
namespace {

constexpr int kDevices = 4;

struct Fixture {
  World world;
  WideDeep made;
  StatedBundle bundle{made.b, 1};

  ModelPtr model(const Options& more) { return create(bundle, world.options(more)); }
  Status refused(const Options& more) {
    const auto made_now = Model::create(bundle, world.options(more));
    return made_now.ok() ? Status() : made_now.status();
  }
};

int32_t index_of(const Engine& e) { return e.caps().device_index; }

/// Whatever device a call is on, it has the bits of `alone`.
void check_equal(Model& m, Model& alone, int calls, unsigned first_seed = 0) {
  for (int i = 0; i < calls; ++i) {
    const RandomBatch request(m.engine().schema(), 1 + i * 7 % 37, 0, first_seed + static_cast<unsigned>(i));
    const Scores got = score(m, request), want = score(alone, request);
    REQUIRE_MESSAGE(got.status.ok(), got.status.message());
    CHECK(same_bits(got.out, want.out));
    CHECK(same_bits(got.logits, want.logits));
  }
}

TEST_CASE("devices: one model on four has the bits of one device, and each has its share of the calls") {
  const EmuControl emu;
  Fixture f;
  for (const char* share : {"on", "off"}) {
    CAPTURE(std::string(share));
    const ModelPtr alone = f.model({});
    check_equal(*alone, *alone, 40);  // its graphs
    const std::string before = emu.alive();
    ModelPtr m = f.model({{"devices", "0,1,2,3"}, {"max_contexts", "8"}, {"store.share", share}});
    int64_t kernels[kDevices];
    for (int d = 0; d < kDevices; ++d) kernels[d] = emu.kernels(d);
    check_equal(*m, *alone, 40);
    for (int d = 0; d < kDevices; ++d) {
      CAPTURE(d);
      CHECK(emu.kernels(d) > kernels[d]);
      const std::string counted =
          "{\"name\":\"cuda_emu:" + std::to_string(d) + "\",\"calls\":10}";  // ties take turns
      CHECK_MESSAGE(m->counters_json().find(counted) != std::string::npos, m->counters_json());
    }
    std::set<const void*> bases;
    for (const auto& e : m->engines()) {
      const auto reader = e->store().open_reader({16, 1});
      bases.insert(reader.value()->view(0).base);
    }
    CHECK(bases.size() == kDevices);  // small tables: each device its own
    m.reset();
    CHECK(emu.alive() == before);
  }
}

TEST_CASE("devices: tables that say no hash are taken from the first device all the same") {
  const EmuControl emu;
  Fixture f;
  int64_t blocks = 0;
  f.bundle.before_block = [&](size_t, int64_t) {
    ++blocks;
    return Status();
  };
  const ModelPtr alone = f.model({{"store.share", "off"}});
  const int64_t once = blocks;
  const ModelPtr m = f.model({{"devices", "2,0,3"}, {"store.share", "off"}});
  CHECK(blocks == 2 * once);  // three devices, and the bundle is read once
  check_equal(*m, *alone, 9);
}

TEST_CASE("devices: cuda:N is one device, whichever") {
  const EmuControl emu;
  Fixture f;
  const ModelPtr alone = f.model({});
  for (int d = 0; d < kDevices; ++d) {
    CAPTURE(d);
    int64_t bytes[kDevices];
    for (int i = 0; i < kDevices; ++i) bytes[i] = emu.device_bytes(i);
    const ModelPtr m = f.model({{"device", "cuda_emu:" + std::to_string(d)}, {"store.share", "off"}});
    CHECK(index_of(m->engine()) == d);
    check_equal(*m, *alone, 4);
    for (int i = 0; i < kDevices; ++i) CHECK((emu.device_bytes(i) > bytes[i]) == (i == d));
  }
}

TEST_CASE("devices: what each takes is what was forecast") {
  const EmuControl emu;
  Fixture f;
  int64_t bytes[kDevices];
  for (int d = 0; d < kDevices; ++d) bytes[d] = emu.device_bytes(d);
  const ModelPtr m = f.model({{"devices", "1,3"}, {"max_contexts", "3"}});
  const std::vector<DeviceShare>& shares = m->engine().memory().devices;
  REQUIRE(shares.size() == 2);
  for (const DeviceShare& s : shares) {
    CAPTURE(s.index);
    CHECK(emu.device_bytes(s.index) - bytes[s.index] == static_cast<int64_t>(s.tables + s.weights));
    CHECK(s.range == 0);
  }
  CHECK(shares[0].index == 1);
  CHECK(shares[0].contexts == 2 * shares[1].contexts);  // three contexts, in turn
  CHECK(m->warm_up(16).ok());
  for (const DeviceShare& s : shares)
    CHECK(emu.device_bytes(s.index) - bytes[s.index] <=
          static_cast<int64_t>(s.tables + s.weights + s.contexts));
  CHECK(emu.device_bytes(0) == bytes[0]);
  CHECK(emu.device_bytes(2) == bytes[2]);
  const MemoryForecast& all = m->engine().memory();
  CHECK(all.others == shares[1].tables + shares[1].weights + all.model);
  const std::string just = std::to_string(all.most()), less = std::to_string(all.most() - 1);
  const Status refused =
      f.refused({{"devices", "1,3"}, {"max_contexts", "3"}, {"memory_limit", less}, {"store.share", "off"}});
  CHECK(refused.code() == Code::kOutOfMemory);
  CHECK_MESSAGE(refused.message().find("its other devices") != std::string::npos, refused.message());
  CHECK(f.refused({{"devices", "1,3"}, {"max_contexts", "3"}, {"memory_limit", just}, {"store.share", "off"}})
            .ok());
}

TEST_CASE("devices: a call goes where the fewest are, and waits for no other device") {
  const EmuControl emu;
  Fixture f;
  const ModelPtr alone = f.model({});
  const ModelPtr m = f.model({{"devices", "0,1,2"}, {"max_contexts", "6"}});
  std::vector<ContextPool::Lease> held;
  std::multiset<int32_t> where;
  for (int i = 0; i < 6; ++i) {
    auto lease = m->claim({});
    REQUIRE(lease.ok());
    where.insert(index_of(lease.value().engine()));
    held.push_back(std::move(lease).value());
    const auto [low, high] = std::pair(static_cast<size_t>(i / 3), static_cast<size_t>(i / 3 + 1));
    for (int32_t d = 0; d < 3; ++d) CHECK((where.count(d) >= low && where.count(d) <= high));
  }
  for (size_t i = 0; i < held.size(); ++i) {  // the one that has come free is the least busy
    const int32_t d = index_of(held[i].engine());
    held[i] = ContextPool::Lease();
    auto again = m->claim({});
    REQUIRE(again.ok());
    CHECK(index_of(again.value().engine()) == d);
    held[i] = std::move(again).value();
  }
  held.clear();
  check_equal(*m, *alone, 12);  // graphs are captured on all of them

  ContextPool::Lease one, other;
  for (int i = 0; i < 9 && (i == 0 || index_of(one.engine()) != 1); ++i) {  // they take turns
    auto lease = m->claim({});
    REQUIRE(lease.ok());
    one = std::move(lease).value();
  }
  REQUIRE(index_of(one.engine()) == 1);
  auto second = m->claim({});
  REQUIRE(second.ok());
  other = std::move(second).value();
  REQUIRE(index_of(other.engine()) != 1);
  emu.delay(1, -1);  // device 1 begins nothing
  const RandomBatch request(m->engine().schema(), 20, 0, 5);
  const Scores want = score(*alone, request);
  std::vector<float> stuck(want.out.size()), passed(want.out.size());
  std::atomic<bool> done{false};
  std::thread waits([&] {
    CHECK(m->run(one, request.batch, stuck.data(), {}).ok());
    done = true;
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(m->run(other, request.batch, passed.data(), {}).ok());
    CHECK(same_bits(passed, want.out));
  }
  CHECK(!done);
  emu.delay(1, 0);
  waits.join();
  CHECK(same_bits(stuck, want.out));
}

TEST_CASE("devices: callers side by side, devices of random pace") {
  const EmuControl emu;
  Fixture f;
  const ModelPtr alone = f.model({});
  const ModelPtr m = f.model({{"devices", "0,1,2,3"}, {"max_contexts", "4"}});
  for (int d = 0; d < kDevices; ++d) emu.delay(d, 50 * d);
  std::vector<std::unique_ptr<RandomBatch>> requests;
  std::vector<Scores> want;
  for (unsigned i = 0; i < 24; ++i) {
    requests.push_back(std::make_unique<RandomBatch>(m->engine().schema(), 1 + i, 0, i));
    want.push_back(score(*alone, *requests.back()));
  }
  std::vector<Scores> got(requests.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < requests.size(); i += 6) got[i] = score(*m, *requests[i]);
    });
  }
  for (auto& t : threads) t.join();
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK_MESSAGE(got[i].status.ok(), got[i].status.message());
    CHECK(same_bits(got[i].out, want[i].out));
  }
}

TEST_CASE("devices: contexts of callers take turns too, and golden rows are scored on every device") {
  const EmuControl emu;
  Fixture f;
  const ModelPtr m = f.model({{"devices", "0,1,2"}});
  std::multiset<int32_t> where;
  std::vector<std::unique_ptr<ContextPool>> own;
  for (int i = 0; i < 6; ++i) {
    auto made = m->make_own_context(16, 4096);
    REQUIRE(made.ok());
    own.push_back(std::move(made).value());
    const auto lease = own.back()->acquire({});
    where.insert(index_of(lease.value().engine()));
  }
  for (int32_t d = 0; d < 3; ++d) CHECK(where.count(d) == 2);
  for (auto& o : own) m->close_own_context(*o);
  int64_t kernels[3];
  for (int d = 0; d < 3; ++d) kernels[d] = emu.kernels(d);
  GoldenRows golden;
  golden.rows = 2;
  golden.ids = {0, 1, 2, 3, 4, 5};
  golden.value = {0, 0};
  CHECK(m->check_golden(golden, 2.0).ok());  // a probability is never so far off
  for (int d = 0; d < 3; ++d) CHECK(emu.kernels(d) > kernels[d]);
  const Status wrong = m->check_golden(golden, 1e-9);
  CHECK_MESSAGE(wrong.message().find(" on device ") != std::string::npos, wrong.message());
}

TEST_CASE("devices: what cannot be followed is refused by name") {
  ModelOptions o;
  const std::pair<const char*, const char*> bad[][2] = {
      {{"devices", "0,1,0"}, {"", "device 0 twice"}},
      {{"devices", "cuda:0,cpu:1"}, {"", "cpu has no numbers"}},
      {{"devices", "cuda:0,other:1"}, {"", "two kinds, 'cuda' and 'other'"}},
      {{"devices", "0,,1"}, {"", "is no device"}},
      {{"devices", "0,cuda"}, {"", "device 'cuda' has no number"}},
      {{"devices", "-1"}, {"", "is no device"}},
      {{"device", "cuda:x"}, {"", "its number is 0 .. 1023"}},
      {{"device", "3"}, {"", "cuda:3"}},
      {{"device", "cpu:1"}, {"", "cpu has no numbers"}},
      {{"store.peer_devices", "0,1024"}, {"", "is no device"}}};
  for (const auto& [option, says] : bad) {
    const Status s = set_option(&o, option.first, option.second);
    CAPTURE(std::string(option.second));
    CHECK(s.code() == Code::kInvalidArgument);
    CHECK_MESSAGE(s.message().find(says.second) != std::string::npos, s.message());
    CHECK_MESSAGE(s.message().find(option.first) != std::string::npos, s.message());
  }
  REQUIRE(set_option(&o, "device", "cpu").ok());
  CHECK(set_option(&o, "devices", "cuda:0,cuda:1").message().find("option device is 'cpu'") !=
        std::string::npos);

  Fixture f;
  const auto check = [&](const Options& how, Code code, const char* says) {
    const Status s = f.refused(how);
    CAPTURE(std::string(says));
    CHECK(s.code() == code);
    CHECK_MESSAGE(s.message().find(says) != std::string::npos, s.message());
  };
  check({{"devices", "0,4"}}, Code::kNoDevice, "GPU 4 asked, there are 4");
  check({{"device", "cuda_emu:7"}}, Code::kNoDevice, "GPU 7 asked, there are 4");
  check({{"devices", "0,1"}, {"device", "cpu"}}, Code::kUnsupported, "'cpu' has no memory of its own");
  check({{"devices", "0,1,2"}, {"max_contexts", "2"}}, Code::kInvalidArgument, "max_contexts=2");
  check({{"devices", "0,1"}, {"store.host_bytes", "1000000"}, {"store.gpu_bytes", "100000"}},
        Code::kUnsupported, "leave store.gpu_bytes out, or load a model per device, each with device=cuda:N");
}

}  // namespace
}  // namespace dpi::test::devices_test
