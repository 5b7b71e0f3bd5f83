// What the tests of streams share: the chain of make_chain.py, a folder to follow, and somebody who serves
// it.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "runtime/stream/subscription.hpp"
#include "support/python.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {

/// A new folder in the system's place for temporary files; removed at the end.
struct WorkFolder {
  std::string path;
  WorkFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dpi-stream-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~WorkFolder() { std::filesystem::remove_all(path); }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (const std::string name = entry.path().filename().string(); !name.starts_with('.'))
        found.insert(name);
    return found;
  }
  std::string file(const std::string& name) const { return path + "/" + name; }
};

/// The chain, made once for a test program; null where it cannot be made.
inline const WorkFolder* chain() {
  static const WorkFolder* const kMade = [] {
    static WorkFolder folder;
    return made_by(source_dir() + "/tests/stream/make_chain.py", folder.path) ? &folder : nullptr;
  }();
  return kMade;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), {}};
}
inline std::string delta_bytes(const std::string& name) { return bytes_of(chain()->file(name + ".delta")); }
inline std::string delta_bytes(int n) { return delta_bytes(std::to_string(n)); }

/// A bundle of the chain comes into a folder, by rename.
inline void publish(const WorkFolder& to, const std::string& bundle, uint64_t number) {
  std::filesystem::copy_file(chain()->file(bundle + ".h5"), to.file(".coming"));
  std::filesystem::rename(to.file(".coming"), to.file("v" + std::to_string(number) + ".h5"));
}

/// Waits for it. `seconds` are generous for an idle machine: a loaded one, and a sanitizer, get six times as
/// many.
inline bool within(int seconds, const std::function<bool()>& there) {
  const uint64_t end = monotonic_ns() + 6 * static_cast<uint64_t>(seconds) * 1'000'000'000u;
  while (!there()) {
    if (monotonic_ns() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// The value of "key" in JSON text, as it stands there; "" when there is none.
inline std::string value_of(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\":");
  if (at == std::string::npos) return "";
  const size_t from = at + key.size() + 3;
  if (json[from] == '"') return json.substr(from + 1, json.find('"', from + 1) - from - 1);
  return json.substr(from, json.find_first_of(",}", from) - from);
}

/// What an endpoint would do, decided by the test: which numbers it serves and which files it refuses.
struct Server {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t number = 0;
  bool at_once = true;  // look() serves the newest file that is not refused
  std::string folder;
  std::map<std::string, Status> refused;
  std::vector<std::string> told;
  std::vector<uint64_t> served;

  void serve(uint64_t n) {
    const std::lock_guard<std::mutex> lock(mutex);
    number = n;
    served.push_back(n);
    changed.notify_all();
  }
  void refuse(const std::string& path, Status why) {
    const std::lock_guard<std::mutex> lock(mutex);
    refused[path] = std::move(why);
  }
  bool heard(const std::string& part) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const std::string& t : told)
      if (t.find(part) != std::string::npos) return true;
    return false;
  }
};

struct ServerFollower final : stream::Follower {
  explicit ServerFollower(Server& server) : s(server) {}
  uint64_t serving() const override {
    const std::lock_guard<std::mutex> lock(s.mutex);
    return s.number;
  }
  Status refusal(const std::string& path) const override {
    const std::lock_guard<std::mutex> lock(s.mutex);
    const auto found = s.refused.find(path);
    return found != s.refused.end() ? found->second : Status();
  }
  void look() override {
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.at_once) return;
    uint64_t newest = s.number;
    for (const auto& entry : std::filesystem::directory_iterator(s.folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with('v') && !s.refused.contains(entry.path().string()))
        newest = std::max<uint64_t>(newest, std::stoull(name.substr(1)));
    }
    if (newest != s.number) s.served.push_back(newest);
    s.number = newest;
    s.changed.notify_all();
  }
  void wait(uint64_t number, uint64_t deadline_ns) override {
    const std::chrono::steady_clock::time_point end{std::chrono::nanoseconds(deadline_ns)};
    std::unique_lock<std::mutex> lock(s.mutex);
    s.changed.wait_until(lock, end, [&] { return s.number >= number; });
  }
  void tell(LogLevel level, const std::string& text) const override {
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (level >= LogLevel::kWarn) s.told.push_back(text);
  }
  Server& s;
};

using SubscriptionPtr = std::unique_ptr<stream::Subscription>;

inline SubscriptionPtr subscribe(const dpi_stream_api& api, Server& server, const std::string& url,
                                 const std::string& require_signature = {}) {
  auto parsed = stream::parse_stream_url(url);
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().message());
  stream::SubscriptionOptions o{*parsed, server.folder, require_signature};
  auto made = stream::Subscription::start(api, o, std::make_unique<ServerFollower>(server));
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  return std::move(made).value();
}

inline bool comes(const SubscriptionPtr& s, const std::string& key, const std::string& value,
                  int seconds = 10) {
  const bool well = within(seconds, [&] { return value_of(s->status_json(), key) == value; });
  INFO(s->status_json());
  CHECK(well);
  return well;
}

}  // namespace dpi::test
