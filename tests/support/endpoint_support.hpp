// Endpoints over the bundles of make_versions.py, whose scores tell which one computed them.
#pragma once

#include <dpi/endpoint.h>
#include <time.h>

#include <cmath>
#include <fstream>

#include "support/env_support.hpp"
#include "support/python.hpp"
#include "support/sleep.hpp"

namespace dpi::test {

struct EndpointFree {
  void operator()(dpi_endpoint* e) const { dpi_endpoint_free(e); }
};
using EndpointPtr = std::unique_ptr<dpi_endpoint, EndpointFree>;

constexpr int kTags = 16;

/// The bundles, made once for a test program; null where they cannot be made.
inline const Folder* versions() {
  static const Folder* const kMade = [] {
    static Folder folder;
    return made_by(source_dir() + "/tests/capi/make_versions.py", folder.path) ? &folder : nullptr;
  }();
  return kMade;
}
inline std::string bundle(const std::string& name) { return versions()->path + "/" + name + ".h5"; }
inline std::string bundle(int n) { return bundle(std::to_string(n)); }

inline EndpointPtr make_endpoint(const char* name, Pairs pairs = {}, dpi_env* env = nullptr) {
  pairs.emplace_back("device", device());
  const OptionsPtr o = options(pairs);
  Error e;
  REQUIRE(dpi_options_set_env(o.get(), env, &e) == DPI_OK);
  dpi_endpoint* made = nullptr;
  const dpi_status s = dpi_endpoint_create(name, o.get(), &made, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  return EndpointPtr(made);
}

inline void set(dpi_endpoint* e, const char* key, const std::string& value) {
  Error error;
  const dpi_status s = dpi_endpoint_set(e, key, value.c_str(), &error);
  INFO(error.text());
  REQUIRE(s == DPI_OK);
}

inline void load(dpi_endpoint* e, const std::string& path, uint64_t number = 0) {
  Error error;
  const dpi_status s = dpi_endpoint_load(e, path.c_str(), number, &error);
  INFO(error.text());
  REQUIRE(s == DPI_OK);
}

inline std::string status(const dpi_endpoint* e) {
  std::string text(dpi_endpoint_status_json(e, nullptr, 0) + 4096, '\0');
  const size_t n = dpi_endpoint_status_json(e, text.data(), text.size());
  text.resize(n > 0 ? n - 1 : 0);
  return text;
}

/// Bytes that the process has read from files so far.
inline uint64_t bytes_read() {
  std::ifstream in("/proc/self/io");
  std::string key;
  uint64_t n = 0;
  in >> key >> n;
  return n;
}

/// Whether the endpoint's thread has read what serves, for the next delta.
inline bool is_hashed(const dpi_endpoint* e) {
  return status(e).find("\"unhashed_bytes\"") == std::string::npos;
}

/// Rows of ids [0, 16) and what bundle 0 scores less than the tag's part of it.
struct TagRows {
  std::vector<int64_t> ids;
  dpi_batch batch{};

  explicit TagRows(int64_t rows) {
    for (int64_t i = 0; i < 2 * rows; ++i) ids.push_back((i * 7 + i / 5) % kTags);
    batch.struct_size = sizeof batch;
    batch.rows = rows;
    batch.ids = ids.data();
    batch.nnz = 2 * rows;
  }
  /// Which bundle computed all of these scores; -1: none did, or several.
  int tag(const std::vector<float>& scores) const {
    const auto n = static_cast<int>(std::lround((scores[0] - key(0)) / 33.0f)) - 1;
    for (size_t r = 0; r < scores.size(); ++r) {
      if (scores[r] != 33.0f * static_cast<float>(n + 1) + key(r)) return -1;
    }
    return n;
  }
  float key(size_t row) const { return static_cast<float>(ids[2 * row] + ids[2 * row + 1]) / 1024.0f; }
};

/// Scores of one call and the version that says it made them.
struct Answer {
  dpi_status code = DPI_E_INTERNAL;
  std::string text;
  int tag = -1;
  uint64_t version = 0;
};

/// One call; *out gets a score a row. The tag is the caller's to find.
inline Answer ask(dpi_endpoint* e, const dpi_batch& batch, std::vector<float>* out) {
  Answer a;
  out->assign(static_cast<size_t>(batch.rows), -1.0f);
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  run.version = &a.version;
  Error error;
  a.code = dpi_endpoint_predict(e, &batch, out->data(), out->size(), &run, &error);
  a.text = error.text();
  return a;
}

inline Answer ask(dpi_endpoint* e, const TagRows& rows) {
  std::vector<float> out;
  Answer a = ask(e, rows.batch, &out);
  if (a.code == DPI_OK) a.tag = rows.tag(out);
  return a;
}

inline uint64_t in_ms(int64_t ms) {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec) +
         static_cast<uint64_t>(ms) * 1'000'000u;
}

/// Whether `there()` becomes true within a while.
template <class There>
bool soon(There&& there) {
  for (int i = 0; i < 3000; ++i) {
    if (there()) return true;
    sleep_ms(10);
  }
  return false;
}

inline void wait_for_hashes(const dpi_endpoint* e) {
  REQUIRE(soon([&] { return is_hashed(e); }));
}

}  // namespace dpi::test
