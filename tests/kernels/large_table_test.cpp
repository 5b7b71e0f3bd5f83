// Rows beyond 2^31 and 2^32 bytes of one table: every way of the CUDA backend to read a row, over the
// emulation. The table is address space that only the rows which are read make real.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/kernels.hpp"
#include "kernels/emu/device_emu.hpp"

namespace dpi::test::large_table_test {
namespace {

using kernels::DType;
using kernels::Pooling;
using kernels::cuda::LookupKind;

constexpr int64_t kRows = 90'000'000;
constexpr int32_t kDim = 16;
constexpr int64_t kRowBytes = 64;
static_assert(kRows * kRowBytes > (int64_t{5} << 30));

/// Zeros but for the rows of `ids`, whose column c holds id % 1000 + c / 16.
struct LargeTable {
  char* base = nullptr;
  std::vector<int32_t> ids = {0,
                              1,
                              (int64_t{1} << 31) / kRowBytes - 1,
                              (int64_t{1} << 31) / kRowBytes,
                              (int64_t{1} << 31) / kRowBytes + 77,
                              (int64_t{1} << 32) / kRowBytes - 1,
                              (int64_t{1} << 32) / kRowBytes,
                              (int64_t{1} << 32) / kRowBytes + 1,
                              kRows - 2,
                              kRows - 1};

  LargeTable() {
    void* p = mmap(nullptr, kRows * kRowBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(p != MAP_FAILED);
    base = static_cast<char*>(p);
    for (const int32_t id : ids) {
      auto* row = reinterpret_cast<float*>(base + int64_t{id} * kRowBytes);
      for (int32_t c = 0; c < kDim; ++c) row[c] = value(id, c);
    }
  }
  ~LargeTable() { munmap(base, kRows * kRowBytes); }
  LargeTable(const LargeTable&) = delete;
  LargeTable& operator=(const LargeTable&) = delete;

  static float value(int32_t id, int32_t c) {
    return static_cast<float>(id % 1000) + static_cast<float>(c) / 16.0f;
  }
  kernels::TableView view() const {
    kernels::TableView t;
    t.base = base;
    t.rows = kRows;
    t.row_bytes = kRowBytes;
    t.dim = kDim;
    return t;
  }
};

/// One id per row, or a bag of it and its neighbour in `ids`.
struct Ids {
  std::vector<int32_t> ids, offsets{0};
  kernels::Operand operand;

  Ids(const LargeTable& t, bool bags) {
    for (size_t r = 0; r < t.ids.size(); ++r) {
      ids.push_back(t.ids[r]);
      if (bags) ids.push_back(t.ids[(r + 1) % t.ids.size()]);
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    operand.bags.ids = ids.data();
    operand.bags.offsets = bags ? offsets.data() : nullptr;
    operand.bags.stride = 1;
    operand.bags.rows = static_cast<int64_t>(t.ids.size());
  }
  float want(const LargeTable& t, size_t row, int32_t c) const {
    float sum = LargeTable::value(t.ids[row], c);
    if (operand.bags.offsets != nullptr) sum += LargeTable::value(t.ids[(row + 1) % t.ids.size()], c);
    return sum;
  }
};

/// The output of `run`, which starts work on a stream.
template <class Run>
std::vector<float> ran(size_t floats, const Run& run) {
  std::vector<float> out(floats, std::nanf(""));
  emu::Stream* stream = nullptr;
  REQUIRE(emu::stream_create(&stream) == 0);
  REQUIRE(run(out.data(), stream) == 0);
  REQUIRE(emu::stream_sync(stream) == 0);
  emu::stream_destroy(stream);
  return out;
}

bool right(const LargeTable& t, const Ids& ids, const std::vector<float>& out) {
  for (size_t r = 0; r < t.ids.size(); ++r) {
    for (int32_t c = 0; c < kDim; ++c) {
      if (!(out[r * kDim + static_cast<size_t>(c)] == ids.want(t, r, c))) return false;
    }
  }
  return true;
}

TEST_CASE("large table: the fused lookup, its implementations one by one") {
  const LargeTable table;
  const kernels::TableView view = table.view();
  for (const bool bags : {false, true}) {
    for (const LookupKind kind : {LookupKind::kAuto, LookupKind::kCopy, LookupKind::kRows}) {
      for (const int32_t vector : {4, 8}) {
        CAPTURE(bags);
        CAPTURE(static_cast<int>(kind));
        CAPTURE(vector);
        const Ids ids(table, bags);
        kernels::LookupField field;
        field.embed.pooling = bags ? Pooling::kSum : Pooling::kSingle;
        field.out_col = 0;
        kernels::MultiLookupArgs a;
        a.attrs.fields = &field;
        a.attrs.n_fields = 1;
        a.inputs = &ids.operand;
        a.tables = &view;
        a.rows = ids.operand.bags.rows;
        kernels::cuda::LookupOptions o;
        o.variant.kind = kind;
        o.variant.vector = vector;
        o.scratch_bytes = kernels::cuda::lookup_scratch_bytes(a.attrs, a.rows, o.variant);
        std::vector<char> scratch(o.scratch_bytes + 256);
        o.scratch = scratch.data() + (256 - reinterpret_cast<uintptr_t>(scratch.data()) % 256) % 256;
        const auto out = ran(table.ids.size() * kDim, [&](float* to, emu::Stream* s) {
          a.out = {to, a.rows, kDim, {1, {kDim}}, DType::kF32};
          return kernels::cuda::multi_lookup(a, o, s);
        });
        CHECK(right(table, ids, out));
      }
    }
  }
}

TEST_CASE("large table: one embedding") {
  const LargeTable table;
  for (const bool bags : {false, true}) {
    CAPTURE(bags);
    const Ids ids(table, bags);
    kernels::EmbedArgs a;
    a.attrs.pooling = bags ? Pooling::kSum : Pooling::kSingle;
    a.ids = ids.operand.bags;
    a.table = table.view();
    const auto out = ran(table.ids.size() * kDim, [&](float* to, emu::Stream* s) {
      a.dst = {to, ids.operand.bags.rows, kDim, {1, {kDim}}, DType::kF32};
      return kernels::cuda::embed(a, s);
    });
    CHECK(right(table, ids, out));
  }
}

}  // namespace
}  // namespace dpi::test::large_table_test
