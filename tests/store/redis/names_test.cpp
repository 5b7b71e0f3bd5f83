// A name that cannot be looked up any more: its last address goes on, connections that are open stay so, and
// the node tells it. The lookups of this program are its own function's, which fails when it is told to.
// Planted, each seen: the last address is forgotten; connections are closed because no new one can be made.
#include <dlfcn.h>
#include <netdb.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"

namespace {
constexpr char kName[] = "flaky.invalid";
std::atomic<int> lookups{0}, delay_ms{0};
std::atomic<bool> fails{false};
}  // namespace

extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** out) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool ours = host != nullptr && std::strcmp(host, kName) == 0;
  if (!ours || hints->ai_flags == AI_NUMERICHOST) return real(host, service, hints, out);
  ++lookups;
  std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  return fails ? EAI_AGAIN : real("127.0.0.1", service, hints, out);
}

namespace dpi::test::names_test {
namespace {

dpi_store_node node_of(const Handle& h) {
  dpi_store_node node{};
  CHECK(h.nodes(&node, 1) == 1);
  return node;
}

}  // namespace

TEST_CASE("a name that is not found any more: reads go on with its last address, and the node tells it") {
  if (!redis_installed()) return;
  RedisServer server;
  const auto t = KnownTable::make("x", 'a', 4, 100, true, 1);
  const Settings settings = {{"address", std::string(kName) + ":" + std::to_string(server.port())}};
  load(settings, t);
  fails = true;
  Handle never;
  CHECK(never.open(settings, {&t}, DPI_STORE_READ) != 0);  // it has had no address
  fails = false;
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
  for (const int slow : {0, 2000}) {
    CAPTURE(slow);
    fails = true;
    delay_ms = slow;
    const int before = lookups;
    CHECK(compare(h, 0, t, t.keys) == "");  // by the connection that is open
    CHECK(lookups == before);
    server.ask({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    CHECK(compare(h, 0, t, t.keys) == "");
    const dpi_store_node node = node_of(h);
    CHECK(node.down == 0);
    CHECK(node.failures >= 1);
    CHECK_MESSAGE(std::string(node.last_error).find("Its last address is used") != std::string::npos,
                  node.last_error);
    std::this_thread::sleep_for(std::chrono::milliseconds(slow));  // until the lookup is over
    fails = false;
    delay_ms = 0;
  }
  server.kill();
  fails = true;
  CHECK(compare(h, 0, t, t.keys).starts_with("code "));
  CHECK(node_of(h).down == 1);
  fails = false;
}

}  // namespace dpi::test::names_test
