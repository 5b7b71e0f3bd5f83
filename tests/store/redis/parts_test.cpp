// What needs no server: slots, settings, names and the choice of partitions.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "store/redis/handle.hpp"
#include "store/redis/protocol.hpp"
#include "store/redis/settings.hpp"
#include "store/redis/slots.hpp"
#include "store/redis/table.hpp"

namespace dpi::test::parts_test {

using namespace dpi::redis;

namespace {

Result<redis::Settings> parse(const test::Settings& pairs) {
  std::vector<dpi_store_setting> c;
  for (const auto& [k, v] : pairs) c.push_back({k.c_str(), v.c_str()});
  dpi_store_options o{sizeof o, 0, c.data(), static_cast<int32_t>(c.size()), 3, nullptr, nullptr};
  return parse_settings(o);
}

std::string refusal(const test::Settings& pairs) {
  const auto s = parse(pairs);
  return s.ok() ? "" : s.status().message();
}

}  // namespace

TEST_CASE("slots as the cluster specification has them") {
  CHECK(slot_of("123456789") == 0x31C3);  // its reference value
  CHECK(slot_of("foo{hash_tag}") == slot_of("bar{hash_tag}"));
  CHECK(slot_of("{user1000}.following") == slot_of("user1000"));
  CHECK(slot_of("foo{}{bar}") != slot_of("bar"));      // an empty tag is none
  CHECK(slot_of("foo{{bar}}zap") == slot_of("{bar"));  // up to the first '}'
  CHECK(slot_of("foo{bar}{zap}") == slot_of("bar"));
}

TEST_CASE("settings: what is known, what is refused by name") {
  const auto s = parse({{"address", "a:1, [::1]:2,c:65535"}, {"replicas", "on"}, {"timeout_ms", "250"}});
  REQUIRE_MESSAGE(s.ok(), s.status().message());
  CHECK(s->seeds == std::vector<Address>{{"a", 1}, {"::1", 2}, {"c", 65535}});
  CHECK(s->seeds[1].text() == "[::1]:2");
  CHECK(s->replicas);
  CHECK(s->timeout_ns == 250'000'000);
  CHECK(s->connections == 3);  // as many as threads

  CHECK(refusal({}).find("'address' is missing") != std::string::npos);
  for (const char* wrong :
       {"", "host", "host:", ":6379", "host:0", "host:65536", "host:6379x", "a:1,", "a b:1"})
    CHECK_MESSAGE(refusal({{"address", wrong}}).find("setting 'address'") != std::string::npos, wrong);
  const auto safe =
      parse({{"address", "a:1"}, {"tls", "on"}, {"tls_ca", "/ca"}, {"tls_cert", "/c"}, {"tls_key", "/k"}});
  REQUIRE_MESSAGE(safe.ok(), safe.status().message());
  CHECK(safe->tls);
  CHECK((safe->tls_ca == "/ca" && safe->tls_cert == "/c" && safe->tls_key == "/k"));
  CHECK(!parse({{"address", "a:1"}, {"tls", "off"}})->tls);
  CHECK(refusal({{"address", "a:1"}, {"tls", "yes"}}).find("on or off") != std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"tls_ca", "/ca"}}).find("need 'tls' on") != std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"tls", "on"}, {"tls_cert", "/c"}}).find("need each other") !=
        std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"adress", "x"}}).find("'adress' is unknown") != std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"replicas", "yes"}}).find("on or off") != std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"connections", "0"}}).find("'connections'") != std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"timeout_ms", "1e3"}}).find("'timeout_ms'") != std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"user", "u"}}).find("needs 'password'") != std::string::npos);
  CHECK(refusal({{"address", "a:1"}, {"password", "secret"}, {"x", "y"}}).find("secret") ==
        std::string::npos);
  for (const char* key :
       {"address", "user", "password", "replicas", "connections", "partitions", "write_replicas",
        "timeout_ms", "connect_timeout_ms", "write_timeout_ms", "tls", "tls_ca", "tls_cert", "tls_key"})
    CHECK(std::string(kSettingNames).find(key) != std::string::npos);
}

TEST_CASE(
    "partitions: as many rows in each as the format wants, keys spread evenly, names of one slot each") {
  CHECK(choose_partitions(0, 1) == 1);
  CHECK(choose_partitions(20'000, 1) == 1);
  CHECK(choose_partitions(20'001, 1) == 2);
  CHECK(choose_partitions(400'000'000, 3) == 20'000);
  CHECK(choose_partitions(20'000, 3) == 20);
  CHECK(choose_partitions(50'000, 3) == 24);
  CHECK(choose_partitions(500, 3) == 1);
  CHECK(choose_partitions(2999, 3) == 2);
  CHECK(choose_partitions(INT64_MAX, 3) == 1 << 20);

  const auto known = test::KnownTable::make("a}{b", 'c', 4, 20'000, true, 1);
  auto t = Table::make(known.described());
  REQUIRE(t.ok());
  t->set_partitions(20);
  std::map<int64_t, int> counts;
  for (const int64_t k : known.keys) ++counts[t->partition_of(k)];
  for (int64_t k = -10'000; k < 10'000; ++k) ++counts[t->partition_of(k)];
  CHECK(counts.size() == 20);
  for (const auto& [partition, n] : counts) CHECK_MESSAGE((n > 1600 && n < 2400), partition);
  std::set<uint16_t> slots;
  for (int64_t p = 0; p < 20; ++p) {
    const std::string key = t->partition_key(p);
    CHECK(key.find("a}{b") == std::string::npos);
    CHECK(key.find('}') == key.size() - 1);
    CHECK(slot_of(key) == t->partition_slot(p));
    slots.insert(t->partition_slot(p));
  }
  CHECK(slots.size() > 15);
  CHECK(t->partition_of(42) == 13);  // part of the format: tables outlive processes
  CHECK(t->partition_of(-1) == 14);
}

TEST_CASE("redirections are read, and what only looks like one is not") {
  int32_t slot = 0;
  Address to;
  const Address from{"10.0.0.1", 7000};
  CHECK(read_redirection("MOVED 3999 127.0.0.1:6381", "MOVED", from, &slot, &to));
  CHECK(slot == 3999);
  CHECK(to == Address{"127.0.0.1", 6381});
  CHECK(read_redirection("ASK 1 :6382", "ASK", from, &slot, &to));
  CHECK(to == Address{"10.0.0.1", 6382});
  for (const char* wrong : {"MOVED", "MOVED ", "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED 1 a", "MOVED 1a:1",
                            "MOVEDX 1 a:1", "MOVED 1 a:99999", "MOVED 99999999999999999999 a:1"})
    CHECK_FALSE(read_redirection(wrong, "MOVED", from, &slot, &to));
}

}  // namespace dpi::test::parts_test
