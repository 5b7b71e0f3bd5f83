// Batchers for tests: made and freed, their completions, their status.
#pragma once

#include <dpi/batcher.h>
#include <dpi/metrics.h>
#include <poll.h>

#include <map>

#include "support/endpoint_support.hpp"

namespace dpi::test {

struct BatcherFree {
  void operator()(dpi_batcher* b) const { dpi_batcher_free(b); }
};
using BatcherPtr = std::unique_ptr<dpi_batcher, BatcherFree>;

inline BatcherPtr make_batcher(dpi_model* m, const Pairs& pairs = {}) {
  Error e;
  dpi_batcher* b = nullptr;
  const dpi_status s = dpi_batcher_create(m, options(pairs).get(), &b, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  return BatcherPtr(b);
}

inline std::string status(const dpi_batcher* b) {
  std::string text(dpi_batcher_status_json(b, nullptr, 0) + 256, '\0');
  const size_t n = dpi_batcher_status_json(b, text.data(), text.size());
  text.resize(n > 0 ? n - 1 : 0);
  return text;
}

/// A number of the status; -1: it is not there.
inline long long status_of(const dpi_batcher* b, const std::string& key) {
  const std::string text = status(b), quoted = "\"" + key + "\":";
  const size_t at = text.find(quoted);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + quoted.size()));
}

/// Completions by what their requests were told to be.
using Completions = std::map<uint64_t, dpi_completion>;

/// Takes `n` completions within a while; fewer when the batcher is closed.
inline Completions take(dpi_batcher* b, size_t n) {
  Completions all;
  const uint64_t end = in_ms(60'000);
  while (all.size() < n && in_ms(0) < end) {
    dpi_completion some[8];
    for (dpi_completion& c : some) c.struct_size = sizeof c;
    size_t count = 0;
    Error e;
    const dpi_status s = dpi_batcher_poll(b, some, 8, 100'000, &count, &e);
    if (s == DPI_E_CLOSED) break;
    REQUIRE(s == DPI_OK);
    for (size_t i = 0; i < count; ++i) {
      CHECK(some[i].error.code == some[i].status);
      REQUIRE(all.emplace(some[i].user, some[i]).second);  // one for each
    }
  }
  return all;
}

/// Scores in memory that nobody but their request may write.
struct Scores {
  static constexpr float kUnwritten = -77.0f;
  std::vector<float> out;
  dpi_status status = DPI_E_INTERNAL;
  Error error;

  explicit Scores(size_t n) : out(n, kUnwritten) {}
  bool unwritten() const {
    for (const float x : out) {
      if (x != kUnwritten) return false;
    }
    return true;
  }
  void ask(dpi_batcher* b, const dpi_batch& batch, const dpi_run_options* run = nullptr) {
    status = dpi_batcher_predict(b, &batch, out.data(), out.size(), run, &error);
  }
  uint64_t submit(dpi_batcher* b, const dpi_batch& batch, uint64_t user,
                  const dpi_run_options* run = nullptr) {
    uint64_t ticket = 0;
    status = dpi_batcher_submit(b, &batch, out.data(), out.size(), run, user, &ticket, &error);
    return ticket;
  }
};

}  // namespace dpi::test
