// TLS to redis-server of the system, with certificates that openssl has made: whom the plugin believes, and
// what it says of those it does not.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "store/redis/certificates.hpp"
#include "store/redis/fake_server.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/redis/table.hpp"

namespace dpi::test::tls_test {
namespace {

const Certificates& certificates() {
  static const Certificates c;
  return c;
}

/// Settings for a server whose certificate "ca" has signed, and `more`.
Settings with_tls(const std::string& address, const Settings& more = {}) {
  Settings s = {{"address", address}, {"tls", "on"}, {"tls_ca", certificates()("ca.pem")}};
  for (const auto& [key, value] : more) {
    const auto at = std::find_if(s.begin(), s.end(), [&, k = key](const auto& p) { return p.first == k; });
    if (at != s.end()) {
      at->second = value;
    } else {
      s.emplace_back(key, value);
    }
  }
  return s;
}

/// Opening is refused with `code` and with all of `parts` in its text.
void refused(const Settings& settings, Code code, const std::vector<std::string>& parts) {
  const auto t = KnownTable::make("x", 'a', 4, 10, true, 1);
  Handle h;
  const int32_t got = h.open(settings, {&t}, DPI_STORE_WRITE);
  CHECK_MESSAGE(got == static_cast<int32_t>(code), h.message());
  for (const std::string& part : parts) {
    const bool said = h.message().find(part) != std::string::npos;
    CHECK_MESSAGE(said, part, " is not in: ", h.message());
  }
  CHECK_MESSAGE(h.message().find("secret") == std::string::npos, h.message());
}

}  // namespace

TEST_CASE("rows over TLS as a user: exact, over connections that stay, past a server that was killed") {
  if (!redis_installed()) return;
  auto arguments = certificates().arguments("server");
  arguments.insert(arguments.end(), {"--user", "reader", "on", ">secret", "~dpi1:*", "+@all"});
  RedisServer server(false, arguments);
  const auto t = KnownTable::make("x", 'a', 64, 20'000, true, 3);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    CAPTURE(host);
    const Settings settings =
        with_tls(server.tls_address(host), {{"user", "reader"}, {"password", "secret"}});
    load(settings, t);
    Handle h;
    REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
    const auto connections = [&] {
      const std::string info = server.ask({"INFO", "stats"});
      return std::stoll(info.substr(info.find("total_connections_received:") + 27));
    };
    CHECK(compare(h, 0, t, t.keys) == "");
    const long long before = connections();
    for (uint64_t i = 0; i < 50; ++i) CHECK(compare(h, 0, t, some_keys(t, 300, i)) == "");
    CHECK(connections() - before <= 2);  // one is the question's own
    server.kill();
    const Fetched gone = h.fetch(0, {t.keys[0]}, t.row_bytes());  // and no SIGPIPE
    CHECK_MESSAGE(gone.code == static_cast<int32_t>(Code::kIo), gone.message);
    server.start();
    load(settings, t);
    CHECK(compare(h, 0, t, t.keys) == "");
    Handle w;
    REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
    CHECK(w.drop(0) == 0);
  }
}

TEST_CASE(
    "who is not believed: another CA, another host, a certificate that has expired, files that are none") {
  if (!redis_installed()) return;
  const Certificates& c = certificates();
  const Settings password = {{"password", "secret"}};
  {
    RedisServer server(false, c.arguments("server"));
    const std::string at = server.tls_address();
    refused(with_tls(at, {{"tls_ca", c("stranger.pem")}, {"password", "secret"}}), Code::kIo,
            {at, "the server's certificate is not trusted", "'tls_ca' must name the CA"});
    refused({{"address", at}, {"tls", "on"}}, Code::kIo, {"is not trusted"});  // the system's
    refused(with_tls(at, {{"tls_ca", c("none.pem")}}), Code::kIo, {"'tls_ca'", "none.pem", "No such file"});
    refused(with_tls(at, {{"tls_ca", c("server.key")}}), Code::kIo, {"'tls_ca'", "server.key", "PEM"});
    refused(with_tls(at, {{"tls_cert", c("client.pem")}, {"tls_key", c("server.key")}}), Code::kIo,
            {"'tls_key'", "private key of 'tls_cert'"});
    refused(with_tls(at, {{"tls_cert", c("client.pem")}, {"tls_key", c("client_locked.key")}}), Code::kIo,
            {"'tls_key'", "without a passphrase"});
    // Nothing of the password was sent, so nothing was refused either.
    CHECK(server.calls("auth") == 0);
  }
  {
    RedisServer server(false, c.arguments("elsewhere"));
    refused(with_tls(server.tls_address(), password), Code::kIo,
            {"is for other.example, 127.0.0.9, not for 127.0.0.1", "use a name that it has"});
    refused(with_tls(server.tls_address("localhost"), password), Code::kIo, {"not for localhost"});
    CHECK(server.calls("auth") == 0);
  }
  {  // an address of one byte: no byte behind it is read
    RedisServer server(false, c.arguments("short_address"));
    refused(with_tls(server.tls_address(), password), Code::kIo, {"is for no host, not for 127.0.0.1"});
  }
  RedisServer server(false, c.arguments("expired"));
  refused(with_tls(server.tls_address(), password), Code::kIo,
          {"the server's certificate (/CN=expired) expired on 20", "renew it"});
  CHECK(server.calls("auth") == 0);
}

TEST_CASE("one side with TLS and the other without; a server that wants a certificate; one that hangs") {
  if (!redis_installed()) return;
  const Certificates& c = certificates();
  RedisServer server(false, c.arguments("server", true));
  refused(with_tls(server.address()), Code::kIo, {server.address(), "does not speak TLS", "'tls' off"});
  refused({{"address", server.tls_address()}}, Code::kIo, {server.tls_address(), "TLS", "set 'tls' on"});
  refused({{"address", server.tls_address()}, {"password", "secret"}}, Code::kIo, {"set 'tls' on"});
  refused(with_tls(server.tls_address()), Code::kIo, {"certificate", "'tls_cert' and 'tls_key'"});
  const Settings both =
      with_tls(server.tls_address(), {{"tls_cert", c("client.pem")}, {"tls_key", c("client.key")}});
  const auto t = KnownTable::make("x", 'a', 4, 10, true, 1);
  load(both, t);
  server.pause();
  refused(with_tls(server.tls_address(), {{"connect_timeout_ms", "300"}, {"timeout_ms", "300"}}),
          Code::kTimeout, {"no answer to the TLS handshake in time"});
  server.resume();
}

TEST_CASE("a server that says something else than TLS, or nothing and closes") {
  for (const std::string bytes : {"", "-DENIED\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x16\x03\x03"}) {
    CAPTURE(bytes);
    FakeServer server([&](const dpi::test::Command&) { return Answer{bytes, true}; });
    const auto t = KnownTable::make("x", 'a', 4, 10, true, 1);
    Handle h;
    const uint64_t begin = monotonic_ns();
    const int32_t code =
        h.open(with_tls(server.address(), {{"connect_timeout_ms", "400"}, {"timeout_ms", "400"}}), {&t},
               DPI_STORE_READ);
    CHECK_MESSAGE((code == static_cast<int32_t>(Code::kIo) || code == static_cast<int32_t>(Code::kTimeout)),
                  h.message());
    CHECK_MESSAGE(h.message().find("TLS") != std::string::npos, h.message());
    CHECK(monotonic_ns() - begin < 10'000'000'000u);
  }
}

TEST_CASE("three servers of a cluster over TLS: each is checked, and slots that move are followed") {
  if (!redis_installed()) return;
  RedisCluster cluster(3, 0, certificates().arguments("server"));
  const Settings settings = with_tls(cluster.tls_addresses());
  const auto t = KnownTable::make("x", 'a', 16, 30'000, true, 1);
  load(settings, t);
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, t, t.keys) == "");
  for (size_t i = 0; i < cluster.size(); ++i) CHECK(cluster[i].calls("hmget") > 0);
  // Partitions of the first server go to the second.
  int moved = 0;
  auto table = redis::Table::make(t.described());
  REQUIRE(table.ok());
  table->set_partitions(24);
  for (int64_t p = 0; p < 24 && moved < 3; ++p) {
    const int slot = table->partition_slot(p);
    if (slot >= 16384 / 3) continue;
    cluster.move_slot(slot, cluster[0], cluster[1]);
    ++moved;
  }
  REQUIRE(moved > 0);
  const int64_t before = cluster.errors("MOVED");
  CHECK(compare(h, 0, t, t.keys) == "");
  CHECK(cluster.errors("MOVED") > before);
  refused(with_tls(cluster.tls_addresses(), {{"tls_ca", certificates()("stranger.pem")}}), Code::kIo,
          {"is not trusted"});
}

}  // namespace dpi::test::tls_test
