// An endpoint that follows a folder: the highest number wins, bad files are told and hold nothing up, a
// version that was rolled back does not come again, folders may be gone for a while, and the thread ends with
// it.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "support/endpoint_support.hpp"

namespace dpi::test::endpoint_follow_test {
namespace {

namespace fs = std::filesystem;

/// Puts a bundle there as a publisher does: whole, by rename.
void put(const Folder& folder, const std::string& name, const std::string& from) {
  fs::copy_file(from, folder.path + "/.part", fs::copy_options::overwrite_existing);
  fs::rename(folder.path + "/.part", folder.path + "/" + name);
}

EndpointPtr following(const Folder& folder, dpi_env* env = nullptr) {
  EndpointPtr e = make_endpoint("follows", {{"max_contexts", "1"}}, env);
  set(e.get(), "follow_ms", "5");
  set(e.get(), "back_off_ms", "40");
  set(e.get(), "warm_up_rows", "1");
  Error error;
  REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), &error) == DPI_OK);
  return e;
}

bool serves(dpi_endpoint* e, uint64_t number) {
  Error error;
  const dpi_status s = dpi_endpoint_wait(e, number, in_ms(30'000), &error);
  INFO(error.text());
  CHECK(s == DPI_OK);
  return dpi_endpoint_version(e) == number;
}

bool tells(const dpi_endpoint* e, const std::string& text) {
  return soon([&] { return status(e).find(text) != std::string::npos; });
}

/// Looks of the thread that have passed, at the least.
void some_looks() { sleep_ms(100); }

}  // namespace

TEST_CASE("the highest number is loaded, and each higher one that comes") {
  if (versions() == nullptr) return;
  const Folder folder;
  put(folder, "v0002.h5", bundle(2));
  put(folder, "v0010.h5", bundle(10));
  put(folder, "v9.h5", bundle(9));
  for (const char* name :
       {"v11.h5.part", "v12", "x13.h5", "v1x.h5", "v.h5", "v-14.h5", "v99999999999999999999999.h5"})
    put(folder, name, bundle(1));
  fs::create_directory(folder.path + "/v15.h5");
  const EndpointPtr e = following(folder);
  const TagRows rows(4);
  CHECK(serves(e.get(), 10));
  CHECK(ask(e.get(), rows).tag == 10);
  put(folder, "v0011.h5", bundle(11));
  CHECK(serves(e.get(), 11));
  CHECK(ask(e.get(), rows).tag == 11);
  put(folder, "v0003.h5", bundle(3));
  some_looks();
  CHECK(ask(e.get(), rows).version == 11);
  CHECK(status(e.get()).find("\"refused\":[]") != std::string::npos);
}

TEST_CASE("bad files are told, hold nothing up, and are taken when they are replaced") {
  if (versions() == nullptr) return;
  const Folder folder;
  put(folder, "v1.h5", bundle(1));
  const EndpointPtr e = following(folder);
  CHECK(serves(e.get(), 1));
  put(folder, "v8.h5", bundle("truncated"));
  put(folder, "v7.h5", bundle("renamed"));
  CHECK(tells(e.get(), "v8.h5\",\"version\":8,\"tries\":1,\"code\":4,"));
  CHECK(tells(e.get(), "v7.h5\",\"version\":7,\"tries\":1,\"code\":5,"));
  put(folder, "v6.h5", bundle(6));
  CHECK(serves(e.get(), 6));
  some_looks();
  CHECK(status(e.get()).find("\"version\":8,\"tries\":1,") !=
        std::string::npos);  // the file is at fault: not again
  put(folder, "v8.h5", bundle(8));
  CHECK(serves(e.get(), 8));
  fs::remove(folder.path + "/v7.h5");
  CHECK(tells(e.get(), "\"refused\":[]"));
}

TEST_CASE("3000 bad files of higher numbers hold nothing up, and are told once each") {
  if (versions() == nullptr) return;
  const Folder folder;
  constexpr int kBad = 3000;
  for (int i = 0; i < kBad; ++i) {
    const std::string name = folder.path + "/v" + std::to_string(100 + i) + (i % 3 == 0 ? ".delta" : ".h5");
    std::ofstream(name) << "no bundle";
  }
  put(folder, "v2.h5", bundle(2));
  const EndpointPtr e = following(folder);
  CHECK(serves(e.get(), 2));
  CHECK(soon([&] {
    const std::string told = status(e.get());
    int once = 0;
    for (size_t at = 0; (at = told.find("\"tries\":1,", at)) != std::string::npos; ++at) ++once;
    return once == kBad;
  }));
  put(folder, "v3.h5", bundle(3));
  CHECK(serves(e.get(), 3));
}

TEST_CASE("what is no fault of the file is tried again, after pauses") {
  if (versions() == nullptr) return;
  const Folder folder;
  EndpointPtr e = make_endpoint("follows", {{"max_contexts", "1"}, {"memory_limit", "300000"}});
  set(e.get(), "follow_ms", "1");
  set(e.get(), "back_off_ms", "20");
  put(folder, "v3.h5", bundle("large"));
  REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), nullptr) == DPI_OK);
  CHECK(tells(e.get(), "\"version\":3,\"tries\":4,\"code\":6,"));
  CHECK(dpi_endpoint_version(e.get()) == 0);
}

TEST_CASE("a number above the highest that a version may have is refused by name, and holds nothing up") {
  if (versions() == nullptr) return;
  const Folder folder;
  const std::string last = "18446744073709551615", above = "9223372036854775808";
  put(folder, "v" + last + ".h5", bundle(1));
  put(folder, "v" + above + ".h5", bundle(2));
  put(folder, "v7.h5", bundle(7));
  const EndpointPtr e = following(folder);
  CHECK(serves(e.get(), 7));
  for (const auto& n : {last, above}) {
    CHECK(tells(e.get(), "v" + n + ".h5\",\"version\":" + n + ",\"tries\":"));
    CHECK(tells(e.get(), "version " + n + " is above 9223372036854775807"));
  }
  put(folder, "v9223372036854775807.h5", bundle(9));
  CHECK(serves(e.get(), 9223372036854775807));
}

TEST_CASE("a version that was rolled back does not come again; the next one does") {
  if (versions() == nullptr) return;
  const Folder folder;
  put(folder, "v1.h5", bundle(1));
  const EndpointPtr e = following(folder);
  CHECK(serves(e.get(), 1));
  put(folder, "v2.h5", bundle(2));
  CHECK(serves(e.get(), 2));
  REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  some_looks();
  CHECK(dpi_endpoint_version(e.get()) == 1);
  put(folder, "v3.h5", bundle(3));
  CHECK(serves(e.get(), 3));
}

TEST_CASE("what callers of a version that was rolled back relied on is no fault of a file any more") {
  if (versions() == nullptr) return;
  const Folder folder;
  put(folder, "v1.h5", bundle(1));
  const EndpointPtr e = following(folder);
  CHECK(serves(e.get(), 1));
  put(folder, "v2.h5", bundle("milder"));  // takes ids outside the vocabulary
  CHECK(serves(e.get(), 2));
  put(folder, "v3.h5", bundle(3));
  CHECK(tells(e.get(), "v3.h5\",\"version\":3,\"tries\":1,\"code\":5,"));
  REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  CHECK(serves(e.get(), 3));
  CHECK(ask(e.get(), TagRows(4)).tag == 3);
}

TEST_CASE("a folder that is not there is told and looked for; unfollow ends the looks") {
  if (versions() == nullptr) return;
  const Folder top;
  const Folder parts;
  const std::string path = top.path + "/later";
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_WARN);
  const EndpointPtr e = following(top, env.get());
  REQUIRE(dpi_endpoint_follow(e.get(), path.c_str(), nullptr) == DPI_OK);
  CHECK(tells(e.get(),
              "\"follows\":{\"folder\":\"" + path + "\",\"code\":2,\"error\":\"" + path + ": No such file"));
  const std::string unread = "follows: the followed folder cannot be read: " + path;
  CHECK(soon([&] { return heard.find("endpoint", unread, DPI_LOG_WARN) != ""; }));
  some_looks();
  CHECK(heard.count() == 1);  // once, not at each look
  put(parts, "v5.h5", bundle(5));
  fs::rename(parts.path + "/v5.h5", top.path + "/v5.h5.tmp");
  heard.listen(env.get(), DPI_LOG_INFO);
  fs::create_directory(path);
  fs::rename(top.path + "/v5.h5.tmp", path + "/v5.h5");
  CHECK(serves(e.get(), 5));
  CHECK(heard.find("endpoint", "follows: the followed folder can be read again", DPI_LOG_INFO) != "");
  dpi_endpoint_unfollow(e.get());
  CHECK(status(e.get()).find("\"follows\":{") == std::string::npos);
  put(top, "v6.h5", bundle(6));
  fs::rename(top.path + "/v6.h5", path + "/v6.h5");
  some_looks();
  CHECK(dpi_endpoint_version(e.get()) == 5);
}

TEST_CASE("the thread has its name, blocks signals, and ends with the endpoint") {
  const auto threads = [] {
    std::vector<std::string> masks;
    for (const auto& task : fs::directory_iterator("/proc/self/task")) {
      std::string name, line, mask;
      std::getline(std::ifstream(task.path() / "comm"), name);
      std::ifstream status_file(task.path() / "status");
      while (std::getline(status_file, line)) {
        if (line.rfind("SigBlk:", 0) == 0) mask = line.substr(line.find_last_of(" \t") + 1);
      }
      if (name == "dpi-endpoint") masks.push_back(mask);
    }
    return masks;
  };
  {
    const EndpointPtr e = make_endpoint("thread");
    CHECK(soon([&] { return threads().size() == 1; }));
    const uint64_t blocked = std::stoull(threads().at(0), nullptr, 16);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGALRM, SIGCHLD})
      CHECK((blocked >> (signal - 1) & 1) == 1);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE}) CHECK((blocked >> (fault - 1) & 1) == 0);
  }
  CHECK(threads().empty());
}

}  // namespace dpi::test::endpoint_follow_test
