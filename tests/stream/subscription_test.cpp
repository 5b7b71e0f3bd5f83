// A subscription over a stream in memory, and a server that serves when the test says so: what becomes of
// each kind of message, when offsets are committed, what a restart finds.
#include "runtime/stream/subscription.hpp"

#include "runtime/stream/spool.hpp"
#include "stream/fake_stream.hpp"
#include "stream/stream_support.hpp"

namespace dpi::test::subscription_test {
namespace {

using Names = std::set<std::string>;

/// A folder with the chain's first bundle as v10, served, and a stream without messages.
struct Site {
  WorkFolder folder;
  Server server;
  FakeLog log;
  SubscriptionPtr subscription;

  explicit Site(const std::string& bundle = "0") {
    server.folder = folder.path;
    fake_logs()["deltas"] = &log;
    if (bundle.empty()) return;
    publish(folder, bundle, 10);
    server.serve(10);
  }
  void start(const std::string& settings = "", const std::string& require_signature = "") {
    subscription.reset();
    subscription = subscribe(fake_api(), server, "fake://here/deltas" + settings, require_signature);
  }
  void send(int first, int last) {
    for (int n = first; n <= last; ++n) log.send(delta_bytes(n));
  }
  bool comes(const std::string& key, const std::string& value) {
    return test::comes(subscription, key, value);
  }
  std::string status() const { return subscription->status_json(); }
};

}  // namespace

TEST_CASE("deltas come into the folder in their order, byte by byte, and their offsets are committed") {
  if (chain() == nullptr) return;
  Site site;
  site.send(1, 3);
  site.start();
  CHECK(site.comes("committed", "3"));
  site.send(4, 5);
  CHECK(site.comes("committed", "5"));
  CHECK(site.folder.names() ==
        Names{"v10.h5", "v11.delta", "v12.delta", "v13.delta", "v14.delta", "v15.delta"});
  for (int n = 1; n <= 5; ++n)
    CHECK(bytes_of(site.folder.file("v" + std::to_string(10 + n) + ".delta")) == delta_bytes(n));
  CHECK(site.server.served == std::vector<uint64_t>{10, 11, 12, 13, 14, 15});
  CHECK(site.log.commits == std::vector<int64_t>{1, 2, 3, 4, 5});
  CHECK(site.comes("lag_messages", "0"));
  CHECK(value_of(site.status(), "applied") == "5");
  CHECK(value_of(site.status(), "lag_seconds") == "0.0");
  CHECK(value_of(site.status(), "state") == "reading");
  CHECK(std::stod(value_of(site.status(), "staleness_seconds")) < 30.0);
  CHECK(site.server.told.empty());
}

// Caught by it: runtime/stream_commit_early.
TEST_CASE("files of numbers that no version may have are not looked at") {
  const WorkFolder folder;
  for (const char* number : {"18446744073709551615", "9223372036854775808", "9223372036854775807"})
    std::ofstream(folder.file("v" + std::string(number) + ".h5")) << "no bundle";
  const auto spool = stream::Spool::open(folder.path);
  REQUIRE(spool.ok());
  REQUIRE((*spool)->refresh().ok());
  REQUIRE((*spool)->files().size() == 1);
  CHECK((*spool)->files()[0].number == INT64_MAX);
}

TEST_CASE("an offset is committed when its delta serves, not before") {
  if (chain() == nullptr) return;
  Site site;
  site.server.at_once = false;
  site.send(1, 2);
  site.start();
  CHECK(site.comes("waits_for", "11"));
  CHECK(value_of(site.status(), "state") == "waiting");
  CHECK(value_of(site.status(), "versions_behind") == "1");
  std::this_thread::sleep_for(std::chrono::milliseconds(600));  // two looks more
  CHECK(site.log.committed() == -1);
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta"});
  site.server.serve(11);
  CHECK(site.comes("waits_for", "12"));
  CHECK(site.log.committed() == 1);
  CHECK(site.comes("lag_messages", "1"));
  CHECK(value_of(site.status(), "lag_seconds") != "");
  site.server.serve(12);
  CHECK(site.comes("committed", "2"));
}

TEST_CASE("a restart goes on where it was; what is in the folder is not written again") {
  if (chain() == nullptr) return;
  Site site;
  site.server.at_once = false;
  site.send(1, 3);
  site.start();
  CHECK(site.comes("waits_for", "11"));
  site.server.serve(11);
  CHECK(site.comes("waits_for", "12"));
  site.subscription.reset();  // 2.delta is in the folder, its offset is not committed
  CHECK(site.log.committed() == 1);
  const auto before = std::filesystem::last_write_time(site.folder.file("v12.delta"));
  site.server.number = 0;
  site.start();
  CHECK(site.comes("waits_for", "12"));
  CHECK(site.log.committed() == 1);
  site.server.at_once = true;
  site.server.serve(12);
  CHECK(site.comes("committed", "3"));
  CHECK(value_of(site.status(), "duplicates") == "1");
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v12.delta", "v13.delta"});
  CHECK(std::filesystem::last_write_time(site.folder.file("v12.delta")) == before);
  site.log.stored = -1;  // offsets lost: all comes again
  site.start();
  CHECK(site.comes("duplicates", "3"));
  CHECK(site.comes("committed", "3"));
  CHECK(site.folder.names().size() == 4);
}

TEST_CASE("a message twice is one delta; what is none is passed over and told") {
  if (chain() == nullptr) return;
  Site site;
  site.send(1, 1);
  site.send(1, 1);
  site.log.send("not a delta");
  site.log.send(bytes_of(chain()->file("1.h5")));
  std::string damaged = delta_bytes(2);
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 4);
  site.log.send(damaged);
  site.log.send(delta_bytes(2).substr(0, 5000));
  site.log.send("");
  site.send(2, 2);
  site.start();
  CHECK(site.comes("committed", "8"));
  CHECK(value_of(site.status(), "duplicates") == "1");
  CHECK(value_of(site.status(), "skipped") == "5");
  CHECK(site.status().find("\"last_skipped\":{\"offset\":6,") != std::string::npos);
  CHECK(site.server.heard("offset 2 of fake://here/deltas/0 is passed over"));
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v12.delta"});
}

// Caught by it: runtime/stream_gap_commit.
TEST_CASE("a gap is told, waits, and is not committed; the missing delta or a bundle closes it") {
  if (chain() == nullptr) return;
  for (const bool by_bundle : {false, true}) {
    CAPTURE(by_bundle);
    Site site;
    site.send(1, 1);
    site.send(3, 4);
    site.log.send("no delta");
    site.start();
    CHECK(site.comes("state", "gap"));
    CHECK(site.server.heard("a gap at offset 1 of fake://here/deltas/0: it starts from version "));
    CHECK(site.log.committed() == 1);
    CHECK(value_of(site.status(), "lag_messages") == "3");
    CHECK(site.folder.names() == Names{"v10.h5", "v11.delta"});
    if (by_bundle) {
      publish(site.folder, "3", 20);
      site.server.serve(20);
      CHECK(site.comes("committed", "4"));
      CHECK(site.folder.names() == Names{"v20.h5", "v10.h5", "v21.delta"});
      CHECK(bytes_of(site.folder.file("v21.delta")) == delta_bytes(4));
      CHECK(value_of(site.status(), "removed") == "1");
    } else {
      site.send(2, 4);
      CHECK(site.comes("committed", "7"));
      CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v12.delta", "v13.delta", "v14.delta"});
    }
    CHECK(site.status().find("\"gap\"") == std::string::npos);
    CHECK(value_of(site.status(), "state") == "reading");
  }
}

TEST_CASE("the folder decides where in the stream it goes on, whatever was committed") {
  if (chain() == nullptr) return;
  Site site("2");
  site.send(1, 5);
  SUBCASE("the stream begins before the bundle") {}
  SUBCASE("more was committed than the folder has") { site.log.stored = 4; }
  site.start();
  CHECK(site.comes("committed", "5"));
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v12.delta", "v13.delta"});
  CHECK(bytes_of(site.folder.file("v11.delta")) == delta_bytes(3));
  CHECK(value_of(site.status(), "passed_over") == "1");
  CHECK(value_of(site.status(), "duplicates") == "1");
  CHECK(site.log.times_rewound() == 1);
  CHECK(site.server.told.empty());
}

TEST_CASE("a bundle older than the stream's place: the deltas behind it come again") {
  if (chain() == nullptr) return;
  Site site;
  site.send(1, 5);
  site.start();
  CHECK(site.comes("committed", "5"));
  publish(site.folder, "3", 30);
  site.server.serve(30);
  site.send(6, 6);
  CHECK(site.comes("committed", "6"));
  CHECK(site.folder.names() == Names{"v10.h5", "v30.h5", "v31.delta", "v32.delta", "v33.delta"});
  CHECK(bytes_of(site.folder.file("v33.delta")) == delta_bytes(6));
  CHECK(value_of(site.status(), "removed") == "5");
}

TEST_CASE("a delta that the endpoint refuses is waited for, by name, until it or a bundle serves") {
  if (chain() == nullptr) return;
  Site site;
  const std::string path = site.folder.file("v11.delta");
  site.server.refuse(path, Status(Code::kOutOfMemory, path + ": no room"));
  site.send(1, 2);
  site.start();
  CHECK(site.comes("state", "refused"));
  CHECK(site.status().find("v11.delta: no room") != std::string::npos);
  CHECK(value_of(site.status(), "waits_for") == "11");
  CHECK(site.log.committed() == -1);
  SUBCASE("there is room later") {
    {
      const std::lock_guard<std::mutex> lock(site.server.mutex);
      site.server.refused.clear();
    }
    site.server.serve(11);
    CHECK(site.comes("committed", "2"));
    CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v12.delta"});
  }
  SUBCASE("a bundle overtakes it") {
    publish(site.folder, "1", 20);
    site.server.serve(20);
    CHECK(site.comes("committed", "2"));
    CHECK(site.folder.names() == Names{"v10.h5", "v20.h5", "v21.delta"});
  }
  SUBCASE("a bundle that the endpoint refuses too overtakes nothing") {
    site.server.refuse(site.folder.file("v20.h5"), bad_model("v20.h5: damaged"));
    publish(site.folder, "1", 20);
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    CHECK(value_of(site.status(), "waits_for") == "11");
    CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v20.h5"});
  }
}

TEST_CASE("deltas in parts; parts that are missing leave a gap") {
  if (chain() == nullptr) return;
  Site site;
  const auto send_parts = [&](int n, std::initializer_list<int> which) {
    const std::string whole = delta_bytes(n);
    const size_t third = whole.size() / 3;
    for (const int p : which)
      site.log.send(whole.substr(static_cast<size_t>(p) * third, p == 2 ? std::string::npos : third), p, 3);
  };
  send_parts(1, {0, 1, 2});
  send_parts(2, {0, 1});
  send_parts(2, {0, 1, 2});
  site.start();
  CHECK(site.comes("committed", "8"));
  CHECK(value_of(site.status(), "skipped") == "0");
  CHECK(bytes_of(site.folder.file("v12.delta")) == delta_bytes(2));
  send_parts(3, {0, 2});
  CHECK(site.comes("state", "gap"));
  CHECK(site.log.committed() == 8);
  site.log.send(delta_bytes(3), 0, 0);  // a header that says nothing
  CHECK(site.comes("skipped", "3"));    // part 3 of 3, again in the search, and this one
  send_parts(3, {0, 1, 2});
  CHECK(site.comes("committed", "14"));
  CHECK(bytes_of(site.folder.file("v13.delta")) == delta_bytes(3));
}

TEST_CASE("a delta longer than max_bytes is held, by its size, until a bundle has it") {
  if (chain() == nullptr) return;
  Site site;
  const size_t most = delta_bytes(1).size() + 1000;
  const auto longest = std::to_string(most), length = std::to_string(most + 1);
  site.send(1, 1);
  site.log.send(std::string(most + 1, 'x'));
  site.start("?max_bytes=" + longest);
  CHECK(site.comes("state", "gap"));
  CHECK(site.status().find(length + " bytes are more than max_bytes, " + longest) != std::string::npos);
  CHECK(site.log.committed() == 1);
  publish(site.folder, "2", 20);
  site.server.serve(20);
  site.send(3, 3);
  CHECK(site.comes("committed", "3"));
}

TEST_CASE("deltas below a bundle go when that serves, and stay where one has its number") {
  if (chain() == nullptr) return;
  Site site;
  site.send(1, 2);
  site.start();
  CHECK(site.comes("committed", "2"));
  publish(site.folder, "1", 11);
  site.send(3, 3);
  CHECK(site.comes("committed", "3"));
  CHECK(site.folder.names() == Names{"v10.h5", "v11.delta", "v11.h5", "v12.delta", "v13.delta"});
  publish(site.folder, "3", 20);
  CHECK(site.comes("waits_for", "20"));
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  CHECK(site.folder.names().size() == 6);
  site.server.serve(20);
  CHECK(site.comes("removed", "3"));
  CHECK(site.folder.names() == Names{"v10.h5", "v11.h5", "v20.h5"});
}

TEST_CASE("without a bundle it waits for one; without a signature that is asked for nothing is written") {
  if (chain() == nullptr) return;
  Site site("");
  site.send(1, 1);
  site.log.send(delta_bytes("signed"));
  site.start("", bytes_of(chain()->file("public")));
  CHECK(site.comes("state", "no_bundle"));
  CHECK(site.folder.names().empty());
  publish(site.folder, "0", 1);
  site.server.serve(1);
  CHECK(site.comes("committed", "2"));
  CHECK(value_of(site.status(), "skipped") == "1");
  CHECK(bytes_of(site.folder.file("v2.delta")) == delta_bytes("signed"));
}

TEST_CASE("the folder is one subscription's; what was half written goes") {
  if (chain() == nullptr) return;
  Site site;
  std::ofstream(site.folder.file(".stream.part")) << "half";
  site.start();
  CHECK(!std::filesystem::exists(site.folder.file(".stream.part")));
  stream::SubscriptionOptions o{*stream::parse_stream_url("fake://here/deltas"), site.folder.path, ""};
  const auto second =
      stream::Subscription::start(fake_api(), o, std::make_unique<ServerFollower>(site.server));
  REQUIRE(!second.ok());
  CHECK(second.status().code() == Code::kInvalidArgument);
  o.folder += "/not there";
  const auto nowhere =
      stream::Subscription::start(fake_api(), o, std::make_unique<ServerFollower>(site.server));
  CHECK(nowhere.status().code() == Code::kNotFound);
}

TEST_CASE("it ends soon, whatever it waits for") {
  if (chain() == nullptr) return;
  for (const bool refused : {false, true}) {
    Site site;
    site.server.at_once = !refused;
    if (refused) site.send(1, 1);
    site.start();
    CHECK(site.comes("state", refused ? "waiting" : "reading"));
    const uint64_t began = monotonic_ns();
    site.subscription.reset();
    CHECK(static_cast<double>(monotonic_ns() - began) * 1e-9 < 5.0);
  }
}

TEST_CASE("a folder that cannot be written to is told, and tried again") {
  if (chain() == nullptr) return;
  Site site;
  site.start();
  CHECK(site.comes("state", "reading"));
  std::filesystem::create_directory(site.folder.file(".stream.part"));  // as good as no room
  site.send(1, 1);
  CHECK(site.comes("state", "error"));
  CHECK(site.server.heard("cannot be created"));
  CHECK(site.log.committed() == -1);
  std::filesystem::remove(site.folder.file(".stream.part"));
  CHECK(site.comes("committed", "1"));
}

}  // namespace dpi::test::subscription_test
