// MultiLookup with one row a field has two ways of running: kernels/cpu/lookup_rows.cpp goes row by row where
// the rows are alike, multi_lookup.cpp field by field. Random calls of every form: the same bits both ways,
// in every instruction set, and of each row alone; near the reference; nothing written beside a call's
// columns.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "bench/lookup_call.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu {
namespace scalar {
bool rows_are_alike(const MultiLookupArgs& a);
}
namespace avx2 {
bool rows_are_alike(const MultiLookupArgs& a);
}
namespace avx512 {
bool rows_are_alike(const MultiLookupArgs& a);
}
namespace neon {
bool rows_are_alike(const MultiLookupArgs& a);
}
}  // namespace dpi::kernels::cpu

namespace dpi::test::lookup_rows_test {
namespace {

using namespace dpi::kernels;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8,
                            DType::kI4,  DType::kI2,  DType::kFp8};

bool goes_by_rows(cpu::Isa isa, const MultiLookupArgs& a) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::kAvx2) return cpu::avx2::rows_are_alike(a);
  if (isa != cpu::Isa::kScalar) return cpu::avx512::rows_are_alike(a);
#elif defined(__aarch64__)
  if (isa != cpu::Isa::kScalar) return cpu::neon::rows_are_alike(a);
#endif
  (void)isa;
  return cpu::scalar::rows_are_alike(a);
}

/// What a call writes to, NaN before it: rows apart by a gap, the first anywhere.
struct Outputs {
  std::vector<float> out, chan;

  explicit Outputs(const LookupCall& c)
      : out(static_cast<size_t>(c.rows * (c.columns + 2) + 3), NAN),
        chan(static_cast<size_t>(c.rows * (c.channels + 1)), NAN) {}
  /// Gives the call the part that begins at row `first`.
  void give(const LookupCall& c, int64_t first, MultiLookupArgs* a) {
    const int64_t apart = c.columns + 2;
    if (c.has_out) a->out = tensor_over(out, a->rows, apart, c.columns);
    if (c.has_out) a->out.data += 3 + first * apart;
    if (c.channels == 0) return;
    a->chan = tensor_over(chan, a->rows, c.channels + 1, c.channels);
    a->chan.data += first * (c.channels + 1);
  }
  bool operator==(const Outputs& o) const {
    const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
      return std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
    };
    return same(out, o.out) && same(chan, o.chan);
  }
};

using Kernel = void (*)(const MultiLookupArgs& a);

Outputs run(const LookupCall& c, const std::vector<Operand>& inputs, Kernel kernel) {
  Outputs o(c);
  MultiLookupArgs a = c.args(inputs);
  o.give(c, 0, &a);
  kernel(a);
  return o;
}

/// Each row in a call of its own.
Outputs run_alone(const LookupCall& c, Kernel kernel) {
  Outputs o(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    std::vector<Operand> inputs = c.inputs;
    for (Operand& in : inputs) {
      if (in.bags.ids != nullptr) in.bags.ids += r * in.bags.stride;
      if (in.tensor.data != nullptr) in.tensor.data += r * in.tensor.row_stride;
      in.bags.rows = in.tensor.rows = 1;
    }
    MultiLookupArgs a = c.args(inputs);
    a.rows = 1;
    o.give(c, r, &a);
    kernel(a);
  }
  return o;
}

/// The operands of a call with the ids of one of its fields as bags of one id each: the same rows, but no
/// longer alike.
struct AsBags {
  std::vector<Operand> inputs;
  std::vector<int32_t> ids, offsets;

  AsBags(const LookupCall& c, size_t field) : inputs(c.inputs) {
    Bags& bags = inputs[static_cast<size_t>(c.fields[field].input)].bags;
    for (int64_t r = 0; r < c.rows; ++r) ids.push_back(bags.ids[r * bags.stride]);
    for (int64_t r = 0; r <= c.rows; ++r) offsets.push_back(static_cast<int32_t>(r));
    bags = {ids.data(), offsets.data(), nullptr, 1, c.rows};
  }
};

/// FM adds the products of all pairs in float: how far it may be off grows with their number.
float tolerance_of(const LookupCall& c) {
  float vectors = 0;
  for (const LookupField& f : c.fields) vectors += f.fm ? 1 : 0;
  for (const NumericField& f : c.numerics) vectors += f.fm ? 1 : 0;
  return 1e-6f * (1 + vectors * std::sqrt(static_cast<float>(c.fm_dim)));
}

/// body(isa, its kernel), after a comparison of the whole call with the reference.
template <class Body>
void for_each_set(const LookupCall& c, Body&& body) {
  const Outputs want = run(c, c.inputs, ref::multi_lookup);
  for (const cpu::Isa isa : cpu::kIsas) {
    if (!cpu::isa_supported(isa)) continue;
    CAPTURE(std::string(cpu::isa_name(isa)));
    const Kernel kernel = cpu::functions(isa).multi_lookup;
    const Outputs got = run(c, c.inputs, kernel);
    check_buffers(got.out, want.out, 3e-6f);
    check_buffers(got.chan, want.chan, tolerance_of(c));
    body(isa, kernel, got);
  }
}

/// How many calls went row by row, by instruction set.
using Taken = int[std::size(cpu::kIsas)];

bool takes_rows(cpu::Isa isa, const LookupCall& c, const std::vector<Operand>& inputs) {
  Outputs unused(c);
  MultiLookupArgs a = c.args(inputs);
  unused.give(c, 0, &a);
  return goes_by_rows(isa, a);
}

void check_both_ways(LookupCall& c, Taken* taken) {
  const AsBags bags(c, static_cast<size_t>(c.below(static_cast<int64_t>(c.fields.size()))));
  for_each_set(c, [&](cpu::Isa isa, Kernel kernel, const Outputs& got) {
    (*taken)[static_cast<int>(isa)] += takes_rows(isa, c, c.inputs);
    CHECK_FALSE(takes_rows(isa, c, bags.inputs));
    CHECK(got == run(c, bags.inputs, kernel));
    CHECK(got == run_alone(c, kernel));
  });
}

/// Few, about as many as are taken together, or as many as several such groups.
int64_t some_fields(std::mt19937& rng) {
  constexpr int64_t kEdges[] = {1, 2, 3, 26, 39, 40, 41, 79, 80, 81, 120, 121, 150};
  return rng() % 3 == 0 ? kEdges[rng() % std::size(kEdges)] : static_cast<int64_t>(1 + rng() % 40);
}

/// What keeps a call from going row by row; `i`: of one of its fields, with a scalar.
void no_column(LookupCall& c, size_t i) { c.fields[i].out_col = -1; }
void not_in_fm(LookupCall& c, size_t i) { c.fields[i].fm = !c.fields[i].fm; }
void no_output(LookupCall& c, size_t) { c.has_out = false; }

void read_table(LookupCall& c, size_t i, DType dtype, int32_t dim) {
  c.fields[i].table = static_cast<int32_t>(c.views.size());
  c.fields[i].out_col = c.columns;
  c.columns += dim;
  c.views.push_back(c.new_table(dtype, dim, 0));
}
void wider(LookupCall& c, size_t i) { read_table(c, i, c.views[0].dtype, c.views[0].dim + 1); }
void narrower(LookupCall& c, size_t i) { read_table(c, i, c.views[0].dtype, c.views[0].dim - 1); }
void other_type(LookupCall& c, size_t i) {
  read_table(c, i, c.views[0].dtype == DType::kF16 ? DType::kBF16 : DType::kF16, c.views[0].dim);
}

void halve(EmbedAttrs* e) {
  e->pooling = Pooling::kMean;
  e->eps = 1;
}
void pooled(LookupCall& c, size_t i) { halve(&c.fields[i].embed); }
void pooled_scalar(LookupCall& c, size_t i) { halve(&c.scalars[i].embed); }

void read_scalars(LookupCall& c, size_t i, DType dtype, int32_t count) {
  c.scalars[i].table = static_cast<int32_t>(c.views.size());
  c.scalars[i].count = count;
  c.scalars[i].first_channel = 0;
  c.views.push_back(c.new_table(dtype, count, 0));
}
void two_scalars(LookupCall& c, size_t i) { read_scalars(c, i, DType::kF32, 2); }
void narrow_scalar(LookupCall& c, size_t i) { read_scalars(c, i, DType::kBF16, 1); }

/// Every row's scalar is that of the first.
void other_ids(LookupCall& c, size_t i) {
  Operand o = c.inputs[static_cast<size_t>(c.scalars[i].input)];
  o.bags.stride = 0;
  c.scalars[i].input = static_cast<int32_t>(c.inputs.size());
  c.inputs.push_back(o);
}
void more_scalars(LookupCall& c, size_t i) { c.scalars.push_back(c.scalars[i]); }

struct Unlike {
  const char* what;
  void (*make)(LookupCall& c, size_t i);
  bool with_fm;
};
constexpr Unlike kUnlike[] = {{"no column", no_column, true},
                              {"a field outside FM", not_in_fm, true},
                              {"no output", no_output, true},
                              {"a wider row", wider, false},
                              {"a narrower row", narrower, false},
                              {"a row of another type", other_type, true},
                              {"a pooled field", pooled, true},
                              {"a pooled scalar", pooled_scalar, true},
                              {"two scalars", two_scalars, true},
                              {"a scalar in bf16", narrow_scalar, true},
                              {"a scalar of other ids", other_ids, true},
                              {"more scalars than fields", more_scalars, true}};

int64_t lanes(cpu::Isa isa) {
  if (isa == cpu::Isa::kNeon || isa == cpu::Isa::kNeonDot || isa == cpu::Isa::kNeonMmla) return 4;
  return isa == cpu::Isa::kScalar ? 1 : isa == cpu::Isa::kAvx2 ? 8 : 16;
}

/// Of a row of `dim` floats: those of one, two and four vectors go row by row.
bool has_form(cpu::Isa isa, int32_t dim) {
  const int64_t vecs = (dim + lanes(isa) - 1) / lanes(isa);
  return vecs == 1 || vecs == 2 || vecs == 4;
}

}  // namespace

TEST_CASE("lookups row by row: every width, type and number of fields") {
  Taken taken = {}, should = {};
  std::mt19937 rng(20261127);
  for (int32_t last = 1; last <= 67; ++last) {
    const int32_t dim = last == 67 ? 100 : last;
    for (const DType dtype : kTypes) {
      for (const bool fm : {false, true}) {
        const auto seed = static_cast<uint32_t>(rng());
        const int64_t fields = some_fields(rng), rows = 1 + rng() % 70;
        CAPTURE(dim);
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(fm);
        CAPTURE(seed);
        CAPTURE(fields);
        CAPTURE(rows);
        LookupCall c(seed, dtype, dim, fields, rows, fm);
        check_both_ways(c, &taken);
        for (const cpu::Isa isa : cpu::kIsas) should[static_cast<int>(isa)] += has_form(isa, dim);
      }
    }
  }
  for (const cpu::Isa isa : cpu::kIsas) {
    if (cpu::isa_supported(isa)) CHECK(taken[static_cast<int>(isa)] == should[static_cast<int>(isa)]);
  }
}

TEST_CASE("lookups row by row: many rows, several groups of fields") {
  Taken taken = {};
  for (const DType dtype : kTypes) {
    for (const int32_t dim : {2, 4, 28}) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(dim);
      LookupCall c(static_cast<uint32_t>(dim), dtype, dim, 150, 420, true);
      check_both_ways(c, &taken);
    }
  }
  for (const cpu::Isa isa : cpu::kIsas) {
    const int widths = has_form(isa, 2) + has_form(isa, 4) + has_form(isa, 28);
    if (cpu::isa_supported(isa))
      CHECK(taken[static_cast<int>(isa)] == static_cast<int64_t>(std::size(kTypes)) * widths);
  }
}

TEST_CASE("lookups row by row: calls that go field by field, though all but one thing is alike") {
  std::mt19937 rng(20261128);
  for (const Unlike& u : kUnlike) {
    for (int seen = 0; seen < 12;) {
      const auto seed = static_cast<uint32_t>(rng());
      LookupCall c(seed, kTypes[seen % 4], 4, 2 + seen, 1 + rng() % 40, u.with_fm);
      if (c.channels < 2 || c.scalars.size() != c.fields.size()) continue;
      ++seen;
      CAPTURE(std::string(u.what));
      CAPTURE(seed);
      for (const cpu::Isa isa : cpu::kIsas) CHECK((!cpu::isa_supported(isa) || takes_rows(isa, c, c.inputs)));
      u.make(c, static_cast<size_t>(c.below(static_cast<int64_t>(c.fields.size()))));
      for_each_set(c, [&](cpu::Isa isa, Kernel kernel, const Outputs& got) {
        CHECK_FALSE(takes_rows(isa, c, c.inputs));
        CHECK(got == run_alone(c, kernel));
      });
    }
  }
}

}  // namespace dpi::test::lookup_rows_test
