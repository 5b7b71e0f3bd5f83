// The whole way, as a user of the C API has it: a producer, brokers, the plugin, a folder, an endpoint that
// serves what came. Scores tell which version computed them.
#include <atomic>
#include <filesystem>

#include "stream/mock_kafka.hpp"
#include "support/endpoint_support.hpp"

namespace dpi::test::endpoint_test {
namespace {

namespace fs = std::filesystem;

std::string delta_bytes(const std::string& name) {
  std::ifstream file(versions()->path + "/" + name + ".delta", std::ios::binary);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), {}};
}
/// From version n to n + 1.
std::string delta_bytes(int n) { return delta_bytes(std::to_string(n)); }

void publish(const Folder& folder, int bundle_number, uint64_t number) {
  const std::string part = folder.path + "/.coming";
  fs::copy_file(bundle(bundle_number), part, fs::copy_options::overwrite_existing);
  fs::rename(part, folder.path + "/v" + std::to_string(number) + ".h5");
}

EndpointPtr subscribed(const Folder& folder, const std::string& address) {
  EndpointPtr e = make_endpoint("kafka", {{"max_contexts", "2"}});
  set(e.get(), "follow_ms", "5");
  set(e.get(), "back_off_ms", "100");
  set(e.get(), "warm_up_rows", "1");
  Error error;
  const std::string source = "kafka://" + address + "/" + kTopic + "?group=g";
  const dpi_status s = dpi_endpoint_subscribe(e.get(), source.c_str(), folder.path.c_str(), &error);
  INFO(error.text());
  REQUIRE(s == DPI_OK);
  return e;
}

bool tells(const EndpointPtr& e, const std::string& text) {
  const bool well = soon([&] { return status(e.get()).find(text) != std::string::npos; });
  INFO(status(e.get()));
  CHECK(well);
  return well;
}

void check_serves(const EndpointPtr& e, uint64_t number, int tag) {
  Error error;
  const dpi_status s = dpi_endpoint_wait(e.get(), number, in_ms(30'000), &error);
  INFO(error.text(), status(e.get()));
  CHECK(s == DPI_OK);
  const Answer a = ask(e.get(), TagRows(4));
  CHECK(a.version == number);
  CHECK(a.tag == tag);
}

}  // namespace

TEST_CASE("deltas from Kafka serve one after the other, under load; a restart comes to the same version") {
  if (versions() == nullptr) return;
  MockKafka kafka;
  Folder folder;
  publish(folder, 0, 10);
  {
    const EndpointPtr e = subscribed(folder, kafka.address());
    check_serves(e, 10, 0);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0}, asked{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i)
      callers.emplace_back([&] {
        const TagRows rows(3);
        while (!stop) {
          const Answer a = ask(e.get(), rows);
          if (a.code != DPI_OK || a.tag != static_cast<int>(a.version) - 10) ++wrong;
          ++asked;
        }
      });
    for (int n = 0; n < 5; ++n) kafka.send(delta_bytes(n));
    CHECK(tells(e, "\"committed\":5,"));
    stop = true;
    for (auto& c : callers) c.join();
    CHECK(wrong == 0);
    CHECK(asked > 0);
    check_serves(e, 15, 5);
    CHECK(kafka.committed("g") == 5);
    CHECK(tells(e, "\"lag_messages\":0,\"lag_seconds\":0.0,\"staleness_seconds\":"));
  }
  const EndpointPtr again = subscribed(folder, kafka.address());
  check_serves(again, 15, 5);
  kafka.send(delta_bytes(5));
  check_serves(again, 16, 6);
  publish(folder, 6, 20);
  check_serves(again, 20, 6);
  kafka.send(delta_bytes(6));
  check_serves(again, 21, 7);
  CHECK(tells(again, "\"removed\":6,"));
}

TEST_CASE("a delta that the endpoint refuses is waited for, until a bundle overtakes it") {
  if (versions() == nullptr) return;
  MockKafka kafka;
  Folder folder;
  publish(folder, 0, 10);
  const EndpointPtr e = subscribed(folder, kafka.address());
  kafka.send(delta_bytes("wrong_golden"));
  CHECK(tells(e, "\"state\":\"refused\""));
  CHECK(status(e.get()).find("golden row") != std::string::npos);
  check_serves(e, 10, 0);
  kafka.send(delta_bytes(1));
  CHECK(kafka.committed("g") == -1);
  publish(folder, 1, 20);
  check_serves(e, 21, 2);
  CHECK(tells(e, "\"committed\":2,"));
}

TEST_CASE("after a rollback the stream stands still until a bundle comes") {
  if (versions() == nullptr) return;
  MockKafka kafka;
  Folder folder;
  publish(folder, 0, 10);
  const EndpointPtr e = subscribed(folder, kafka.address());
  kafka.send(delta_bytes(0));
  CHECK(tells(e, "\"committed\":1,"));
  REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  kafka.send(delta_bytes(1));
  CHECK(tells(e, "\"state\":\"waiting\""));
  check_serves(e, 10, 0);
  CHECK(!fs::exists(folder.path + "/v12.delta"));
  publish(folder, 1, 20);
  check_serves(e, 21, 2);
}

TEST_CASE("what is wrong with a subscription is said; following ends it") {
  if (versions() == nullptr) return;
  Folder folder;
  const EndpointPtr e = make_endpoint("kafka");
  Error error;
  const auto call = [&](const char* source, const char* path) {
    return dpi_endpoint_subscribe(e.get(), source, path, &error);
  };
  CHECK(call(nullptr, "x") == DPI_E_INVALID_ARGUMENT);
  CHECK(call("kafka://127.0.0.1:1/deltas", nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(call("kafka://127.0.0.1:1/deltas", "") == DPI_E_INVALID_ARGUMENT);
  CHECK(call("kafka://127.0.0.1:1/deltas", "/no/such/folder") == DPI_E_NOT_FOUND);
  CHECK(call("no_such_stream://a:1/deltas", folder.path.c_str()) == DPI_E_NOT_FOUND);
  CHECK(error.text().find("stream 'no_such_stream' cannot be used") != std::string::npos);
  CHECK(call("redis://a:1/deltas", folder.path.c_str()) == DPI_E_NOT_FOUND);  // a plugin of another kind
  CHECK(status(e.get()).find("\"stream\"") == std::string::npos);
  REQUIRE(call("kafka://127.0.0.1:1/deltas", folder.path.c_str()) == DPI_OK);
  CHECK(tells(e, "\"group\":\"dpi-kafka-"));
  CHECK(tells(e, "\"state\":\"no_bundle\""));
  REQUIRE(call("kafka://127.0.0.1:1/others", folder.path.c_str()) == DPI_OK);  // in place of it
  CHECK(tells(e, "kafka://127.0.0.1:1/others/0"));
  REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), &error) == DPI_OK);
  CHECK(status(e.get()).find("\"stream\"") == std::string::npos);
  REQUIRE(call("kafka://127.0.0.1:1/deltas", folder.path.c_str()) == DPI_OK);
  dpi_endpoint_unsubscribe(e.get());
  CHECK(status(e.get()).find("\"follows\"") != std::string::npos);
  REQUIRE(call("kafka://127.0.0.1:1/deltas", folder.path.c_str()) == DPI_OK);
  dpi_endpoint_unfollow(e.get());
  CHECK(status(e.get()).find("\"follows\"") == std::string::npos);
  CHECK(status(e.get()).find("\"stream\"") == std::string::npos);
  dpi_endpoint_unsubscribe(nullptr);
}

}  // namespace dpi::test::endpoint_test
