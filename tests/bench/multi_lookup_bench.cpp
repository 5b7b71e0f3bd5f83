// MultiLookup over tables of 1 GiB in all: 26 one-hot fields (Criteo), or bags. GB/s counts the row bytes
// read; the ceiling is the gather of rows of the same size from the same memory.
#include "bench/bench.hpp"

namespace {

using namespace dpi::kernels;
using namespace dpi::bench;

constexpr int64_t kRows = 2048;
constexpr int64_t kBatches =
    40;  // distinct ids, so that no row is still in a cache when its batch comes again
constexpr int kFields = 26;

struct Setup {
  const char* name;
  int32_t dim;
  DType dtype;
  int bag;  // ids per row and field, 1 = one-hot
  bool fm;  // FM and a scalar per field beside the copy
};

struct Model {
  std::vector<std::vector<int32_t>> ids;
  std::vector<int32_t> offsets;
  std::vector<Operand> inputs;
  std::vector<TableView> tables;
  std::vector<LookupField> fields;
  std::vector<ScalarField> scalars;
  std::vector<float> out, chan;
  Memory aligned;  // the output as the engine's arena has it
  MultiLookupArgs args;
  int64_t batch = 0;
  int bag = 1;

  void next() {
    batch = (batch + 1) % kBatches;
    for (int f = 0; f < kFields; ++f) inputs[f].bags.ids = ids[f].data() + batch * kRows * bag;
  }
};

void fill(Model& m, const Setup& s, const char* memory, int64_t row_bytes) {
  const int64_t rows = kTableBytes / row_bytes / kFields;
  m.bag = s.bag;
  for (int64_t r = 0; r <= kRows; ++r) m.offsets.push_back(static_cast<int32_t>(r * s.bag));
  m.inputs.resize(kFields);
  for (int f = 0; f < kFields; ++f) {
    m.ids.push_back(random_ids(kRows * kBatches * s.bag, rows, static_cast<uint32_t>(f)));
    m.inputs[f].bags = {m.ids[f].data(), s.bag > 1 ? m.offsets.data() : nullptr, nullptr, 1, kRows};
    TableView t;
    t.base = memory + f * rows * row_bytes;
    t.rows = rows;
    t.row_bytes = row_bytes;
    t.dim = s.dim;
    t.dtype = s.dtype;
    m.tables.push_back(t);
    LookupField field;
    field.embed.pooling = s.bag > 1 ? Pooling::kSum : Pooling::kSingle;
    field.input = field.table = f;
    field.out_col = f * s.dim;
    field.fm = s.fm;
    m.fields.push_back(field);
    if (!s.fm) continue;
    ScalarField scalar;  // rides in the padding behind the row
    scalar.input = f;
    scalar.table = kFields + f;
    m.scalars.push_back(scalar);
  }
  for (int f = 0; s.fm && f < kFields; ++f) {
    TableView t = m.tables[f];
    t.base = static_cast<const char*>(t.base) + s.dim * dtype_bytes(s.dtype);
    t.dim = 1;
    t.dtype = DType::kF32;
    m.tables.push_back(t);
  }
  m.out.assign(static_cast<size_t>(kRows * kFields * s.dim), 0);
  m.aligned = make_memory(kRows * kFields * s.dim * 4);
  m.chan.assign(kRows, 0);
  m.args.attrs.fields = m.fields.data();
  m.args.attrs.n_fields = kFields;
  m.args.attrs.scalars = m.scalars.data();
  m.args.attrs.n_scalars = static_cast<int32_t>(m.scalars.size());
  m.args.attrs.n_channels = s.fm ? 1 : 0;
  m.args.attrs.fm_channel = s.fm ? 0 : -1;
  m.args.attrs.fm_dim = s.fm ? s.dim : 0;
  m.args.inputs = m.inputs.data();
  m.args.tables = m.tables.data();
  m.args.rows = kRows;
  m.args.out = tensor(m.out, kRows, dims_of({kFields * s.dim}));
  if (s.fm) m.args.chan = tensor(m.chan, kRows, dims_of({1}));
}

void check(Model& m) {
  std::vector<float> want(m.out.size());
  MultiLookupArgs a = m.args;
  a.out.data = want.data();
  std::vector<float> chan(m.chan.size());
  if (a.chan.data != nullptr) a.chan.data = chan.data();
  ref::multi_lookup(a);
  best_set().multi_lookup(m.args);
  require_close(m.out, want, 1e-5, "multi_lookup");
  require_close(m.chan, chan, 1e-4, "multi_lookup channels");
  m.args.out.data = reinterpret_cast<float*>(m.aligned.get());
}

}  // namespace

int main(int argc, char** argv) {
  const Memory memory = make_memory(kTableBytes);
  auto* floats = reinterpret_cast<float*>(memory.get());
  for (int64_t i = 0; i < kTableBytes / 4; ++i) floats[i] = static_cast<float>(i % 251 - 125) * 0.01f;
  const Setup setups[] = {
      {"d16_f32", 16, DType::kF32, 1, false},   {"d32_f32", 32, DType::kF32, 1, false},
      {"d64_f32", 64, DType::kF32, 1, false},   {"d32_bf16", 32, DType::kBF16, 1, false},
      {"d28_f32_fm", 28, DType::kF32, 1, true}, {"d16_f32_bag10_sum", 16, DType::kF32, 10, false}};
  benchmark::Initialize(&argc, argv);
  for (const Setup& s : setups) {
    add(std::string("BM_multi_lookup/") + s.name, [&s, &memory](benchmark::State& state) {
      const int64_t row_bytes = s.fm ? 128 : s.dim * dtype_bytes(s.dtype);
      Model m;
      fill(m, s, memory.get(), row_bytes);
      check(m);
      const double bytes = static_cast<double>(kRows * kFields * s.bag * row_bytes);
      report(
          state,
          [&] {
            best_set().multi_lookup(m.args);
            m.next();
          },
          bytes, "GB/s", gather_ceiling(memory.get(), row_bytes));
    });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
