// Every implementation of the CUDA lookup, over the emulation: the same columns as `ref` bit for bit, sums
// within float32, whatever the table and output types, widths and bags are; the same bits in every run and in
// every batch; nothing written beside the output; ids and offsets that were overwritten give zeros.
#include <doctest/doctest.h>

#include <string>

#include "kernels/cuda/lookup/lookup.hpp"
#include "kernels/emu/device_emu.hpp"
#include "kernels/lookup_model.hpp"

namespace dpi::test::lookup_variants_test {
namespace {

using kernels::cuda::LookupFaults;
using kernels::cuda::LookupKind;
using kernels::cuda::LookupOptions;
using kernels::cuda::LookupTuning;
using kernels::cuda::LookupTuningEntry;
using kernels::cuda::LookupVariant;

struct Run {
  LookupOutput out;
  LookupOutput chan;
};

LookupOutput chan_of(const LookupModel& m, int64_t rows) {
  return m.shape().fm ? LookupOutput(rows, 3, 5, DType::kF32) : LookupOutput(rows, 0, 1, DType::kF32);
}

Run by_ref(const LookupModel& m) {
  const int64_t rows = m.shape().rows;
  Run r = {LookupOutput(rows, m.columns(), m.stride(), DType::kF32), chan_of(m, rows)};
  ref::multi_lookup(m.args(r.out, r.chan, rows));
  return r;
}

// Runs it to its end: 0, or the code of what failed.
int start(const MultiLookupArgs& a, const LookupOptions& o) {
  emu::Stream* stream = nullptr;
  emu::stream_create(&stream);
  int code = cuda::multi_lookup(a, o, stream);
  const int ran = emu::stream_sync(stream);
  emu::stream_destroy(stream);
  return code != 0 ? code : ran;
}

Run by_emulation(const LookupModel& m, const LookupVariant& v, int64_t rows, LookupFaults* faults = nullptr) {
  Run r = {LookupOutput(rows, m.columns(), m.stride(), m.shape().out), chan_of(m, rows)};
  const MultiLookupArgs a = m.args(r.out, r.chan, rows);
  LookupOptions o;
  o.variant = v;
  if (rows % 2 == 0)
    o.device = {132, 2048};  // a large GPU and a tiny one: threads with one row, and with many
  o.scratch_bytes = cuda::lookup_scratch_bytes(a.attrs, rows, v);
  const std::shared_ptr<char> scratch = aligned_block(o.scratch_bytes + 256);
  std::memset(scratch.get(), 0xFF, o.scratch_bytes + 256);
  o.scratch = scratch.get();
  o.faults = faults;
  REQUIRE_MESSAGE(start(a, o) == 0, std::string(emu::last_error()));
  for (size_t i = 0; i < 256; ++i) REQUIRE(scratch.get()[o.scratch_bytes + i] == static_cast<char>(0xFF));
  return r;
}

// Half a unit in the last place of the output's type, and what float32 sums may differ.
double tolerance(DType type, double expected) {
  const double relative = type == DType::kF32 ? 0 : type == DType::kF16 ? 0x1p-11 : 0x1p-8;
  return relative * std::fabs(expected) + (type == DType::kF32 ? 0 : 0x1p-24) +
         4e-6 * std::fmax(1, std::fabs(expected));
}

// The number of elements that differ; a NaN differs from everything.
int64_t differing(const LookupOutput& got, const LookupOutput& expected, int64_t rows, int64_t columns,
                  DType type) {
  int64_t wrong = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const double e = expected.at(r, c);
      if (!(std::fabs(got.at(r, c) - e) <= tolerance(type, e))) ++wrong;
    }
  }
  return wrong;
}

void check_run(const LookupModel& m, const Run& got, const Run& expected) {
  // Column 0 of a misaligned model belongs to no field.
  const int64_t first = m.shape().misaligned ? 1 : 0;
  const int64_t rows = m.shape().rows;
  CHECK(differing(got.out, expected.out, rows, m.columns(), m.shape().out) == first * rows);
  CHECK(got.out.bands_intact());
  if (m.shape().fm) CHECK(differing(got.chan, expected.chan, rows, 3, DType::kF32) == 0);
  CHECK(got.chan.bands_intact());
}

constexpr LookupVariant kVariants[] = {
    {LookupKind::kRows, 4, 4, 0, 0, 0, 0},   {LookupKind::kRows, 8, 4, 128, 1, 0, 1},
    {LookupKind::kCopy, 4, 4, 256, 2, 0, 1}, {LookupKind::kCopy, 8, 8, 32, 0, 1, 0},
    {LookupKind::kCopy, 4, 8, 64, 0, 1, 0},  {LookupKind::kInputFirst, 0, 0, 0, 0, 0, 0},
    {LookupKind::kRows, 4, 4, 0, 0, 0, 1},
};
/// input_first is in builds with DPI_MEASURE only.
bool is_there(const LookupVariant& v) { return v.kind != LookupKind::kInputFirst || cuda::has_input_first(); }

constexpr DType kTables[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8,
                             DType::kI4,  DType::kI2,  DType::kFp8};
constexpr DType kOuts[] = {DType::kF32, DType::kF16, DType::kBF16};

std::string text_of(const LookupShape& s, const LookupVariant& v) {
  char text[120];
  cuda::lookup_variant_text(v, text, sizeof text);
  return "dim " + std::to_string(s.dim) + " table " + std::to_string(static_cast<int>(s.table)) + " out " +
         std::to_string(static_cast<int>(s.out)) + " bags " + std::to_string(s.bags) + " fm " +
         std::to_string(s.fm) + " misaligned " + std::to_string(s.misaligned) + ": " + text;
}

void check_shape(const LookupShape& shape, size_t stride, size_t first) {
  const LookupModel m(shape);
  const Run expected = by_ref(m);
  for (size_t i = first % stride; i < std::size(kVariants); i += stride) {
    if (!is_there(kVariants[i])) continue;
    INFO(text_of(shape, kVariants[i]));
    check_run(m, by_emulation(m, kVariants[i], shape.rows), expected);
  }
}

}  // namespace

TEST_CASE("lookup variants: widths and types agree with ref") {
  size_t turn = 0;
  for (const int32_t dim : {1, 3, 4, 8, 10, 16, 20, 64, 128}) {
    for (const DType table : kTables) {
      for (const DType out : kOuts) {
        const bool large = dim > 20;
        check_shape({dim, table, out, false, true, false, large ? 7 : 19}, 1, 0);
        check_shape({dim, table, out, true, turn % 2 == 0, turn % 3 == 0, 10}, 2, turn);
        ++turn;
      }
    }
  }
}

TEST_CASE("lookup variants: bags, misaligned rows and wide vectors agree with ref") {
  for (const bool misaligned : {false, true}) {
    for (const bool fm : {false, true}) {
      check_shape({16, DType::kF32, DType::kF32, true, fm, misaligned, 33}, 1, 0);
      check_shape({10, DType::kI8, DType::kF16, false, fm, misaligned, 33}, 1, 0);
    }
  }
  check_shape({300, DType::kF32, DType::kF32, true, true, false, 10}, 1, 0);
  check_shape({300, DType::kBF16, DType::kBF16, true, true, false, 5}, 1, 0);
}

// 80 and 224 records fit a kernel's arguments, the `rows` blocks' share of them is copied to shared memory;
// more lie in scratch.
TEST_CASE("lookup variants: few, many and more records than a kernel's arguments hold agree with ref") {
  for (const int32_t copies : {4, 8, 17}) {
    for (const bool bags : {false, true}) {
      check_shape({4, DType::kF32, DType::kF32, bags, true, false, 9, copies}, 1, 0);
      check_shape({8, DType::kI8, DType::kF16, bags, true, copies == 8, 6, copies}, 1, 0);
      check_shape({12, DType::kF16, DType::kF32, bags, false, false, 5, copies}, 1, 0);
    }
  }
}

TEST_CASE("lookup variants: the bits of a row depend neither on the run nor on the batch") {
  for (const DType out : {DType::kF32, DType::kF16}) {
    const LookupModel m({16, DType::kF32, out, true, true, false, 40});
    for (const LookupVariant& v : kVariants) {
      if (!is_there(v)) continue;
      INFO(text_of(m.shape(), v));
      const Run whole = by_emulation(m, v, 40);
      emu::seed(7);
      const Run again = by_emulation(m, v, 40);
      const Run shorter = by_emulation(m, v, 13);
      for (const Run* other : {&again, &shorter}) {
        CHECK(whole.out.same_rows(other->out, 13));
        CHECK(whole.chan.same_rows(other->chan, 13));
      }
      CHECK(whole.out.same_rows(again.out, 40));
    }
  }
}

TEST_CASE("lookup variants: the fused ones write the same bits, sorted or not") {
  const LookupModel m({16, DType::kF16, DType::kF32, true, true, false, 50});
  const Run expected = by_emulation(m, {LookupKind::kRows, 4, 4, 0, 0, 0, 0}, 50);
  for (const LookupVariant& v : kVariants) {
    if (!is_there(v)) continue;
    if (v.vector != 4) continue;
    INFO(text_of(m.shape(), v));
    const Run got = by_emulation(m, v, 50);
    CHECK(got.out.same_rows(expected.out, 50));
    CHECK(got.chan.same_rows(expected.chan, 50));
  }
}

TEST_CASE("lookup variants: each can be captured into a graph and replayed over other ids") {
  for (const LookupVariant& v : kVariants) {
    if (!is_there(v)) continue;
    LookupModel m({16, DType::kF32, DType::kF32, true, true, false, 21});
    INFO(text_of(m.shape(), v));
    const Run got = {LookupOutput(21, m.columns(), m.stride(), DType::kF32), chan_of(m, 21)};
    const MultiLookupArgs a = m.args(got.out, got.chan, 21);
    LookupOptions o;
    o.variant = v;
    o.scratch_bytes = cuda::lookup_scratch_bytes(a.attrs, 21, v);
    const std::shared_ptr<char> scratch = aligned_block(o.scratch_bytes + 1);
    o.scratch = scratch.get();
    emu::Stream* stream = nullptr;
    emu::Graph* graph = nullptr;
    REQUIRE(emu::stream_create(&stream) == 0);
    REQUIRE(emu::capture_begin(stream) == 0);
    CHECK(cuda::multi_lookup(a, o, stream) == 0);
    REQUIRE(emu::capture_end(stream, &graph) == 0);
    for (int turn = 0; turn < 2; ++turn) {
      std::swap(m.ids(0)[3], m.ids(0)[9]);
      std::swap(m.ids(m.first_bag())[5], m.ids(m.first_bag())[40]);
      CHECK(emu::graph_launch(graph, stream) == 0);
      REQUIRE_MESSAGE(emu::stream_sync(stream) == 0, std::string(emu::last_error()));
      check_run(m, got, by_ref(m));
    }
    CHECK(emu::graph_free(graph) == 0);
    emu::stream_destroy(stream);
  }
}

TEST_CASE("lookup variants: all that are listed for measuring run") {
  const LookupModel m({16, DType::kF32, DType::kF32, true, true, false, 9});
  const Run expected = by_ref(m);
  LookupVariant variants[128];
  const int n = cuda::lookup_variants(m.args(expected.out, expected.chan, 9), {132, 2048}, variants, 128);
  CHECK(n > 20);
  for (int i = 0; i < n; ++i) {
    INFO(text_of(m.shape(), variants[i]));
    check_run(m, by_emulation(m, variants[i], 9), expected);
  }
}

TEST_CASE("lookup variants: overwritten ids and offsets read as zeros, are counted and placed") {
  for (const LookupVariant& v : kVariants) {
    if (!is_there(v)) continue;
    LookupModel m({16, DType::kF32, DType::kF32, true, true, false, 40});
    INFO(text_of(m.shape(), v));
    m.ids(0)[5] = -1;
    m.ids(0)[17] = 0x7fffffff;
    m.ids(1)[33] = 23;
    const size_t bag = m.first_bag();
    m.offsets(bag)[20] = -5;           // rows 19 and 20
    m.offsets(bag + 1)[31] = 1 << 30;  // rows 30 and 31
    m.ids(bag + 2)[0] = 1 << 20;
    LookupFaults faults = {0, ~0ull};
    const Run got = by_emulation(m, v, 40, &faults);
    for (const auto& [row, column] : {std::pair{5, 0}, {17, 15}, {33, 16}, {33, 31}})
      CHECK(got.out.at(row, column) == 0);
    for (const int row : {19, 20}) CHECK(got.out.at(row, 3 * 16 + 5) == 0);
    for (int64_t r = 0; r < 40; ++r) {
      for (int64_t c = 0; c < m.columns(); ++c) REQUIRE(std::isfinite(got.out.at(r, c)));
      for (int64_t c = 0; c < 3; ++c) REQUIRE(std::isfinite(got.chan.at(r, c)));
    }
    CHECK(got.out.bands_intact());
    CHECK(faults.count >= 8);
    // The id of row 1's first bag position is the first fault, or that of row 5 where no bag comes before.
    CHECK((faults.first >> 20) == 1);
    CHECK((faults.first & 0xFFFFF) == bag + 2);
  }
}

TEST_CASE("lookup variants: a thousand fields in one op") {
  std::vector<int32_t> ids = {0, 2, 1};
  std::vector<float> table(3 * 4);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) + 0.5f;
  Operand input;
  input.bags = {ids.data(), nullptr, nullptr, 1, 3};
  TableView view;
  view.base = table.data();
  view.rows = 3;
  view.row_bytes = 16;
  view.dim = 4;
  std::vector<LookupField> fields(1000);
  for (int32_t i = 0; i < 1000; ++i) fields[static_cast<size_t>(i)].out_col = i * 4;
  for (LookupField& f : fields) f.fm = true;
  MultiLookupArgs a;
  a.attrs.fields = fields.data();
  a.attrs.n_fields = 1000;
  a.attrs.n_channels = 1;
  a.attrs.fm_channel = 0;
  a.attrs.fm_dim = 4;
  a.inputs = &input;
  a.tables = &view;
  a.rows = 3;
  for (const LookupKind kind : {LookupKind::kRows, LookupKind::kCopy, LookupKind::kInputFirst}) {
    if (kind == LookupKind::kInputFirst && !cuda::has_input_first()) continue;
    LookupOutput out(3, 4000, 4000, DType::kF32), chan(3, 1, 1, DType::kF32);
    a.out = out.tensor();
    a.chan = chan.tensor();
    LookupOptions o;
    o.variant.kind = kind;
    if (kind != LookupKind::kInputFirst) CHECK(start(a, o) != 0);  // no scratch
    o.scratch_bytes = cuda::lookup_scratch_bytes(a.attrs, 3, o.variant);
    const std::shared_ptr<char> scratch = aligned_block(o.scratch_bytes);
    o.scratch = scratch.get();
    CHECK(start(a, o) == 0);
    for (int64_t c = 0; c < 4000; ++c) REQUIRE(out.at(1, c) == table[static_cast<size_t>(8 + c % 4)]);
    double expected = 0;
    for (size_t k = 4; k < 8; ++k) expected += 1000 * 999 / 2 * double{table[k]} * double{table[k]};
    CHECK(std::fabs(chan.at(2, 0) - expected) <= 1e-6 * expected);
  }
}

TEST_CASE("lookup variants: the choice goes by request, table and rules") {
  const LookupModel sums({16, DType::kF32, DType::kF32, false, true, false, 8});
  const LookupModel plain({64, DType::kF16, DType::kF32, false, false, false, 8});
  const LookupModel narrow({64, DType::kF16, DType::kF16, false, false, false, 8});
  const Run a = by_ref(sums), b = by_ref(plain);
  const LookupOutput half(8, narrow.columns(), narrow.stride(), DType::kF16);
  const MultiLookupArgs with_sums = sums.args(a.out, a.chan, 8);
  CHECK(cuda::choose_lookup(with_sums, {}, nullptr).kind == LookupKind::kRows);
  CHECK(cuda::choose_lookup(with_sums, {}, nullptr).vector == 4);
  CHECK(cuda::choose_lookup(plain.args(b.out, b.chan, 8), {}, nullptr).kind == LookupKind::kCopy);
  CHECK(cuda::choose_lookup(plain.args(b.out, b.chan, 8), {}, nullptr).vector == 8);
  CHECK(cuda::choose_lookup(narrow.args(half, b.chan, 8), {}, nullptr).vector == 8);
  LookupTuningEntry small, rest;
  small.rows = 1;
  small.variant.kind = LookupKind::kInputFirst;
  rest.dim = 16;
  rest.sums = 1;
  rest.variant.kind = LookupKind::kCopy;
  rest.variant.block = 128;
  const LookupTuningEntry entries[] = {small, rest};
  const LookupTuning tuning = {entries, 2};
  CHECK(cuda::choose_lookup(with_sums, {}, &tuning).kind == LookupKind::kCopy);
  CHECK(cuda::choose_lookup(with_sums, {}, &tuning).block == 128);
  CHECK(cuda::choose_lookup(sums.args(a.out, a.chan, 4), {}, &tuning).kind == LookupKind::kInputFirst);
  CHECK(cuda::choose_lookup(with_sums, cuda::lookup_variant_named("input_first"), &tuning).kind ==
        LookupKind::kInputFirst);
  CHECK(cuda::lookup_variant_named("auto").kind == LookupKind::kAuto);
  LookupTuningEntry streams;
  streams.variant.stores = 1;
  const LookupTuning streaming = {&streams, 1};
  MultiLookupArgs large = with_sums;
  large.rows = (int64_t{32} << 20) / (4 * large.out.row_stride) + 1;  // choosing reads no memory
  CHECK(cuda::choose_lookup(large, {}, &streaming).stores == 1);
  --large.rows;  // L2 holds it until the next op reads it
  CHECK(cuda::choose_lookup(large, {}, &streaming).stores == 0);
  CHECK(cuda::choose_lookup(large, streams.variant, nullptr).stores == 1);  // as the sweep asks
}

TEST_CASE("lookup variants: the size of the device decides how many rows a thread keeps in flight") {
  const LookupModel m({16, DType::kF32, DType::kF32, false, false, false, 8});
  const Run r = by_ref(m);
  MultiLookupArgs a = m.args(r.out, r.chan, 8);
  const auto ilp = [&](int64_t rows, const cuda::DeviceSize& device) {
    a.rows = rows;  // choosing reads no memory
    return cuda::choose_lookup(a, {}, nullptr, device).ilp;
  };
  const cuda::DeviceSize large = {132, 2048};
  CHECK(ilp(16384, {1, 2048}) == 8);
  CHECK(ilp(16384, large) == 4);
  CHECK(ilp(16384 * 132, large) == 8);
  CHECK(ilp(8, {1, 2048}) == 4);
}

}  // namespace dpi::test::lookup_variants_test
