// Which implementation of the fused lookup runs: what the caller asks, then the entry of the tuning
// table that fits and is nearest in rows, then the rules. Host code only.
//
//   kind     kRows with channels, else kCopy
//   vector   8 with a 16-bit out; also when the tables are 16 or 8 bits wide and 8 divides the width; else 4
//   ilp      8 when nothing but copies is asked and the batch fills the GPU at 8 rows a thread, else 4
//   block    256, halved until every multiprocessor has two blocks (multi_lookup.cu)
//   stores   0: the next op reads from L2 what it holds of out. Streaming is worth measuring where out is
//            larger than L2
//
// The numbers of these rules are estimates: common/estimates.hpp.
#include <cstdio>
#include <cstring>

#include "kernels/cuda/common/tuned_rows.hpp"
#include "kernels/cuda/lookup/build.hpp"

namespace dpi::kernels::cuda {
namespace {

bool has_sums(const MultiLookupArgs& a) { return a.attrs.n_channels > 0 && a.chan.data != nullptr; }

bool has_bags(const MultiLookupArgs& a) {
  for (int32_t i = 0; i < a.attrs.n_fields; ++i) {
    if (!is_one_hot(a, a.attrs.fields[i].embed, a.attrs.fields[i].input)) return true;
  }
  for (int32_t i = 0; i < a.attrs.n_scalars; ++i) {
    if (!is_one_hot(a, a.attrs.scalars[i].embed, a.attrs.scalars[i].input)) return true;
  }
  return false;
}

// The type of the first table of the class width, which stands for all.
DType class_type(const MultiLookupArgs& a, int32_t width) {
  for (int32_t i = 0; i < a.attrs.n_fields; ++i) {
    const TableView& t = a.tables[a.attrs.fields[i].table];
    if (t.dim == width) return t.dtype;
  }
  return DType::kF32;
}

bool fits(const LookupTuningEntry& e, const MultiLookupArgs& a, int32_t width) {
  if (e.dim >= 0 && e.dim != width) return false;
  if (e.sums >= 0 && (e.sums != 0) != has_sums(a)) return false;
  if (e.bags >= 0 && (e.bags != 0) != has_bags(a)) return false;
  if (e.any_table == 0 && e.table != class_type(a, width)) return false;
  return e.any_out != 0 || e.out == a.out.dtype;
}

// Where `v` leaves something open, `other` says it.
void fill_open(const LookupVariant& other, LookupVariant* v) {
  if (v->kind == LookupKind::kAuto) v->kind = other.kind;
  if (v->vector == 0) v->vector = other.vector;
  if (v->ilp == 0) v->ilp = other.ilp;
  if (v->block == 0) v->block = other.block;
  if (v->hint == 0) v->hint = other.hint;
  if (v->sort_bags == 0) v->sort_bags = other.sort_bags;
  if (v->stores == 0) v->stores = other.stores;
}

// The nearest entry, or null.
const LookupTuningEntry* measured_for(const MultiLookupArgs& a, int32_t width, const LookupTuning* tuning) {
  const LookupTuningEntry* best = nullptr;
  int64_t nearest = kBeyondReach;
  for (int32_t i = 0; tuning != nullptr && i < tuning->count; ++i) {
    const LookupTuningEntry& e = tuning->entries[i];
    const int64_t distance = tuned_distance(e.rows, a.rows);
    if (distance >= nearest || !fits(e, a, width)) continue;
    best = &e;
    nearest = distance;
  }
  return best;
}

bool stays_in_l2(const MultiLookupArgs& a) {
  return a.rows * a.out.row_stride * dtype_bytes(a.out.dtype) <= estimates::kLookupKeptBytes;
}

int64_t copied_columns(const MultiLookupArgs& a) {
  int64_t n = 0;
  for (int32_t i = 0; i < a.attrs.n_fields; ++i)
    n += a.attrs.fields[i].out_col >= 0 ? a.tables[a.attrs.fields[i].table].dim : 0;
  return n;
}

LookupVariant by_rule(const MultiLookupArgs& a, int32_t width, const DeviceSize& device) {
  LookupVariant v;
  v.kind = has_sums(a) ? LookupKind::kRows : LookupKind::kCopy;
  const bool narrow_tables = class_type(a, width) != DType::kF32;
  v.vector = a.out.dtype != DType::kF32 || (narrow_tables && width % 8 == 0) ? 8 : 4;
  v.ilp = a.rows * copied_columns(a) / v.vector >= estimates::kLookupDeepCopyFills * device.threads() ? 8 : 4;
  return v;
}

}  // namespace

bool has_input_first() {
#ifdef DPI_MEASURE
  return true;
#else
  return false;
#endif
}

LookupVariant lookup_variant_named(const char* name) {
  LookupVariant v;
  if (name != nullptr && std::strcmp(name, "input_first") == 0) v.kind = LookupKind::kInputFirst;
  return v;
}

LookupVariant choose_lookup(const MultiLookupArgs& a, const LookupVariant& asked, const LookupTuning* tuning,
                            const DeviceSize& device) {
  LookupVariant v = asked;
  const int32_t width = lookup_class_width(a);
  if (const LookupTuningEntry* e = measured_for(a, width, tuning); e != nullptr) fill_open(e->variant, &v);
  if (asked.stores == 0 && stays_in_l2(a)) v.stores = 0;
  fill_open(by_rule(a, width, device), &v);
  if (a.out.dtype != DType::kF32 || v.vector != 4) v.vector = 8;
  const bool copies = v.kind == LookupKind::kCopy && !has_sums(a) && !has_bags(a);
  if (v.ilp != 8 || !copies || (v.vector == 8 && a.out.dtype == DType::kF32)) v.ilp = 4;
  if (v.stores != 1 || v.kind == LookupKind::kInputFirst) v.stores = 0;
  if (v.block != 0 && v.block != 32 && v.block != 64 && v.block != 128) v.block = 256;
  return v;
}

int lookup_variants(const MultiLookupArgs& a, const DeviceSize& device, LookupVariant* out, int max) {
  int n = 0;
  const auto add = [&](LookupVariant v) {
    const LookupVariant chosen = choose_lookup(a, v, nullptr, device);
    for (int i = 0; i < n; ++i) {
      if (std::memcmp(&out[i], &chosen, sizeof chosen) == 0) return;
    }
    if (n < max) out[n++] = chosen;
  };
  const bool bags = has_bags(a);
  for (const LookupKind kind : {LookupKind::kRows, LookupKind::kCopy}) {
    for (const int32_t vector : {4, 8}) {
      for (const int32_t ilp : {4, 8}) {
        for (const int32_t block : {0, 128, 256}) {
          for (const int32_t hint : {0, 1, 2}) add({kind, vector, ilp, block, hint, 0, 0});
          if (block == 0) add({kind, vector, ilp, block, 0, 0, 1});
          if (bags) add({kind, vector, ilp, block, 0, 1, 0});
        }
      }
    }
  }
  if (has_input_first()) add({LookupKind::kInputFirst, 0, 0, 0, 0, 0, 0});
  return n;
}

void lookup_variant_text(const LookupVariant& v, char* text, size_t cap) {
  static constexpr const char* kKinds[] = {"auto", "copy", "rows", "input_first"};
  std::snprintf(text, cap, "%s vector=%d ilp=%d block=%d hint=%d sort_bags=%d stores=%d",
                kKinds[static_cast<int32_t>(v.kind)], v.vector, v.ilp, v.block, v.hint, v.sort_bags,
                v.stores);
}

}  // namespace dpi::kernels::cuda
