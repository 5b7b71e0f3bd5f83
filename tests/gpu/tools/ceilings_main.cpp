// gpu_ceilings [--dry] [--fields ROWS,ROWS... --row-bytes N --batch N]: what the machine can do at best, one
// JSON line per number. Copies, gathers of random rows by row size and table size, transfers over the bus,
// kernels that read pinned memory, empty graphs; with --fields the rows that a model's lookup reads and
// writes, one id of each field uniformly at random, by a kernel that does nothing else. gpu_ceilings runs on
// the GPU; gpu_ceilings_emu is the same program on the emulated device, where times mean nothing. Used by
// stages/a4_ceilings.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/layer/device_layer.hpp"
#include "tests/gpu/tools/ceilings.hpp"

namespace dpi::gpu {
namespace {

namespace layer = backend::layer;
using Clock = std::chrono::steady_clock;

bool g_dry = false;

void need(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": " + layer::error_text(code));
}

struct Device {
  void* stream = nullptr;
  void* from = nullptr;
  void* to = nullptr;
  int multiprocessors = 1;
};

struct Memory {
  void* p = nullptr;
  bool pinned = false;
  explicit Memory(size_t bytes, bool on_host = false) : pinned(on_host) {
    need(on_host ? layer::pinned_alloc(bytes, &p) : layer::device_alloc(bytes, &p), "memory");
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { pinned ? layer::pinned_free(p) : layer::device_free(p); }
};

/// Microseconds of one run of `work` on the device: the best of five rounds of `n` runs.
template <class F>
double device_us(const Device& d, int n, F work) {
  need(work(), "kernel");
  double best = 1e30;
  for (int round = 0; round < (g_dry ? 1 : 5); ++round) {
    need(layer::event_record(d.from, d.stream), "event");
    for (int i = 0; i < n; ++i) need(work(), "kernel");
    need(layer::event_record(d.to, d.stream), "event");
    need(layer::stream_synchronize(d.stream), "synchronise");
    float ms = 0;
    need(layer::event_elapsed(d.from, d.to, &ms), "elapsed");
    best = std::min(best, ms * 1e3 / n);
  }
  return best;
}

/// Median host microseconds from the start of `work` until the stream is idle.
template <class F>
double host_us(const Device& d, F work) {
  std::vector<double> us(g_dry ? 3 : 400);
  for (double& t : us) {
    const auto start = Clock::now();
    need(work(), "work");
    need(layer::stream_synchronize(d.stream), "synchronise");
    t = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  std::nth_element(us.begin(), us.begin() + static_cast<std::ptrdiff_t>(us.size() / 2), us.end());
  return us[us.size() / 2];
}

void print(const char* what, const std::string& rest, double us) {
  std::printf("{\"what\": \"%s\", %s, \"us\": %.3f}\n", what, rest.c_str(), us);
  std::fflush(stdout);
}

std::string rate(double bytes, double us) {
  return "\"gb_s\": " + std::to_string(us > 0 ? bytes / us * 1e-3 : 0.0);
}

std::string number(const char* key, int64_t value) {
  return "\"" + std::string(key) + "\": " + std::to_string(value);
}

void copies(const Device& d) {
  for (const int64_t bytes : {int64_t{1} << 25, int64_t{1} << 32}) {  // both within L2, and far beyond it
    const int64_t size = g_dry ? 4096 : bytes;
    const Memory a(static_cast<size_t>(size)), b(static_cast<size_t>(size));
    const double us =
        device_us(d, g_dry ? 1 : 10, [&] { return copy(b.p, a.p, size / 16, d.multiprocessors, d.stream); });
    print("copy", number("bytes", size) + ", " + rate(2.0 * static_cast<double>(size), us), us);
  }
}

void gathers(const Device& d) {
  for (const int64_t table : {int64_t{1} << 25, int64_t{1} << 30, int64_t{20} << 30}) {
    const int64_t size = g_dry ? 65536 : table;
    const Memory rows(static_cast<size_t>(size)), sink(16);
    for (const int32_t bytes : {32, 64, 128, 256, 512}) {
      const int64_t count = g_dry ? 256 : int64_t{1} << 22;
      uint32_t seed = 0;
      const double us = device_us(d, g_dry ? 1 : 8, [&] {
        return gather({rows.p, sink.p, size / bytes, count, bytes / 16, ++seed, d.multiprocessors}, d.stream);
      });
      print("gather",
            number("table_bytes", size) + ", " + number("row_bytes", bytes) + ", " +
                rate(static_cast<double>(count) * bytes, us),
            us);
    }
  }
}

/// --fields: one table per field, one after another in one block.
struct Fields {
  std::vector<int64_t> rows;
  int32_t row_bytes = 0;
  int64_t batch = 0;
};

/// [sets, batch, fields], rows of the block.
std::vector<int32_t> random_ids(const Fields& f, int sets) {
  std::vector<int32_t> ids;
  uint64_t state = 1;
  for (int64_t i = 0; i < sets * f.batch; ++i) {
    int64_t first = 0;
    for (const int64_t rows : f.rows) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      ids.push_back(
          static_cast<int32_t>(first + static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(rows))));
      first += rows;
    }
  }
  return ids;
}

/// Bytes as in gathers(): of the rows that are read; as many are written.
void field_rows(const Device& d, const Fields& f) {
  constexpr int kSets = 4;
  int64_t total = 0;
  for (const int64_t rows : f.rows) total += rows;
  const int64_t count = f.batch * static_cast<int64_t>(f.rows.size());
  const std::vector<int32_t> ids = random_ids(f, kSets);
  const Memory table(static_cast<size_t>(total * f.row_bytes)), out(static_cast<size_t>(count * f.row_bytes));
  const Memory places(ids.size() * sizeof(int32_t));
  need(layer::copy_now(places.p, ids.data(), ids.size() * sizeof(int32_t)), "ids");
  int set = 0;
  const double us = device_us(d, g_dry ? 1 : 8, [&] {
    const auto* at = static_cast<const int32_t*>(places.p) + (set++ % kSets) * count;
    return copy_rows({table.p, at, out.p, count, f.row_bytes / 16, d.multiprocessors}, d.stream);
  });
  print("field_rows",
        number("fields", static_cast<int64_t>(f.rows.size())) + ", " + number("row_bytes", f.row_bytes) +
            ", " + number("batch", f.batch) + ", " + rate(static_cast<double>(count) * f.row_bytes, us),
        us);
}

void transfers(const Device& d) {
  for (const int64_t bytes : {64, 4096, 65536, 320 << 10, 1 << 20, 16 << 20}) {
    const auto size = static_cast<size_t>(g_dry ? std::min<int64_t>(bytes, 4096) : bytes);
    const Memory host(size, true), device(size);
    std::vector<char> pageable(size);
    std::memset(host.p, 1, size);
    const std::string label = number("bytes", static_cast<int64_t>(size));
    const auto entry = [&](const char* what, void* dst, const void* src) {
      const double us = host_us(d, [&] { return layer::copy_async(dst, src, size, d.stream); });
      print(what, label + ", " + rate(static_cast<double>(size), us), us);
    };
    entry("h2d_pinned", device.p, host.p);
    entry("h2d_pageable", device.p, pageable.data());
    entry("d2h_pinned", host.p, device.p);
    const double us = host_us(d, [&] {
      return copy(device.p, host.p, static_cast<int64_t>(size) / 16, d.multiprocessors, d.stream);
    });
    print("mapped_read", label + ", " + rate(static_cast<double>(size), us), us);
  }
}

void* empty_graph(const Device& d, int nodes, bool forked, void* side) {
  void *fork = nullptr, *join = nullptr, *graph = nullptr;
  need(layer::event_create(false, &fork), "event");
  need(layer::event_create(false, &join), "event");
  need(layer::capture_begin(d.stream), "capture");
  need(nothing(d.stream), "kernel");
  if (forked) {
    need(layer::event_record(fork, d.stream), "event");
    need(layer::event_wait(fork, side), "event");
  }
  for (int i = 1; i < nodes; ++i) need(nothing(forked && i % 2 == 1 ? side : d.stream), "kernel");
  if (forked) {
    need(layer::event_record(join, side), "event");
    need(layer::event_wait(join, d.stream), "event");
  }
  need(layer::capture_end(d.stream, &graph), "capture");
  layer::event_destroy(fork);
  layer::event_destroy(join);
  return graph;
}

void launches(const Device& d) {
  void* side = nullptr;
  need(layer::stream_create(0, &side), "stream");
  print("kernel_round_trip", number("nodes", 1), host_us(d, [&] { return nothing(d.stream); }));
  for (const bool forked : {false, true}) {
    for (const int nodes : {1, 5, 20}) {
      if (forked && nodes == 1) continue;
      void* graph = empty_graph(d, nodes, forked, side);
      const std::string label = number("nodes", nodes) + ", \"forked\": " + (forked ? "true" : "false");
      print("graph_round_trip", label, host_us(d, [&] { return layer::graph_launch(graph, d.stream); }));
      print("graph_back_to_back", label,
            device_us(d, g_dry ? 1 : 200, [&] { return layer::graph_launch(graph, d.stream); }));
      layer::graph_free(graph);
    }
  }
  layer::stream_destroy(side);
}

void run(const Fields& fields) {
  std::string why;
  if (layer::device_count(&why) == 0) throw std::runtime_error(why);
  need(layer::use(0), "device");
  Device d;
  layer::Properties properties;
  need(layer::properties(0, &properties), "properties");
  d.multiprocessors = properties.multiprocessors;
  need(layer::stream_create(0, &d.stream), "stream");
  need(layer::event_create(true, &d.from), "event");
  need(layer::event_create(true, &d.to), "event");
  launches(d);
  copies(d);
  transfers(d);
  gathers(d);
  if (!fields.rows.empty()) field_rows(d, fields);
  layer::event_destroy(d.from);
  layer::event_destroy(d.to);
  layer::stream_destroy(d.stream);
}

std::vector<int64_t> numbers_of(const char* text) {
  std::vector<int64_t> numbers;
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    numbers.push_back(std::strtoll(text, &end, 10));
    if (end == text || numbers.back() < 1) return {};
  }
  return numbers;
}

/// False at a command line that is not as stated above.
bool parse(int argc, char** argv, Fields* fields) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--dry") {
      g_dry = true;
    } else if (i + 1 == argc) {
      return false;
    } else if (word == "--fields") {
      fields->rows = numbers_of(argv[++i]);
    } else if (word == "--row-bytes") {
      fields->row_bytes = static_cast<int32_t>(std::atoi(argv[++i]));
    } else if (word == "--batch") {
      fields->batch = std::atoll(argv[++i]);
    } else {
      return false;
    }
  }
  const bool whole = fields->row_bytes > 0 && fields->row_bytes % 16 == 0 && fields->batch > 0;
  return fields->rows.empty() ? fields->batch == 0 : whole;
}

}  // namespace
}  // namespace dpi::gpu

int main(int argc, char** argv) {
  dpi::gpu::Fields fields;
  if (!dpi::gpu::parse(argc, argv, &fields)) {
    std::fprintf(stderr, "gpu_ceilings [--dry] [--fields ROWS,ROWS... --row-bytes N --batch N]\n");
    return 2;
  }
  try {
    dpi::gpu::run(fields);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_ceilings: %s\n", e.what());
    return 1;
  }
  return 0;
}
