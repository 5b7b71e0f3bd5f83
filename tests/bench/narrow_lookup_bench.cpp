// Lookups in tables of float32, f16, bf16 and i8 with the same number of rows, far beyond the caches: 26
// fields, one id each or sums of bags of ten. Beside each the same ids with nothing done but a load from
// every cache line that the row has: what counting lines allows. Forms in turn, medians of the thread's own
// time.
//
//   narrow_lookup_bench [GiB of the float32 tables, 1] [repeats, 15]
#include <ctime>

#include "bench/bench.hpp"

namespace {

using namespace dpi::kernels;
using namespace dpi::bench;

constexpr int64_t kRows = 256;  // of a call
constexpr int64_t kIds =
    160'000;  // a field looks up before an id comes again: 26 times as many rows are many caches
constexpr int kFields = 26;

/// i8: with its scale in an array of its own, or behind the row.
enum class Form { kF32, kF16, kBF16, kI8, kI8Behind };
constexpr Form kForms[] = {Form::kF32, Form::kF16, Form::kBF16, Form::kI8, Form::kI8Behind};
constexpr const char* kNames[] = {"f32", "f16", "bf16", "i8", "i8 + scale"};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI8};

int64_t stride_of(Form form, int64_t dim) {
  const int64_t row = dim * dtype_bytes(kTypes[static_cast<int>(form)]);
  return form == Form::kI8Behind ? row + 4 : row;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Model {
  int64_t dim, bag, calls;
  std::vector<std::vector<int32_t>> ids;  // by field, of all calls
  std::vector<int32_t> offsets;
  std::vector<Operand> inputs;
  std::vector<TableView> tables;
  std::vector<LookupField> fields;
  Memory out;
  MultiLookupArgs args;

  Model(Form form, int64_t d, int64_t per_bag, int64_t rows, const char* memory)
      : dim(d), bag(per_bag), calls(kIds / (kRows * per_bag)) {
    const int64_t stride = stride_of(form, dim);
    const char* const scales = memory + kFields * rows * stride;
    for (int64_t r = 0; r <= kRows; ++r) offsets.push_back(static_cast<int32_t>(r * bag));
    inputs.resize(kFields);
    for (int f = 0; f < kFields; ++f) {
      ids.push_back(random_ids(kRows * calls * bag, rows, static_cast<uint32_t>(f)));
      TableView t;
      t.base = memory + f * rows * stride;
      t.rows = rows;
      t.row_bytes = stride;
      t.dim = static_cast<int32_t>(dim);
      t.dtype = kTypes[static_cast<int>(form)];
      if (form == Form::kI8) {
        t.scale = reinterpret_cast<const float*>(scales) + f * rows;
        t.scale_stride = 1;
      } else if (form == Form::kI8Behind) {
        t.scale = reinterpret_cast<const float*>(static_cast<const char*>(t.base) + dim);
        t.scale_stride = stride / 4;
      }
      tables.push_back(t);
      LookupField field;
      field.embed.pooling = bag > 1 ? Pooling::kSum : Pooling::kSingle;
      field.input = field.table = f;
      field.out_col = static_cast<int32_t>(f * dim);
      fields.push_back(field);
    }
    out = make_memory(kRows * kFields * dim * 4);
    args.attrs.fields = fields.data();
    args.attrs.n_fields = kFields;
    args.inputs = inputs.data();
    args.tables = tables.data();
    args.rows = kRows;
    args.out = {reinterpret_cast<float*>(out.get()), kRows, kFields * dim, dims_of({kFields * dim})};
  }

  void call(int64_t i) {
    for (int f = 0; f < kFields; ++f)
      inputs[f].bags = {ids[f].data() + i * kRows * bag, bag > 1 ? offsets.data() : nullptr, nullptr, 1,
                        kRows};
    best_set().multi_lookup(args);
  }

  void check() {
    call(0);
    std::vector<float> want(static_cast<size_t>(kRows * kFields * dim));
    const auto* const at = reinterpret_cast<const float*>(out.get());
    const std::vector<float> got(at, at + want.size());
    MultiLookupArgs a = args;
    a.out.data = want.data();
    ref::multi_lookup(a);
    require_close(got, want, 1e-5, "multi_lookup");
  }

  /// Loads from kLines lines of each row, from its last byte where it may begin inside a line, and from its
  /// scale, asked for 32 rows ahead.
  template <int kLines>
  int64_t touch_lines(int64_t call) const {
    constexpr int64_t kAhead = 32;
    const bool ends = tables[0].row_bytes % 32 != 0, scaled = tables[0].scale != nullptr;
    const int64_t n = kRows * bag, last = tables[0].row_bytes - 1;
    int64_t sum = 0;
    for (const TableView& t : tables) {
      const int32_t* const id = ids[static_cast<size_t>(&t - tables.data())].data() + call * n;
      const auto* const base = static_cast<const char*>(t.base);
      const auto each = [&](int64_t row, auto&& line) {
        for (int l = 0; l < kLines; ++l) line(base + row * t.row_bytes + 64 * l);
        if (ends) line(base + row * t.row_bytes + last);
        if (scaled && !ends) line(reinterpret_cast<const char*>(t.scale + row * t.scale_stride));
      };
      for (int64_t k = 0; k < n; ++k) {
        if (k + kAhead < n) each(id[k + kAhead], [](const char* p) { __builtin_prefetch(p, 0, 3); });
        each(id[k], [&sum](const char* p) { sum += *p; });
      }
    }
    return sum;
  }

  int64_t touch(int64_t call) const {
    const int64_t lines = (dim * dtype_bytes(tables[0].dtype) + 63) / 64;
    if (lines == 1) return touch_lines<1>(call);
    return lines == 2 ? touch_lines<2>(call) : touch_lines<4>(call);
  }
};

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

void measure(int64_t dim, int64_t bag, int64_t bytes, const char* memory, int repeats) {
  const int64_t rows = bytes / (dim * 4) / kFields;
  std::vector<Model> models;
  for (const Form form : kForms) models.emplace_back(form, dim, bag, rows, memory);
  std::vector<std::vector<double>> looked(models.size()), touched(models.size());
  volatile int64_t sink = 0;
  for (Model& m : models) m.check();
  const int64_t calls = models[0].calls;
  const auto lookups = static_cast<double>(kRows * calls * bag * kFields);
  for (int r = 0; r < repeats; ++r) {
    for (size_t m = 0; m < models.size(); ++m) {
      double from = thread_seconds();
      for (int64_t i = 0; i < calls; ++i) models[m].call(i);
      looked[m].push_back((thread_seconds() - from) * 1e9 / lookups);
      from = thread_seconds();
      for (int64_t i = 0; i < calls; ++i) sink = sink + models[m].touch(i);
      touched[m].push_back((thread_seconds() - from) * 1e9 / lookups);
    }
  }
  const double f32 = median(looked[0]), lines = median(touched[0]);
  std::printf("d%-3lld %s  f32 %6.2f ns a row, its lines %6.2f;", static_cast<long long>(dim),
              bag > 1 ? "bags of ten" : "one-hot    ", f32, lines);
  for (size_t m = 1; m < models.size(); ++m)
    std::printf("  %s %6.2f, %.2f x (lines %6.2f, %.2f x)", kNames[m], median(looked[m]),
                f32 / median(looked[m]), median(touched[m]), lines / median(touched[m]));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double gib = argc > 1 ? std::atof(argv[1]) : 1;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 15;
  const auto bytes = static_cast<int64_t>(gib * (1 << 30));
  const Memory memory = make_memory(bytes + (1 << 20));
  auto* const words = reinterpret_cast<uint16_t*>(memory.get());  // small and finite in every type
  for (int64_t i = 0; i < (bytes + (1 << 20)) / 2; ++i)
    words[i] = static_cast<uint16_t>(0x3C00 + i * 7 % 251);
  for (const int64_t dim : {16, 32, 64}) {
    for (const int64_t bag : {1, 10}) measure(dim, bag, bytes, memory.get(), repeats);
  }
  return 0;
}
