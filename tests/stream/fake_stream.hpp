// A stream in memory behind the plugins' interface. What the test sees and a broker would not tell: which
// offset was committed when.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "runtime/stream/abi/dpi_stream.h"

namespace dpi::test {

struct FakeLog {
  struct Message {
    std::string bytes;
    int32_t part = 0, parts = 1;
    int64_t timestamp_ms = -1;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Message> messages;
  std::vector<int64_t> commits;
  int64_t stored = -1;  // what a new reader begins with
  int rewinds = 0;

  void send(std::string bytes, int32_t part = 0, int32_t parts = 1) {
    const std::lock_guard<std::mutex> lock(mutex);
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    messages.push_back({std::move(bytes), part, parts, int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000});
    changed.notify_all();
  }
  int64_t committed() {
    const std::lock_guard<std::mutex> lock(mutex);
    return stored;
  }
  int times_rewound() {
    const std::lock_guard<std::mutex> lock(mutex);
    return rewinds;
  }
};

/// Topics of the fake streams.
inline std::map<std::string, FakeLog*>& fake_logs() {
  static std::map<std::string, FakeLog*> logs;
  return logs;
}

}  // namespace dpi::test

struct dpi_stream_handle {
  dpi::test::FakeLog* log = nullptr;
  int64_t at = 0, max_bytes = 0;
  bool ended = false, woken = false;
  std::string bytes;
};

namespace dpi::test {

inline int32_t fake_next(dpi_stream_handle* h, int32_t timeout_ms, dpi_stream_message* out,
                         dpi_stream_error*) {
  std::unique_lock<std::mutex> lock(h->log->mutex);
  *out = {};
  const auto there = [&] { return h->woken || h->at < static_cast<int64_t>(h->log->messages.size()); };
  if (!there() && !h->ended) {
    h->ended = true;
    out->kind = DPI_STREAM_END;
    out->offset = h->at;
    return 0;
  }
  h->log->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), there);
  if (h->woken || !there()) return 0;
  const FakeLog::Message& m = h->log->messages[static_cast<size_t>(h->at)];
  h->bytes = m.bytes;
  h->ended = false;
  out->kind = DPI_STREAM_MESSAGE;
  out->part = m.part;
  out->parts = m.parts;
  out->bytes = static_cast<int64_t>(m.bytes.size());
  if (out->bytes <= h->max_bytes) out->data = reinterpret_cast<const unsigned char*>(h->bytes.data());
  out->offset = h->at++;
  out->timestamp_ms = m.timestamp_ms;
  return 0;
}

inline const dpi_stream_api& fake_api() {
  static const dpi_stream_api kApi = {
      DPI_STREAM_ABI,
      sizeof(dpi_stream_api),
      "fake",
      [](const dpi_stream_options* o, dpi_stream_handle** out, dpi_stream_error*) -> int32_t {
        FakeLog* log = fake_logs().at(o->topic);
        *out = new dpi_stream_handle{log, log->stored < 0 ? 0 : log->stored, o->max_bytes, false, false, ""};
        return 0;
      },
      [](dpi_stream_handle* h) { delete h; },
      fake_next,
      [](dpi_stream_handle* h) {
        const std::lock_guard<std::mutex> lock(h->log->mutex);
        h->woken = true;
        h->log->changed.notify_all();
      },
      [](dpi_stream_handle* h, dpi_stream_error*) -> int32_t {
        const std::lock_guard<std::mutex> lock(h->log->mutex);
        h->at = 0;
        h->ended = false;
        ++h->log->rewinds;
        return 0;
      },
      [](dpi_stream_handle* h, int64_t offset) {
        const std::lock_guard<std::mutex> lock(h->log->mutex);
        h->log->stored = offset;
        h->log->commits.push_back(offset);
      },
      [](dpi_stream_handle* h, dpi_stream_state* out) {
        const std::lock_guard<std::mutex> lock(h->log->mutex);
        *out = {};
        out->end = static_cast<int64_t>(h->log->messages.size());
        out->committed = h->log->stored;
      }};
  return kApi;
}

}  // namespace dpi::test
