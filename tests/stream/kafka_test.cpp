// The plugin for Kafka below a subscription, against librdkafka's mock cluster: what only a broker can do.
#include <cstring>

#include "runtime/stream/kafka/configuration.hpp"
#include "stream/mock_kafka.hpp"
#include "stream/stream_support.hpp"

extern "C" int32_t dpi_stream_init_v1(uint32_t abi_version, dpi_stream_api* out);

namespace dpi::test::kafka_test {
namespace {

using Names = std::set<std::string>;

const dpi_stream_api& kafka_api() {
  static const dpi_stream_api kApi = [] {
    dpi_stream_api api{};
    REQUIRE(dpi_stream_init_v1(DPI_STREAM_ABI, &api) == 0);
    return api;
  }();
  return kApi;
}

struct Site {
  WorkFolder folder;
  Server server;
  SubscriptionPtr subscription;

  Site() {
    server.folder = folder.path;
    publish(folder, "0", 10);
    server.serve(10);
  }
  void start(const std::string& address, const std::string& settings = "?group=g") {
    subscription.reset();
    subscription = subscribe(kafka_api(), server, "kafka://" + address + "/" + kTopic + settings);
  }
  bool comes(const std::string& key, const std::string& value, int seconds = 20) {
    return test::comes(subscription, key, value, seconds);
  }
  std::string status() const { return subscription->status_json(); }
  /// What is wrong with the brokers, as the status tells.
  std::string client_error() const {
    const std::string s = status();
    return value_of(s.substr(s.find("\"client\"")), "error");
  }
};

/// Threads of this process.
int64_t count_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

/// What librdkafka is told for a longest delta.
std::string told(int64_t max_bytes, const char* key) {
  dpi_stream_options o{};
  o.address = "127.0.0.1:1";
  o.group = "g";
  o.properties = "";
  o.max_bytes = max_bytes;
  const auto c = kafka::configure(o);
  REQUIRE(c.ok());
  char value[64] = "";
  size_t size = sizeof value;
  REQUIRE(rd_kafka_conf_get(c->get(), key, value, &size) == RD_KAFKA_CONF_OK);
  return value;
}

}  // namespace

TEST_CASE("in order, and on from the committed offset after a restart") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  for (int n = 1; n <= 3; ++n) kafka.send(delta_bytes(n));
  site.start(kafka.address());
  CHECK(site.comes("committed", "3"));
  CHECK(site.server.served == std::vector<uint64_t>{10, 11, 12, 13});
  CHECK(kafka.committed("g") == 3);
  CHECK(kafka.committed("another") == -1);
  site.start(kafka.address());
  kafka.send(delta_bytes(4));
  CHECK(site.comes("committed", "4"));
  CHECK(value_of(site.status(), "duplicates") == "0");
  CHECK(value_of(site.status(), "lag_messages") == "0");
  CHECK(site.client_error() == "");
  for (int n = 1; n <= 4; ++n)
    CHECK(bytes_of(site.folder.file("v" + std::to_string(10 + n) + ".delta")) == delta_bytes(n));
  site.start(kafka.address(), "?group=fresh");  // without offsets: everything again, nothing written
  CHECK(site.comes("duplicates", "4"));
  CHECK(site.comes("committed", "4"));
  CHECK(kafka.committed("fresh") == 4);
  CHECK(site.folder.names().size() == 5);
}

TEST_CASE("the broker's offset waits for the endpoint") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  site.server.at_once = false;
  kafka.send(delta_bytes(1));
  kafka.send(delta_bytes(2));
  site.start(kafka.address());
  CHECK(site.comes("waits_for", "11"));
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  CHECK(kafka.committed("g") == -1);
  site.server.serve(11);
  CHECK(site.comes("waits_for", "12"));
  site.server.serve(12);
  CHECK(site.comes("committed", "2"));
  CHECK(kafka.committed("g") == 2);
}

TEST_CASE("a broker that is down at the start, and in the middle, is waited for and told") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  kafka.down();
  site.start(kafka.address());
  CHECK(within(20, [&] { return site.client_error() != ""; }));
  CHECK(value_of(site.status(), "state") == "reading");
  kafka.up();
  kafka.send(delta_bytes(1));
  CHECK(site.comes("committed", "1"));
  CHECK(site.client_error() == "");
  kafka.down();
  CHECK(within(20, [&] { return site.client_error() != ""; }));
  kafka.up();
  CHECK(within(20, [&] { return site.client_error() == ""; }));  // without any message
  kafka.send(delta_bytes(2));
  CHECK(site.comes("committed", "2"));
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v12.delta"});
}

TEST_CASE("a delta that serves while the broker is down is committed when it is back") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  site.server.at_once = false;
  kafka.send(delta_bytes(1));
  site.start(kafka.address());
  CHECK(site.comes("waits_for", "11"));
  kafka.down();
  site.server.serve(11);
  CHECK(site.comes("applied", "1"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(value_of(site.status(), "committed") == "");
  kafka.up();
  CHECK(site.comes("committed", "1", 60));
  CHECK(kafka.committed("g") == 1);
}

TEST_CASE("a gap, messages that are none, and parts with headers") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  kafka.send("garbage");
  kafka.send("");
  const std::string one = delta_bytes(1);
  kafka.send(one.substr(0, 9000), "1/2");
  kafka.send(one.substr(9000), "2/2");
  kafka.send("x", "two");
  kafka.send(delta_bytes(3));
  site.start(kafka.address());
  CHECK(site.comes("state", "gap"));
  CHECK(kafka.committed("g") == 5);
  CHECK(value_of(site.status(), "lag_messages") == "1");
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta"});
  CHECK(bytes_of(site.folder.file("v11.delta")) == one);
  kafka.send(delta_bytes(2));
  kafka.send(delta_bytes(3));
  CHECK(site.comes("committed", "8"));
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v12.delta", "v13.delta"});
}

TEST_CASE("time of a message: the file's, and how stale what serves is") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  kafka.send(delta_bytes(1), "", (int64_t{now.tv_sec} - 3600) * 1000);
  site.start(kafka.address());
  CHECK(site.comes("committed", "1"));
  CHECK(within(10, [&] { return value_of(site.status(), "staleness_seconds").starts_with("36"); }));
  kafka.send(delta_bytes(3), "", (int64_t{now.tv_sec} - 60) * 1000);
  CHECK(site.comes("state", "gap"));
  const double lag = std::stod(value_of(site.status(), "lag_seconds"));
  CHECK(lag >= 60.0);
  CHECK(lag < 600.0);
}

TEST_CASE("messages of some megabytes, and one that is too long") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  kafka.send(std::string(5'000'000, 'x'));  // handed out whole: no delta
  kafka.send(delta_bytes(1));
  site.start(kafka.address());
  CHECK(site.comes("committed", "2"));
  CHECK(value_of(site.status(), "skipped") == "1");
  kafka.send(std::string(2'500'000, 'x'));
  site.start(kafka.address(), "?group=g&max_bytes=2000000");
  CHECK(site.comes("state", "gap"));
  CHECK(site.status().find("2500000 bytes are more than max_bytes, 2000000") != std::string::npos);
  CHECK(kafka.committed("g") == 2);
}

/// As the guide's page on new versions has it, with another address.
TEST_CASE("kcat sends deltas, whole and in parts") {
  if (chain() == nullptr) return;
  if (std::system("command -v kcat >/dev/null") != 0) {
    MESSAGE("left out: kcat is not installed");
    return;
  }
  MockKafka kafka;
  Site site;
  WorkFolder work;
  for (int n : {1, 2}) {
    std::ofstream file(work.file(std::to_string(n) + ".delta"), std::ios::binary);
    file << delta_bytes(n);
  }
  const std::string send =
      "kcat -P -b " + kafka.address() + " -t " + kTopic + " -p 0 -X message.max.bytes=67108864 ";
  const std::string in = "cd '" + work.path + "' && ";
  REQUIRE(std::system((in + send + "1.delta").c_str()) == 0);
  REQUIRE(std::system((in + "split -n 3 2.delta part. && " + send + "-H dpi-part=1/3 part.aa && " + send +
                       "-H dpi-part=2/3 part.ab && " + send + "-H dpi-part=3/3 part.ac")
                          .c_str()) == 0);
  site.start(kafka.address());
  CHECK(site.comes("committed", "4"));
  CHECK(bytes_of(site.folder.file("v11.delta")) == delta_bytes(1));
  CHECK(bytes_of(site.folder.file("v12.delta")) == delta_bytes(2));
}

TEST_CASE("threads: one of ours, three of the client, and one for each broker") {
  if (chain() == nullptr) return;
  constexpr int kBrokers = 3;
  MockKafka kafka(kBrokers);
  Site site;
  kafka.send(delta_bytes(1));
  const int64_t before = count_threads();
  site.start(kafka.address());
  CHECK(site.comes("committed", "1"));
  CHECK(count_threads() - before <= 1 + 3 + kBrokers);
}

TEST_CASE("memory of the client: a queue of max_bytes, and an answer of as much and a MiB") {
  CHECK(told(64 << 20, "queued.max.messages.kbytes") == "65536");
  CHECK(told(64 << 20, "fetch.max.bytes") == "67108864");
  CHECK(told(64 << 20, "receive.message.max.bytes") == "68157440");
  CHECK(told(1024, "queued.max.messages.kbytes") == "1024");
  CHECK(told(1024, "receive.message.max.bytes") == "3145728");
  MockKafka kafka;
  for (const int64_t n : {int64_t{1024}, int64_t{1} << 30}) {  // librdkafka takes both ends
    Site site;
    site.start(kafka.address(), "?group=g&max_bytes=" + std::to_string(n));
    CHECK(site.comes("state", "reading"));
  }
}

TEST_CASE("a topic that is not there is told") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  site.subscription = subscribe(kafka_api(), site.server, "kafka://" + kafka.address() + "/deltas/7?group=g");
  CHECK(within(30, [&] { return site.client_error() != ""; }));
}

TEST_CASE("properties come from a file; what is not the file's, or wrong, is named with its line") {
  if (chain() == nullptr) return;
  MockKafka kafka;
  Site site;
  const std::string path = site.folder.file("properties");
  const auto start = [&](const std::string& text) {
    std::ofstream(path) << text;
    stream::SubscriptionOptions o;
    o.url = *stream::parse_stream_url("kafka://" + kafka.address() + "/deltas?group=g&properties=" + path);
    o.folder = site.folder.path;
    return stream::Subscription::start(kafka_api(), o, std::make_unique<ServerFollower>(site.server));
  };
  CHECK(start("# ours\n\n client.id = ctr \r\nsecurity.protocol=plaintext\n").ok());
  const std::pair<const char*, const char*> wrong[] = {
      {"client.id=a\nenable.auto.commit=true\n", ":2: property 'enable.auto.commit' is not for the file"},
      {"bootstrap.servers=x:1\n", "is not for the file"},
      {"plugin.library.paths=x\n", "is not for the file"},
      {"client.id\n", ":1: expected key=value"},
      {"no.such.key=1\n", "No such configuration property"},
      {"fetch.wait.max.ms=soon\n", "Invalid value"},
  };
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    const auto made = start(text);
    REQUIRE(!made.ok());
    CHECK(made.status().code() == Code::kInvalidArgument);
    CHECK(made.status().message().find(part) != std::string::npos);
  }
  const auto secret = start("security.protocol=ssl\nssl.key.pem=hunter2\n");
  REQUIRE(!secret.ok());
  CHECK(secret.status().message().find("hunter2") == std::string::npos);
  stream::SubscriptionOptions o;
  o.url = *stream::parse_stream_url("kafka://" + kafka.address() + "/deltas?properties=/no/such/file");
  o.folder = site.folder.path;
  const auto none =
      stream::Subscription::start(kafka_api(), o, std::make_unique<ServerFollower>(site.server));
  REQUIRE(!none.ok());
  CHECK(none.status().code() == Code::kIo);
}

TEST_CASE("it ends soon while no broker answers") {
  if (chain() == nullptr) return;
  Site site;
  site.start("127.0.0.1:1");
  CHECK(within(20, [&] { return site.client_error() != ""; }));
  const uint64_t began = monotonic_ns();
  site.subscription.reset();
  CHECK(static_cast<double>(monotonic_ns() - began) * 1e-9 < 20.0);  // the client's own waits are a minute
}

}  // namespace dpi::test::kafka_test
