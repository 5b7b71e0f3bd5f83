// Deltas that an endpoint applies while it serves: what they make is the version that the whole bundle makes,
// what is refused changes nothing, tables that no delta names are neither read nor copied, chains are folded,
// and a followed folder goes by the way that leads furthest.
#include <filesystem>

#include "support/endpoint_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::endpoint_delta_test {
namespace {

namespace fs = std::filesystem;

std::string delta(const std::string& name) { return versions()->path + "/" + name + ".delta"; }
std::string delta(int n) { return delta(std::to_string(n)); }

void put(const Folder& folder, const std::string& name, const std::string& from) {
  fs::copy_file(from, folder.path + "/.part", fs::copy_options::overwrite_existing);
  fs::rename(folder.path + "/.part", folder.path + "/" + name);
}

void check_refused(dpi_endpoint* e, const std::string& path, dpi_status code, const std::string& why) {
  CAPTURE(path);
  const TagRows rows(5);
  const Answer before = ask(e, rows);
  Error error;
  CHECK(dpi_endpoint_load(e, path.c_str(), 0, &error) == code);
  INFO(error.text());
  CHECK(error.text().find(why) != std::string::npos);
  const Answer after = ask(e, rows);
  CHECK(after.code == before.code);
  CHECK(after.tag == before.tag);
  CHECK(after.version == before.version);
}

std::string digest_of(dpi_endpoint* e) {
  const std::string told = status(e);
  return told.substr(told.find("\"digest\""), 30);
}

size_t count_open_files() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

EndpointPtr following(const Folder& folder, dpi_env* env = nullptr) {
  EndpointPtr e = make_endpoint("follows", {{"max_contexts", "1"}}, env);
  set(e.get(), "follow_ms", "5");
  set(e.get(), "back_off_ms", "40");
  set(e.get(), "warm_up_rows", "1");
  REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), nullptr) == DPI_OK);
  return e;
}

bool serves(dpi_endpoint* e, uint64_t number, int tag) {
  Error error;
  const dpi_status s = dpi_endpoint_wait(e, number, in_ms(30'000), &error);
  INFO(error.text());
  INFO(status(e));
  CHECK(s == DPI_OK);
  const Answer a = ask(e, TagRows(4));
  CHECK(a.version == number);
  return a.tag == tag;
}

bool tells(const dpi_endpoint* e, const std::string& text) {
  return soon([&] { return status(e).find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("a delta makes the version that the whole bundle makes, again and again") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("deltas", {{"max_contexts", "1"}});
  const EndpointPtr whole = make_endpoint("whole", {{"max_contexts", "1"}});
  const TagRows rows(6);
  load(e.get(), bundle(0), 1);
  for (int n = 0; n < 20; ++n) {
    load(e.get(), delta(n % kTags), static_cast<uint64_t>(n) + 2);
    load(whole.get(), bundle((n + 1) % kTags));
    const Answer a = ask(e.get(), rows);
    CHECK(a.tag == (n + 1) % kTags);
    CHECK(a.version == static_cast<uint64_t>(n) + 2);
    CHECK(digest_of(e.get()) == digest_of(whole.get()));
  }
  REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  CHECK(ask(e.get(), rows).tag == 19 % kTags);
  load(e.get(), delta(19 % kTags), 30);  // starts from what serves now
  CHECK(ask(e.get(), rows).tag == 20 % kTags);
}

TEST_CASE("a delta that was had changes nothing; a gap is refused with both hashes") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("deltas", {{"max_contexts", "1"}});
  const TagRows rows(6);
  check_refused(e.get(), delta(0), DPI_E_BAD_MODEL, "is a delta, and the endpoint has no version");
  load(e.get(), bundle(0), 1);
  for (int n = 0; n < 3; ++n) load(e.get(), delta(n), static_cast<uint64_t>(n) + 2);
  for (const int had : {2, 0, 1}) load(e.get(), delta(had), static_cast<uint64_t>(had) + 2);
  const Answer a = ask(e.get(), rows);
  CHECK(a.tag == 3);
  CHECK(a.version == 4);
  CHECK(status(e.get()).find("\"loads\":4,") != std::string::npos);
  Error error;
  REQUIRE(dpi_endpoint_load(e.get(), delta(7).c_str(), 9, &error) == DPI_E_BAD_MODEL);
  const std::string why = error.text();
  INFO(why);
  const size_t from = why.find("7.delta: starts from version "), is = why.find(" is version ");
  REQUIRE(from != std::string::npos);
  REQUIRE(is != std::string::npos);
  const std::string wanted = why.substr(from + 29, 64), found = why.substr(is + 12, 64);
  CHECK(wanted.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(found.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(wanted != found);
  CHECK(ask(e.get(), rows).tag == 3);
}

TEST_CASE("what fails any check of a version leaves the old one") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("deltas", {{"max_contexts", "1"}});
  load(e.get(), bundle(0), 1);
  check_refused(e.get(), delta("damaged"), DPI_E_BAD_MODEL, "damaged");
  check_refused(e.get(), delta("wrong_golden"), DPI_E_BAD_MODEL, "golden row");
  check_refused(e.get(), delta("none"), DPI_E_NOT_FOUND, "none.delta");
  load(e.get(), delta(0));
  std::ifstream public_key(versions()->path + "/public");
  std::string key;
  public_key >> key;
  const EndpointPtr strict = make_endpoint("signed", {{"max_contexts", "1"}, {"require_signature", key}});
  load(strict.get(), bundle("signed"), 1);
  check_refused(strict.get(), delta("unsigned"), DPI_E_BAD_MODEL, "sign");
  load(strict.get(), delta("signed"), 2);
  CHECK(ask(strict.get(), TagRows(3)).tag == 1);
}

TEST_CASE("a delta that is cut off or has any byte changed is refused, or is what it was") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("deltas", {{"max_contexts", "1"}});
  set(e.get(), "warm_up_rows", "0");
  load(e.get(), bundle(0));
  std::ifstream file(delta(0), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const Folder folder;
  const TagRows rows(5);
  const size_t probes = DPI_UNDER_TSAN || DPI_UNDER_ASAN || device() == "cuda_emu" ? 100 : 1000;
  int refused = 0;
  for (size_t i = 0; i < probes; ++i) {
    const size_t at = i * (whole.size() - 1) / (probes - 1);
    std::string bytes = whole;
    i % 2 == 0 ? bytes.resize(at)
               : static_cast<void>(bytes[at] = static_cast<char>(bytes[at] ^ (1 << i % 8)));
    const dpi_status s = dpi_endpoint_load(e.get(), folder.write("v.delta", bytes).c_str(), 0, nullptr);
    if (s == DPI_OK) {  // a byte that nothing reads
      CHECK(ask(e.get(), rows).tag == 1);
      REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
    }
    refused += s != DPI_OK;
    CHECK(ask(e.get(), rows).tag == 0);
  }
  MESSAGE(refused, " of ", probes, " were refused");
  CHECK(refused > static_cast<int>(probes) * 9 / 10);
  load(e.get(), delta(0));
  CHECK(ask(e.get(), rows).tag == 1);
}

TEST_CASE("a table that no delta names is neither read nor held twice") {
  if (versions() == nullptr) return;
  for (const auto& [fold, shared] : {std::pair("off", true), {"on", true}, {"on", false}}) {
    CAPTURE(fold);
    CAPTURE(shared);
    const EndpointPtr e = make_endpoint(
        "wide", {{"max_contexts", "1"}, {"debug.fold", fold}, {"store.share", shared ? "on" : "off"}});
    load(e.get(), bundle("wide0"), 1);
    wait_for_hashes(e.get());
    const uint64_t before = bytes_read();
    load(e.get(), delta("wide"), 2);
    const uint64_t read = bytes_read() - before;
    MESSAGE("read ", read, " bytes");
    CHECK((read < (uint64_t{2} << 20)) == shared);
    const Answer a = ask(e.get(), TagRows(4));
    CHECK(a.code == DPI_OK);
    std::vector<float> out(4);
    const TagRows rows(4);
    REQUIRE(dpi_endpoint_predict(e.get(), &rows.batch, out.data(), 4, nullptr, nullptr) == DPI_OK);
    for (size_t r = 0; r < 4; ++r) CHECK(out[r] == 0.5f + 1.0f + 64.0f + rows.key(r));
  }
}

TEST_CASE("a long chain is folded: files that are open do not grow with it") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("chain", {{"max_contexts", "1"}});
  set(e.get(), "keep_seconds", "0");
  set(e.get(), "warm_up_rows", "0");
  load(e.get(), bundle(0), 1);
  const size_t before = count_open_files();
  size_t most = 0;
  for (int n = 0; n < 200; ++n) {
    load(e.get(), delta(n % kTags));
    most = std::max(most, count_open_files());
  }
  CHECK(ask(e.get(), TagRows(4)).tag == 200 % kTags);
  CHECK(most <= before + 64);
  CHECK(count_open_files() == before + 200 % 64);
}

TEST_CASE("a followed folder goes by the deltas from what serves, and by a bundle where they lead nowhere") {
  if (versions() == nullptr) return;
  const Folder folder;
  put(folder, "v10.h5", bundle(0));
  put(folder, "v11.delta", delta(0));
  put(folder, "v0012.delta", delta(1));
  put(folder, "vx13.delta", delta(2));
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_WARN);
  const EndpointPtr e = following(folder, env.get());
  CHECK(serves(e.get(), 12, 2));
  put(folder, "v14.delta", delta(3));  // 13 is not there
  CHECK(tells(e.get(), "v14.delta\",\"version\":14,\"tries\":1,\"code\":4,\"error\":"));
  CHECK(status(e.get()).find("which no file of the folder leads to from version ") != std::string::npos);
  CHECK(ask(e.get(), TagRows(4)).version == 12);
  put(folder, "v13.delta", delta(2));
  CHECK(serves(e.get(), 14, 4));
  CHECK(heard.find("endpoint",
                   "follows: a delta is held back: " + folder.path + "/v14.delta: starts from version ",
                   DPI_LOG_WARN) != "");
  CHECK(heard.count() == 1);  // told once, though looked at each time
  CHECK(tells(e.get(), "\"refused\":[]"));
  put(folder, "v16.delta", delta("damaged"));  // head and all: from 0.h5
  put(folder, "v17.h5", bundle(9));
  CHECK(serves(e.get(), 17, 9));
  put(folder, "v18.delta", delta(9));
  CHECK(serves(e.get(), 18, 10));
}

TEST_CASE("a damaged link holds up what is behind it until it is replaced") {
  if (versions() == nullptr) return;
  const Folder folder;
  put(folder, "v1.h5", bundle(0));
  const EndpointPtr e = following(folder);
  CHECK(serves(e.get(), 1, 0));
  put(folder, "v3.delta", delta(1));
  put(folder, "v2.delta", delta("damaged"));
  CHECK(tells(e.get(), "v2.delta\",\"version\":2,\"tries\":1,\"code\":4,"));
  CHECK(ask(e.get(), TagRows(4)).version == 1);
  put(folder, "v2.delta", delta(0));
  CHECK(serves(e.get(), 3, 2));
}

TEST_CASE("deltas that lead back to what serves give their number; so do those behind a bundle") {
  if (versions() == nullptr) return;
  const Folder round, behind;
  put(round, "v1.h5", bundle(0));
  const EndpointPtr e = following(round);
  CHECK(serves(e.get(), 1, 0));
  for (int n = kTags - 1; n >= 0; --n) put(round, "v" + std::to_string(n + 2) + ".delta", delta(n));
  CHECK(serves(e.get(), kTags + 1, 0));
  put(behind, "v4.h5", bundle(2));
  put(behind, "v5.delta", delta(2));
  const EndpointPtr begun = make_endpoint("begun", {{"max_contexts", "1"}});
  load(begun.get(), bundle(3));
  set(begun.get(), "follow_ms", "5");
  REQUIRE(dpi_endpoint_follow(begun.get(), behind.path.c_str(), nullptr) == DPI_OK);
  CHECK(serves(begun.get(), 5, 3));
}

// Planted, seen: runtime/endpoint_refused_between (tests/mutants).
TEST_CASE("a delta is not refused for a load that came between the look and its turn") {
  if (versions() == nullptr) return;
  const Folder folder;
  put(folder, "v1.h5", bundle(0));
  const EndpointPtr e = following(folder);
  CHECK(serves(e.get(), 1, 0));
  set(e.get(), "update.bytes_per_second", "300");  // a second for the two tables
  std::thread loader([&] { load(e.get(), bundle(5), 2); });
  CHECK(tells(e.get(), "\"loading\":{\"path\":\"" + bundle(5)));  // not the end of the load of v1.h5
  set(e.get(), "update.bytes_per_second", "0");
  put(folder, "v3.delta", delta(0));  // from what serves until the load is done
  loader.join();
  CHECK(serves(e.get(), 3, 1));
}

TEST_CASE("a load reads no faster than update.bytes_per_second") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("rate", {{"max_contexts", "1"}});
  set(e.get(), "update.bytes_per_second", "80000000");
  const auto began = std::chrono::steady_clock::now();
  load(e.get(), bundle("wide0"), 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  CHECK(took.count() >= 163840.0 * 64 * 4 / 80e6 * 0.9);
  Error error;
  CHECK(dpi_endpoint_set(e.get(), "update.bytes_per_second", "-1", &error) == DPI_E_INVALID_ARGUMENT);
}

}  // namespace dpi::test::endpoint_delta_test
