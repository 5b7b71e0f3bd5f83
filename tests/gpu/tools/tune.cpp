// dpi_gpu_tune --gemm --out TABLE [--first] [--seconds N] [--shape IN,OUT,plain|fused]... [--dry] [--list]
//
// Times every implementation of a Dense layer, and every algorithm that cuBLASLt offers, over the shapes of
// the paper's grid, batches and precisions; checks each against float32 sums first; writes the table that
// option `tuning` reads (sdk/src/backend/cuda/tuning/tuning.hpp), again after each shape. One JSON line per
// cell. --first: only what the paper's grid runs, 2048 rows in fp32, tf32 and fp16, over few algorithms.
// --list: says what would be timed, in order, and needs no device.
// dpi_gpu_tune_emu is the same program on the emulated device, where times mean nothing.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "backend/cuda/gemm/gemm.hpp"
#include "backend/cuda/layer/device_layer.hpp"
#include "backend/cuda/tuning/tuning.hpp"
#include "tests/gpu/tools/tune_plan.hpp"

namespace dpi::gpu {
namespace {

using namespace backend;
using kernels::DType;
using Clock = std::chrono::steady_clock;

void need(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": " + layer::error_text(code));
}
void need(const Status& s) {
  if (!s.ok()) throw std::runtime_error(s.message());
}

struct Memory {
  void* p = nullptr;
  explicit Memory(size_t bytes) { need(layer::device_alloc(std::max<size_t>(bytes, 1), &p), "memory"); }
  ~Memory() { layer::device_free(p); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

std::vector<float> random_floats(size_t n, float scale, uint64_t seed) {
  std::vector<float> v(n);
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (float& f : v) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    f = (static_cast<float>(state >> 40) / 8388608.0f - 1.0f) * scale;
  }
  return v;
}

DType activation_type(GemmPrecision p) {
  return p == GemmPrecision::kFp16 ? DType::kF16 : p == GemmPrecision::kBf16 ? DType::kBF16 : DType::kF32;
}
int64_t stride_of(int64_t n) { return (n + 15) / 16 * 16; }

/// The layer's host side: description, weights, and the prepared op of one precision.
class Layer {
 public:
  Layer(const Shape& s, int64_t max_rows) : shape_(s), max_rows_(max_rows) {
    weight_ = random_floats(static_cast<size_t>(s.in * s.out), 1.0f / std::sqrt(static_cast<float>(s.in)), 1);
    bias_ = random_floats(static_cast<size_t>(s.out), 1, 2);
    segment_.act.kind = s.fused ? kernels::UnaryKind::kIdentity : kernels::UnaryKind::kRelu;
    segment_.end = s.out;
  }

  std::unique_ptr<Gemm> prepare(const std::shared_ptr<const GemmDevice>& device) const {
    const DType type = activation_type(device->precision);
    const dpi_value_desc x = {{1, {shape_.in}}, 0, 0, stride_of(shape_.in), type};
    const dpi_value_desc y = {{1, {shape_.out}}, 0, 0, stride_of(shape_.out), type};
    const std::vector<dpi_value_desc> inputs = {x, y, y};
    const kernels::Param params[] = {{weight_.data(), {2, {shape_.out, shape_.in}}},
                                     {bias_.data(), {1, {shape_.out}}}};
    const kernels::DenseAttrs attrs = {&segment_, 1};
    dpi_op_desc d{};
    d.struct_size = sizeof(d);
    d.kind = kernels::OpKind::kDense;
    d.name = "layer";
    d.attrs = &attrs;
    d.inputs = inputs.data();
    d.outputs = &y;
    d.params = params;
    d.n_inputs = shape_.fused ? 3 : 1;
    d.n_outputs = 1;
    d.n_params = 2;
    d.max_rows = max_rows_;
    auto op = own_op(d);
    need(op.status());
    auto made = Gemm::make(op.value(), device);
    need(made.status());
    return std::move(made).value();
  }

  const Shape& shape() const { return shape_; }
  const std::vector<float>& bias() const { return bias_; }
  const kernels::DenseSegment& segment() const { return segment_; }

 private:
  Shape shape_;
  int64_t max_rows_;
  std::vector<float> weight_;
  std::vector<float> bias_;
  kernels::DenseSegment segment_;
};

/// Device memory of one layer and precision: x, mul and add hold the same numbers in every precision.
class Buffers {
 public:
  Buffers(const Layer& layer, GemmPrecision precision, int64_t rows)
      : type_(activation_type(precision)),
        shape_(layer.shape()),
        x_(bytes(rows, shape_.in)),
        mul_(bytes(rows, shape_.out)),
        dst_(bytes(rows, shape_.out)),
        bias_(layer.bias().size() * 4),
        segment_(sizeof(kernels::DenseSegment)) {
    fill(x_, rows * stride_of(shape_.in));
    fill(mul_, rows * stride_of(shape_.out));
    need(layer::copy_now(bias_.p, layer.bias().data(), layer.bias().size() * 4), "bias");
    need(layer::copy_now(segment_.p, &layer.segment(), sizeof(kernels::DenseSegment)), "segment");
  }

  kernels::DenseArgs args(int64_t rows) const {
    kernels::DenseArgs a;
    a.attrs = {static_cast<const kernels::DenseSegment*>(segment_.p), 1};
    a.x = tensor(x_, rows, shape_.in);
    a.weight.dims = {2, {shape_.out, shape_.in}};
    a.bias = {static_cast<const float*>(bias_.p), {1, {shape_.out}}};
    if (shape_.fused) a.mul = a.add = tensor(mul_, rows, shape_.out);
    a.dst = tensor(dst_, rows, shape_.out);
    return a;
  }

  /// Up to 64 rows from `first` on.
  std::vector<float> results(int64_t first, int64_t rows) const {
    const int64_t n = std::min<int64_t>(64, rows - first);
    const int64_t stride = stride_of(shape_.out);
    const auto size = static_cast<size_t>(kernels::dtype_bytes(type_));
    std::vector<char> raw(static_cast<size_t>(n * stride) * size);
    need(layer::copy_now(raw.data(), static_cast<char*>(dst_.p) + static_cast<size_t>(first * stride) * size,
                         raw.size()),
         "results");
    std::vector<float> to;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < shape_.out; ++c) to.push_back(element(raw.data(), r * stride + c));
    }
    return to;
  }

  void spoil(int64_t rows) const {
    const auto n = static_cast<size_t>(rows * stride_of(shape_.out) * kernels::dtype_bytes(type_));
    need(layer::copy_now(dst_.p, std::vector<char>(n, '\xff').data(), n), "spoil");
  }

 private:
  size_t bytes(int64_t rows, int64_t n) const {
    return static_cast<size_t>(rows * stride_of(n) * kernels::dtype_bytes(type_));
  }
  kernels::Tensor tensor(const Memory& m, int64_t rows, int64_t n) const {
    return {static_cast<float*>(m.p), rows, stride_of(n), {1, {n}}, type_};
  }
  // Multiples of 1/128 in [-1, 1): exact in every type.
  void fill(const Memory& m, int64_t n) const {
    std::vector<float> v = random_floats(static_cast<size_t>(n), 128, 3);
    for (float& f : v) f = std::floor(f) / 128;
    if (type_ == DType::kF32) return need(layer::copy_now(m.p, v.data(), v.size() * 4), "fill");
    std::vector<uint16_t> narrow(v.size());
    for (size_t i = 0; i < v.size(); ++i)
      narrow[i] = type_ == DType::kF16 ? kernels::float_to_half(v[i]) : kernels::float_to_bf16(v[i]);
    need(layer::copy_now(m.p, narrow.data(), narrow.size() * 2), "fill");
  }
  float element(const char* raw, int64_t i) const {
    if (type_ == DType::kF32) return reinterpret_cast<const float*>(raw)[i];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(raw)[i];
    return type_ == DType::kF16 ? kernels::half_to_float(bits) : kernels::bf16_to_float(bits);
  }

  DType type_;
  Shape shape_;
  Memory x_, mul_, dst_, bias_, segment_;
};

struct Device {
  void* stream = nullptr;
  void* from = nullptr;
  void* to = nullptr;
  Device() {
    need(layer::stream_create(0, &stream), "stream");
    need(layer::event_create(true, &from), "event");
    need(layer::event_create(true, &to), "event");
  }
};

/// One candidate as a graph of `runs` runs.
double graph_us(const Device& d, int runs, int rounds, double give_up, const std::function<int()>& run) {
  need(run(), "first run");
  need(layer::stream_synchronize(d.stream), "first run");
  void* graph = nullptr;
  need(layer::capture_begin(d.stream), "capture");
  int code = 0;
  for (int i = 0; i < runs && code == 0; ++i) code = run();
  need(layer::capture_end(d.stream, &graph), "capture");
  need(code, "captured run");
  double best = 1e30;
  for (int round = 0; round < rounds + 1; ++round) {
    need(layer::event_record(d.from, d.stream), "event");
    need(layer::graph_launch(graph, d.stream), "graph");
    need(layer::event_record(d.to, d.stream), "event");
    need(layer::stream_synchronize(d.stream), "graph");
    float ms = 0;
    need(layer::event_elapsed(d.from, d.to, &ms), "elapsed");
    best = std::min(best, ms * 1e3 / runs);
    if (best > give_up) break;
  }
  layer::graph_free(graph);
  return best;
}

double tolerance_of(GemmPrecision p) {
  constexpr double kTolerance[] = {1e-5, 3e-3, 4e-3, 3e-2};
  return kTolerance[static_cast<int>(p)];
}

bool agrees(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  bool same = got.size() == want.size() && !got.empty();
  for (size_t i = 0; same && i < got.size(); ++i)
    same = std::fabs(got[i] - want[i]) <= tolerance * std::fmax(1.0f, std::fabs(want[i]));
  return same;
}

class Tuner {
 public:
  Tuner(Plan plan, TuningHeader header) : plan_(std::move(plan)), table_(std::move(header)) {
    for (int p = 0; p < plan_.precisions; ++p) {
      auto device = open_gemm_device(0, p, false, "off");
      need(device.status());
      devices_.push_back(std::move(device).value());
    }
  }

  void run() {
    for (const Shape& s : plan_.shapes) {
      const Layer layer(s, most_rows());
      reference_.clear();
      for (int p = 0; p < plan_.precisions; ++p) {
        tune(layer, static_cast<GemmPrecision>(p));
        save();
        if (std::chrono::duration<double>(Clock::now() - start_).count() > plan_.seconds) {
          std::printf("{\"stopped\": \"time is up\", \"cells\": %zu}\n", table_.entries().size());
          return;
        }
      }
    }
  }

 private:
  struct Best {
    const GemmChoice* choice = nullptr;
    double us = 1e30;
    double own_us = 1e30;
    int wrong = 0;
    int failed = 0;
  };

  int64_t most_rows() const { return *std::max_element(plan_.rows.begin(), plan_.rows.end()); }

  void tune(const Layer& layer, GemmPrecision precision) {
    const auto gemm = layer.prepare(devices_[static_cast<size_t>(precision)]);
    const Buffers buffers(layer, precision, most_rows());
    for (const int64_t rows : plan_.rows) cell(*gemm, buffers, precision, rows);
  }

  /// The library's implementations keep their first algorithms, own ones everything.
  std::vector<GemmChoice> few(const std::vector<GemmChoice>& all) const {
    std::vector<GemmChoice> kept;
    int run = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool same = i > 0 && all[i].impl == all[i - 1].impl && all[i].staged == all[i - 1].staged;
      run = same ? run + 1 : 0;
      if (!is_lt(all[i].impl) || run < plan_.algorithms) kept.push_back(all[i]);
    }
    return kept;
  }

  void cell(const Gemm& gemm, const Buffers& buffers, GemmPrecision precision, int64_t rows) {
    const kernels::DenseArgs args = buffers.args(rows);
    const std::vector<GemmChoice> all = few(gemm.candidates(rows));
    size_t scratch_bytes = 0;
    for (const GemmChoice& c : all) scratch_bytes = std::max(scratch_bytes, gemm.scratch_bytes(c, rows));
    const Memory scratch(scratch_bytes);
    Best best;
    for (const GemmChoice& c : all) {
      buffers.spoil(rows);
      const auto run = [&] { return gemm.run(c, args, scratch.p, device_.stream); };
      double us = 0;
      try {
        us = graph_us(device_, plan_.runs, plan_.rounds, best.us * 1.3, run);
      } catch (const std::exception&) {  // an algorithm that the library offers and then refuses
        ++best.failed;
        continue;
      }
      if (!right(buffers, precision, rows)) {
        ++best.wrong;
        continue;
      }
      if (!is_lt(c.impl)) best.own_us = std::min(best.own_us, us);
      if (us >= best.us) continue;
      best.us = us;
      best.choice = &c;
    }
    report(gemm.shape(rows), precision, all.size(), best);
  }

  /// fp32's first candidate, own-simt, is the reference: plain float32 sums.
  bool right(const Buffers& buffers, GemmPrecision precision, int64_t rows) {
    std::vector<float> got = buffers.results(0, rows);
    const std::vector<float> last = buffers.results(std::max<int64_t>(0, rows - 64), rows);
    got.insert(got.end(), last.begin(), last.end());
    const auto at =
        static_cast<size_t>(std::find(plan_.rows.begin(), plan_.rows.end(), rows) - plan_.rows.begin());
    if (reference_.size() <= at) reference_.push_back(got);
    return agrees(got, reference_[at], tolerance_of(precision));
  }

  void report(const GemmShape& s, GemmPrecision precision, size_t candidates, const Best& best) {
    std::printf(
        "{\"precision\": \"%s\", \"end\": \"%s\", \"in\": %lld, \"out\": %lld, \"rows\": %lld, "
        "\"candidates\": %zu, "
        "\"wrong\": %d, \"failed\": %d, \"best\": \"%s\", \"us\": %.3f, \"own_us\": %.3f, \"tflops\": "
        "%.2f}\n",
        precision_name(precision), s.fused ? "fused" : "plain", static_cast<long long>(s.in),
        static_cast<long long>(s.out), static_cast<long long>(s.rows), candidates, best.wrong, best.failed,
        best.choice != nullptr ? gemm_name(best.choice->impl) : "none", best.us, best.own_us,
        2e-6 * static_cast<double>(s.rows * s.in * s.out) / std::max(best.us, 1e-9));
    std::fflush(stdout);
    if (best.choice == nullptr) return;
    TuningEntry e;
    e.precision = precision;
    e.shape = s;
    e.choice = *best.choice;
    e.microseconds = best.us;
    table_.add(e);
  }

  void save() const {
    if (plan_.out.empty()) return;
    std::ofstream file(plan_.out, std::ios::binary | std::ios::trunc);
    file << table_.text();
    if (!file.flush()) throw std::runtime_error("'" + plan_.out + "' cannot be written");
  }

  Plan plan_;
  TuningTable table_;
  std::vector<std::shared_ptr<const GemmDevice>> devices_;
  Device device_;
  std::vector<std::vector<float>> reference_;  // of one layer, by rows
  Clock::time_point start_ = Clock::now();
};

TuningHeader header_here() {
  std::string why;
  if (layer::device_count(&why) == 0) throw std::runtime_error(why);
  need(layer::use(0), "device");
  layer::Properties p;
  need(layer::properties(0, &p), "properties");
  const lt::Api* api = lt::library(&why);
  if (api == nullptr) std::fprintf(stderr, "without cuBLASLt: %s\n", why.c_str());
  return {p.name, p.capability, api != nullptr ? api->version() : 0, p.multiprocessors};
}

bool parse_shape(const char* text, Shape* s) {
  char end[8] = "";
  long long in = 0;
  long long out = 0;
  if (std::sscanf(text, "%lld,%lld,%7s", &in, &out, end) != 3 || in < 1 || out < 1) return false;
  if (std::strcmp(end, "plain") != 0 && std::strcmp(end, "fused") != 0) return false;
  *s = {in, out, end[0] == 'f'};
  return true;
}

int usage() {
  std::fprintf(stderr,
               "dpi_gpu_tune --gemm --out TABLE [--first] [--seconds N] [--shape IN,OUT,plain|fused]... "
               "[--dry] [--list]\n");
  return 2;
}

int main_checked(int argc, char** argv) {
  bool gemm = false;
  bool dry = false;
  bool first = false;
  bool only_list = false;
  double seconds = 90;
  std::string out;
  std::vector<Shape> shapes;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    Shape s{};
    if (word == "--gemm") {
      gemm = true;
    } else if (word == "--lookup") {  // chosen by kernels/cuda/lookup/choice.cu, without a table of this kind
      std::printf("{\"lookup\": \"not measured by this program\"}\n");
      return 0;
    } else if (word == "--dry") {
      dry = true;
    } else if (word == "--first") {
      first = true;
    } else if (word == "--list") {
      only_list = true;
    } else if (value == nullptr || (word != "--out" && word != "--seconds" && word != "--shape")) {
      return usage();
    } else if (word == "--out") {
      out = argv[++i];
    } else if (word == "--seconds") {
      seconds = std::atof(argv[++i]);
    } else if (parse_shape(argv[++i], &s)) {
      shapes.push_back(s);
    } else {
      return usage();
    }
  }
  if (!gemm || (out.empty() && !only_list)) return usage();
  Plan plan = dry ? dry_plan() : first ? first_plan() : full_plan();
  plan.seconds = seconds;
  plan.out = out;
  if (!shapes.empty()) plan.shapes = shapes;
  if (only_list) {
    list(plan);
    return 0;
  }
  Tuner(plan, header_here()).run();
  return 0;
}

}  // namespace
}  // namespace dpi::gpu

int main(int argc, char** argv) {
  try {
    return dpi::gpu::main_checked(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dpi_gpu_tune: %s\n", e.what());
    return 1;
  }
}
