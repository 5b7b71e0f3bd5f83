// dpi_gpu_lookup [--seconds N] [--dry]
//
// Times every implementation of the fused lookup (kernels/cuda/lookup/lookup.hpp) over 26 one-hot fields:
// widths, table types, table sizes, batches, with and without FM and linear terms, uniform and Zipf ids. Each
// is checked against the first one; several sets of ids take turns, so that rows do not stay in the caches by
// accident. One JSON line per measurement. dpi_gpu_lookup_emu is the same program on the emulated device,
// where times mean nothing.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/layer/device_layer.hpp"
#include "kernels/cuda/lookup/lookup.hpp"

namespace dpi::gpu {
namespace {

using namespace kernels;
namespace layer = backend::layer;
using Clock = std::chrono::steady_clock;

constexpr int kFields = 26;

struct Cell {
  int32_t dim = 16;
  DType table = DType::kF32;
  DType out = DType::kF32;
  int64_t table_rows = 0;  // of all fields
  int64_t rows = 0;
  bool zipf = false;
  bool sums = false;
};

struct Plan {
  int sets = 8;
  int replays = 10;
  int rounds = 3;
  std::vector<int64_t> table_rows = {1'000'000, 40'000'000};
  std::vector<int32_t> dims = {16, 64};
  std::vector<int64_t> batches = {2048, 16384, 64};
  double seconds = 60;
};

void need(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": " + layer::error_text(code));
}

struct Memory {
  void* p = nullptr;
  explicit Memory(size_t bytes) { need(layer::device_alloc(std::max<size_t>(bytes, 256), &p), "memory"); }
  ~Memory() { layer::device_free(p); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

uint32_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<uint32_t>(*state >> 33);
}

/// Bytes that are small positive numbers as float32 and as float16.
void fill_numbers(void* device, size_t bytes) {
  std::vector<uint16_t> block(size_t{16} << 20);
  uint64_t state = 1;
  for (uint16_t& v : block) v = static_cast<uint16_t>(0x2C00 + next_random(&state) % 0x1000);
  for (size_t at = 0; at < bytes; at += block.size() * 2)
    need(layer::copy_now(static_cast<char*>(device) + at, block.data(),
                         std::min(block.size() * 2, bytes - at)),
         "fill");
}

/// Ids of one field: uniform, or Zipf with exponent 1.1 whose frequent ids lie anywhere in the table.
std::vector<int32_t> make_ids(int64_t n, int64_t table_rows, bool zipf, uint64_t seed) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  const double edge = 1 - std::pow(static_cast<double>(table_rows), -0.1);
  for (int32_t& id : ids) {
    const double u = next_random(&state) / 2147483648.0;
    auto rank = static_cast<int64_t>(u * static_cast<double>(table_rows));
    if (zipf) rank = static_cast<int64_t>(std::pow(1 - u * edge, -10.0)) - 1;
    rank = std::min(std::max<int64_t>(rank, 0), table_rows - 1);
    id = static_cast<int32_t>(zipf ? static_cast<int64_t>(static_cast<uint64_t>(rank) * 2654435761ull %
                                                          static_cast<uint64_t>(table_rows))
                                   : rank);
  }
  return ids;
}

/// Tables, ids and outputs of one cell on the device. The scalar of a row rides in its padding where the
/// engine's layout lets it.
class Model {
 public:
  Model(const Cell& c, int sets, const Memory& arena)
      : cell_(c),
        columns_((kFields * c.dim + 63) / 64 * 64),
        ids_(static_cast<size_t>(sets * kFields * c.rows) * 4),
        out_(static_cast<size_t>(c.rows * columns_ * dtype_bytes(c.out))),
        chan_(static_cast<size_t>(c.rows) * 4) {
    place_tables(static_cast<const char*>(arena.p));
    const int64_t per_field = c.table_rows / kFields;
    for (int s = 0; s < sets * kFields; ++s) {
      const auto ids = make_ids(c.rows, per_field, c.zipf, static_cast<uint64_t>(s + 1));
      need(layer::copy_now(static_cast<int32_t*>(ids_.p) + s * c.rows, ids.data(), ids.size() * 4), "ids");
    }
    inputs_.resize(static_cast<size_t>(sets * kFields));
    for (size_t i = 0; i < inputs_.size(); ++i)
      inputs_[i].bags = {static_cast<int32_t*>(ids_.p) + static_cast<int64_t>(i) * c.rows, nullptr, nullptr,
                         1, c.rows};
  }

  MultiLookupArgs args(int set) const {
    MultiLookupArgs a;
    a.attrs.fields = fields_.data();
    a.attrs.n_fields = kFields;
    a.inputs = inputs_.data() + set * kFields;
    a.tables = tables_.data();
    a.rows = cell_.rows;
    a.out.data = static_cast<float*>(out_.p);
    a.out.rows = cell_.rows;
    a.out.row_stride = columns_;
    a.out.dtype = cell_.out;
    if (!cell_.sums) return a;
    a.attrs.scalars = scalars_.data();
    a.attrs.n_scalars = kFields;
    a.attrs.n_channels = 1;
    a.attrs.fm_channel = 0;
    a.attrs.fm_dim = cell_.dim;
    a.chan.data = static_cast<float*>(chan_.p);
    a.chan.rows = cell_.rows;
    a.chan.row_stride = 1;
    return a;
  }

  static int64_t row_bytes(const Cell& c) {
    const int64_t payload = c.dim * dtype_bytes(c.table);
    return payload <= 64 ? 64 : (payload + 31) / 32 * 32;
  }
  /// Bytes that a batch reads from tables and writes.
  double bytes() const {
    const double row = static_cast<double>(cell_.dim * (dtype_bytes(cell_.table) + dtype_bytes(cell_.out)));
    return static_cast<double>(cell_.rows) * kFields * (row + (cell_.sums ? 4 : 0));
  }
  /// The first rows' output and sums, as last written.
  std::vector<uint8_t> columns() const { return read(out_, columns_ * dtype_bytes(cell_.out)); }
  std::vector<float> sums() const {
    const std::vector<uint8_t> bytes = read(chan_, 4);
    std::vector<float> v(bytes.size() / 4);
    std::memcpy(v.data(), bytes.data(), v.size() * 4);
    return v;
  }
  void clear() const {
    const std::vector<char> nan(static_cast<size_t>(cell_.rows * columns_ * dtype_bytes(cell_.out)), '\xFF');
    need(layer::copy_now(out_.p, nan.data(), nan.size()), "clear");
    need(layer::copy_now(chan_.p, nan.data(), static_cast<size_t>(cell_.rows) * 4), "clear");
  }

 private:
  void place_tables(const char* base) {
    const int64_t stride = row_bytes(cell_);
    const int64_t payload = cell_.dim * dtype_bytes(cell_.table);
    for (int32_t i = 0; i < kFields; ++i) {
      TableView t;
      t.rows = cell_.table_rows / kFields;
      t.row_bytes = stride;
      t.base = base + i * t.rows * stride;
      t.dim = cell_.dim;
      t.dtype = cell_.table;
      tables_.push_back(t);
      fields_.push_back({{}, i, i, i * cell_.dim, cell_.sums});
      scalars_.push_back({{}, i, kFields + i, 0, 1});
    }
    for (int32_t i = 0; i < kFields; ++i) {
      TableView t = tables_[static_cast<size_t>(i)];
      const bool rides = payload + 4 <= stride;
      t.base = rides ? static_cast<const char*>(t.base) + payload
                     : base + cell_.table_rows * stride + i * t.rows * 4;
      t.row_bytes = rides ? stride : 4;
      t.dim = 1;
      t.dtype = DType::kF32;
      tables_.push_back(t);
    }
  }

  std::vector<uint8_t> read(const Memory& m, int64_t row_bytes) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(std::min<int64_t>(cell_.rows, 256) * row_bytes));
    need(layer::copy_now(bytes.data(), m.p, bytes.size()), "read");
    return bytes;
  }

  Cell cell_;
  int64_t columns_;
  Memory ids_, out_, chan_;
  std::vector<Operand> inputs_;
  std::vector<TableView> tables_;
  std::vector<LookupField> fields_;
  std::vector<ScalarField> scalars_;
};

class Sweep {
 public:
  explicit Sweep(const Plan& plan) : plan_(plan) {
    need(layer::use(0), "device");
    layer::Properties p;
    need(layer::properties(0, &p), "device");
    device_ = {p.multiprocessors, p.threads_per_multiprocessor};
    need(layer::stream_create(0, &stream_), "stream");
    for (void** e : {&begin_, &end_}) need(layer::event_create(true, e), "event");
  }

  void run() {
    for (const auto& [table, out] :
         {std::pair{DType::kF32, DType::kF32}, {DType::kF16, DType::kF16}, {DType::kF16, DType::kF32}}) {
      for (const int32_t dim : plan_.dims) {
        for (const int64_t table_rows : plan_.table_rows) run_tables({dim, table, out, table_rows});
      }
    }
  }

 private:
  void run_tables(Cell c) {
    const size_t bytes = static_cast<size_t>(c.table_rows * (Model::row_bytes(c) + 4));
    const Memory arena(bytes);
    fill_numbers(arena.p, bytes);
    for (const int64_t rows : plan_.batches) {
      for (const bool sums : {true, false}) {
        for (const bool zipf : {false, true}) {
          if (std::chrono::duration<double>(Clock::now() - start_).count() > plan_.seconds) return;
          c.rows = rows;
          c.sums = sums;
          c.zipf = zipf;
          run_cell(c, arena);
        }
      }
    }
  }

  void run_cell(const Cell& c, const Memory& arena) {
    const Model model(c, plan_.sets, arena);
    cuda::LookupVariant variants[128];
    const int n = cuda::lookup_variants(model.args(0), device_, variants, 128);
    for (int i = 0; i < n; ++i) {
      model.clear();
      const double us = time_of(model, variants[i]);
      const bool right = us > 0 && agrees(model, i == 0);
      report(c, model, variants[i], us, right);
    }
  }

  /// Microseconds of one lookup, the best of some rounds; negative when it failed.
  double time_of(const Model& model, const cuda::LookupVariant& v) {
    cuda::LookupOptions o;
    o.variant = v;
    o.device = device_;
    o.scratch_bytes = cuda::lookup_scratch_bytes(model.args(0).attrs, model.args(0).rows, v);
    const Memory scratch(o.scratch_bytes);
    o.scratch = scratch.p;
    if (cuda::multi_lookup(model.args(0), o, stream_) != 0 || layer::stream_synchronize(stream_) != 0)
      return -1;
    void* graph = nullptr;
    need(layer::capture_begin(stream_), "capture");
    for (int s = 0; s < plan_.sets; ++s) need(cuda::multi_lookup(model.args(s), o, stream_), "lookup");
    need(layer::capture_end(stream_, &graph), "capture");
    need(layer::graph_launch(graph, stream_), "graph");
    double best = 1e30;
    for (int round = 0; round < plan_.rounds; ++round) {
      need(layer::event_record(begin_, stream_), "event");
      for (int i = 0; i < plan_.replays; ++i) need(layer::graph_launch(graph, stream_), "graph");
      need(layer::event_record(end_, stream_), "event");
      need(layer::stream_synchronize(stream_), "graph");
      float ms = 0;
      need(layer::event_elapsed(begin_, end_, &ms), "time");
      best = std::min(best, ms * 1000.0 / (plan_.replays * plan_.sets));
    }
    need(layer::graph_free(graph), "graph");
    return best;
  }

  /// The columns bit for bit, the sums within float32.
  bool agrees(const Model& model, bool first) {
    const std::vector<uint8_t> columns = model.columns();
    const std::vector<float> sums = model.sums();
    if (first) {
      columns_ = columns;
      sums_ = sums;
    }
    bool good = columns == columns_;
    for (size_t i = 0; i < sums.size(); ++i) {
      const bool none = std::isnan(sums[i]) && std::isnan(sums_[i]);  // no channel in this cell
      good = good && (none || std::fabs(sums[i] - sums_[i]) <= 1e-4f * (1 + std::fabs(sums_[i])));
    }
    return good;
  }

  static void report(const Cell& c, const Model& model, const cuda::LookupVariant& v, double us, bool right) {
    static constexpr const char* kTypes[] = {"f32", "f16", "bf16", "i8"};
    char text[120];
    cuda::lookup_variant_text(v, text, sizeof text);
    std::printf(
        "{\"dim\": %d, \"table\": \"%s\", \"out\": \"%s\", \"table_rows\": %lld, \"rows\": %lld, \"sums\": "
        "%s, "
        "\"ids\": \"%s\", \"variant\": \"%s\", \"us\": %.3f, \"gb_per_s\": %.1f, \"right\": %s}\n",
        c.dim, kTypes[static_cast<int>(c.table)], kTypes[static_cast<int>(c.out)],
        static_cast<long long>(c.table_rows), static_cast<long long>(c.rows), c.sums ? "true" : "false",
        c.zipf ? "zipf" : "uniform", text, us, us > 0 ? model.bytes() / us * 1e-3 : 0,
        right ? "true" : "false");
    std::fflush(stdout);
  }

  Plan plan_;
  cuda::DeviceSize device_;
  void* stream_ = nullptr;
  void* begin_ = nullptr;
  void* end_ = nullptr;
  std::vector<uint8_t> columns_;
  std::vector<float> sums_;
  Clock::time_point start_ = Clock::now();
};

int main_checked(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--dry") == 0) {
      plan.sets = 2;
      plan.replays = plan.rounds = 1;
      plan.table_rows = {2'600};
      plan.dims = {16};
      plan.batches = {33};
    } else if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      plan.seconds = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "dpi_gpu_lookup [--seconds N] [--dry]\n");
      return 2;
    }
  }
  std::string why;
  if (layer::device_count(&why) == 0) throw std::runtime_error(why);
  Sweep(plan).run();
  return 0;
}

}  // namespace
}  // namespace dpi::gpu

int main(int argc, char** argv) {
  try {
    return dpi::gpu::main_checked(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dpi_gpu_lookup: %s\n", e.what());
    return 1;
  }
}
