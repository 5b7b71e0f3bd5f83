// Deltas whose rows are not those of the version that they name, with digests of their own that are right: an
// endpoint believes none, whatever it keeps of the version before, and the next good delta starts from what
// serves. The files of make_forged.py; what is right is what a fresh load of the whole bundle scores.
#include <cstring>
#include <filesystem>

#include "support/endpoint_support.hpp"

namespace dpi::test::endpoint_believed_test {
namespace {

namespace fs = std::filesystem;

/// The bundles of make_forged.py, made once for a test program; null where they cannot be made.
const Folder* forged() {
  static const Folder* const kMade = [] {
    static Folder folder;
    return made_by(source_dir() + "/tests/capi/make_forged.py", folder.path) ? &folder : nullptr;
  }();
  return kMade;
}
std::string file(const std::string& name) { return forged()->path + "/" + name; }

/// Rows that look up every id that some version changes, and others.
struct Rows {
  std::vector<int64_t> ids;
  dpi_batch batch{};

  explicit Rows(const std::string& form) {
    std::ifstream in(file(form + ".ids"), std::ios::binary);
    for (int64_t key = 0; in.read(reinterpret_cast<char*>(&key), sizeof key);) {
      ids.push_back(key);
      ids.push_back(static_cast<int64_t>(ids.size() / 2 % 16));
    }
    REQUIRE(ids.size() > 200);
    batch.struct_size = sizeof batch;
    batch.rows = static_cast<int64_t>(ids.size() / 2);
    batch.ids = ids.data();
    batch.nnz = static_cast<int64_t>(ids.size());
  }
};

std::vector<float> score(dpi_endpoint* e, const Rows& rows) {
  std::vector<float> out(static_cast<size_t>(rows.batch.rows), -1.0f);
  Error error;
  const dpi_status s = dpi_endpoint_predict(e, &rows.batch, out.data(), out.size(), nullptr, &error);
  INFO(error.text());
  REQUIRE(s == DPI_OK);
  return out;
}

/// What a fresh load of the whole bundle scores.
std::vector<float> want(const std::string& bundle, const Rows& rows, const Pairs& pairs) {
  const EnvPtr env = make_env();
  const EndpointPtr e = make_endpoint("whole", pairs, env.get());
  load(e.get(), file(bundle));
  return score(e.get(), rows);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// All of a form's forged deltas on version 0, then the good ones.
void check_form(const std::string& form, const Pairs& pairs, bool hashed) {
  const Rows rows(form);
  const EnvPtr env = make_env();
  const EndpointPtr e = make_endpoint("believes", pairs, env.get());
  load(e.get(), file(form + "0.h5"), 1);
  if (hashed) wait_for_hashes(e.get());
  const std::vector<float> before = score(e.get(), rows);
  CHECK(same_bits(before, want(form + "0.h5", rows, pairs)));
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(forged()->path)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(form + "-")) continue;
    CAPTURE(name);
    ++seen;
    Error error;
    CHECK(dpi_endpoint_load(e.get(), entry.path().c_str(), 2, &error) == DPI_E_BAD_MODEL);
    INFO(error.text());
    CHECK(error.text().find(name) != std::string::npos);
    CHECK(status(e.get()).find("\"version\":1,") != std::string::npos);
    CHECK(same_bits(score(e.get(), rows), before));
  }
  CHECK(seen >= 5);
  for (int v = 1; v < 3; ++v) {
    CAPTURE(v);
    load(e.get(), file(form + std::to_string(v - 1) + ".delta"));
    CHECK(same_bits(score(e.get(), rows), want(form + std::to_string(v) + ".h5", rows, pairs)));
  }
}

}  // namespace

TEST_CASE("a delta whose rows are not the new version's is refused, and the next good one applies") {
  if (forged() == nullptr) return;
  const std::vector<Pairs> kept{{{"max_contexts", "1"}},
                                {{"max_contexts", "1"}, {"store.share", "off"}},
                                {{"max_contexts", "1"}, {"debug.fold", "off"}}};
  for (const std::string form : {"f32", "i8", "keyed", "linear"}) {
    CAPTURE(form);
    for (size_t i = 0; i < kept.size(); ++i) {
      CAPTURE(i);
      check_form(form, kept[i], i != 1);
    }
  }
}

TEST_CASE("in a tier and in other types too") {
  if (forged() == nullptr || device() != "cpu") return;
  for (const std::string form : {"f32", "keyed"}) {
    CAPTURE(form);
    check_form(form, {{"max_contexts", "1"}, {"store.host_bytes", "2000000"}, {"store.resident_bytes", "0"}},
               true);
    check_form(form, {{"max_contexts", "1"}, {"precision", "bf16"}}, true);
  }
}

TEST_CASE("two processes on one folder serve the same: a running endpoint refuses what a new one does") {
  if (forged() == nullptr) return;
  const Rows rows("f32");
  const Folder folder;
  fs::copy_file(file("f320.h5"), folder.path + "/v1.h5");
  const auto follow = [&](const char* name) {
    EndpointPtr e = make_endpoint(name, {{"max_contexts", "1"}});
    set(e.get(), "follow_ms", "5");
    REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), nullptr) == DPI_OK);
    REQUIRE(dpi_endpoint_wait(e.get(), 1, in_ms(30'000), nullptr) == DPI_OK);
    return e;
  };
  const EndpointPtr running = follow("running");
  fs::copy_file(file("f32-row.forged"), folder.path + "/v2.delta");
  const auto refuses = [](const dpi_endpoint* e) {
    return soon(
        [&] { return status(e).find("the delta's result does not match its hash") != std::string::npos; });
  };
  CHECK(refuses(running.get()));
  const EndpointPtr fresh = follow("fresh");
  CHECK(refuses(fresh.get()));
  CHECK(same_bits(score(running.get(), rows), score(fresh.get(), rows)));
  fs::copy_file(file("f320.delta"), folder.path + "/v3.delta");
  for (dpi_endpoint* e : {running.get(), fresh.get()}) {
    REQUIRE(dpi_endpoint_wait(e, 3, in_ms(30'000), nullptr) == DPI_OK);
    CHECK(same_bits(score(e, rows), want("f321.h5", rows, {{"max_contexts", "1"}})));
  }
}

TEST_CASE("of a table of five leaves, a delta of rows side by side has one read") {
  if (forged() == nullptr) return;
  const EndpointPtr e = make_endpoint("near", {{"max_contexts", "1"}});
  load(e.get(), file("near0.h5"));
  wait_for_hashes(e.get());
  const uint64_t before = bytes_read();
  load(e.get(), file("near.delta"));
  const uint64_t read = bytes_read() - before;
  MESSAGE("read ", read, " bytes");
  CHECK(read < (uint64_t{3} << 19));
  CHECK(is_hashed(e.get()));
}

TEST_CASE("rows that moved are read again, though they are the base's") {
  if (forged() == nullptr) return;
  const EndpointPtr e = make_endpoint("gone", {{"max_contexts", "1"}});
  load(e.get(), file("gone0.h5"), 1);
  wait_for_hashes(e.get());
  load(e.get(), file("gone.delta"), 2);
  CHECK(status(e.get()).find("\"version\":2,") != std::string::npos);
}

}  // namespace dpi::test::endpoint_believed_test
