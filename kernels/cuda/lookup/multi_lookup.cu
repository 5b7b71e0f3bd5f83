// MultiLookup: all lookups of a model in one launch, output-first. The work is known before the launch: rows
// x output vectors, whatever the tables are; one-hot and pooled fields, mixed widths and numerics lie side by
// side in it, and the sums per row are gathered in the same pass. What a launch consists of is described in
// lookup/work.hpp, the choice among the implementations in lookup/choice.cu.
//
// The records travel as kernel arguments (32 KB since sm_70), so that nothing is copied before a launch. More
// than kLargeRecords of them are sent to scratch by a few small launches first. Nothing here allocates or
// waits: it may be captured into a graph.
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/lookup/launch.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue
constexpr size_t kAlign = 256;

size_t rounded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// ---- records on the device

struct Upload {
  Record records[kLargeRecords];
  Record* to;
  int32_t n;
};

__global__ void __launch_bounds__(256) lookup_upload_kernel(const __grid_constant__ Upload u) {
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i < u.n) u.to[i] = u.records[i];
}

int upload_records(const LookupBuild& build, Record* to, Stream stream) {
  Upload u{};
  u.to = to;
  int code = 0;
  const auto flush = [&] {
    if (u.n > 0 && code == 0) code = launch(lookup_upload_kernel, dim3(1), dim3(256), stream, u);
    u.to += u.n;
    u.n = 0;
  };
  build.for_each([&](RecordRole, const Record& r) {
    if (u.n == kLargeRecords) flush();
    u.records[u.n++] = r;
  });
  flush();
  return code;
}

// ---- geometry

int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

Range* range_of(Launch* w, RecordRole role) {
  switch (role) {
    case RecordRole::kCopy:
      return &w->copy;
    case RecordRole::kVectors:
      return &w->vectors;
    case RecordRole::kNumerics:
      return &w->numerics;
    case RecordRole::kVectorBags:
      return &w->vector_bags;
    case RecordRole::kScalars:
      return &w->scalars;
    case RecordRole::kScalarBags:
      return &w->scalar_bags;
    default:
      return &w->bags;
  }
}

/// Counts the records of each role, and says whether one has a cache. Their number, or -1 when units do not
/// fit an int32.
int32_t count_records(const LookupBuild& build, Launch* w, bool* cached) {
  int32_t n = 0;
  int64_t tiles = 0;
  int64_t units = 0;
  build.for_each([&](RecordRole role, const Record& r) {
    Range* range = range_of(w, role);
    if (range->count++ == 0) range->begin = n;
    ++n;
    *cached = *cached || r.cache != nullptr;
    if (role == RecordRole::kCopy) units += build.units_of(role, r);
    if (role == RecordRole::kBags) tiles += build.units_of(role, r);
    if (role == RecordRole::kScalarBags && r.width > w->scalar_width) w->scalar_width = r.width;
  });
  w->n_units = static_cast<int32_t>(units);
  w->bag_tiles = static_cast<int32_t>(tiles);
  return units < 0x7fffffff && tiles < 0x7fffffff ? n : -1;
}

/// Workers to start for n pieces of work: at most `limit`, as many as get (nearly) equal shares.
int64_t even_workers(int64_t n, int64_t limit) { return n <= limit ? n : divide_up(n, divide_up(n, limit)); }

int32_t choose_block(int64_t threads, int32_t asked, const DeviceSize& device) {
  if (asked != 0) return asked;
  const int64_t wanted = estimates::kLookupBlocksPerMultiprocessor * device.multiprocessors;
  int32_t block = 256;
  while (block > 32 && divide_up(threads, block) < wanted) block /= 2;
  return block;
}

void set_geometry(const LookupVariant& v, const DeviceSize& device, LookupRequest* q) {
  const int64_t threads = device.threads();
  const int64_t warps = threads / estimates::kLookupWarpShare / kWarp;
  Launch& w = q->head;
  const bool has_rows = w.n_channels > 0 || w.vectors.count > 0 || w.numerics.count > 0;
  const bool only_copies = w.bags.count == 0 && !has_rows;
  const int64_t in_flight = only_copies ? v.ilp : 4;  // the kernels' kIlp
  const int64_t full = w.rows * w.n_units / threads;
  w.rows_per_thread = static_cast<int32_t>(full < 1 ? 1 : full < in_flight ? full : in_flight);
  w.row_groups = divide_up(w.rows, w.rows_per_thread);
  const int64_t at_once = w.n_units > 0 ? threads / w.n_units : 0;
  w.copy_groups = w.n_units > 0 ? even_workers(w.row_groups, at_once > 0 ? at_once : 1) : 0;
  const int64_t row_warps = has_rows ? even_workers(w.rows, warps) : 0;
  const int64_t bag_warps = even_workers(w.bag_tiles, warps);
  const int64_t copy_threads = w.copy_groups * w.n_units;
  q->block = choose_block(copy_threads + (row_warps + bag_warps) * kWarp, v.block, device);
  q->ilp = v.ilp;
  w.bag_blocks = static_cast<int32_t>(divide_up(bag_warps * kWarp, q->block));
  w.row_blocks = static_cast<int32_t>(divide_up(row_warps * kWarp, q->block));
  w.copy_blocks = static_cast<int32_t>(divide_up(copy_threads, q->block));
}

void set_values(const MultiLookupArgs& a, const LookupOptions& o, Launch* w) {
  w->faults = o.faults;
  w->bias = a.channel_bias.data;
  w->out = a.out.data;
  w->chan = a.chan.data;
  w->out_stride = a.out.row_stride;
  w->chan_stride = a.chan.row_stride;
  w->rows = a.rows;
  w->out_type = a.out.dtype;
  w->n_channels = a.chan.data != nullptr ? a.attrs.n_channels : 0;
  w->fm_channel = w->n_channels > 0 ? a.attrs.fm_channel : -1;
}

// ---- the order of long bags

int32_t written_bags(const MultiLookupAttrs& attrs) {
  int32_t n = 0;
  for (int32_t i = 0; i < attrs.n_fields; ++i) n += attrs.fields[i].out_col >= 0 ? 1 : 0;
  return n;
}

/// Sorts when asked, scratch suffices and the fields are few enough; else the rows keep their order.
int sort_bags(const LookupBuild& build, const LookupOptions& o, size_t used, LookupRequest* q,
              Stream stream) {
  BagOrder b;
  b.rows = q->head.rows;
  if (q->head.bags.count == 0 || q->head.bags.count > kMaxOrderFields) return 0;
  build.for_each([&](RecordRole role, const Record& r) {
    if (role == RecordRole::kBags) b.offsets[b.fields++] = r.offsets;
  });
  for (int32_t i = 0; i < b.fields; ++i) {
    if (b.offsets[i] == nullptr) return 0;
  }
  const size_t bytes = bag_order_bytes(b.fields, b.rows);
  if (o.scratch == nullptr || bytes == 0 || used + bytes > o.scratch_bytes) return 0;
  void* at = static_cast<char*>(o.scratch) + used;
  q->head.order = static_cast<const int32_t*>(at);
  return start_bag_order(b, at, stream);
}

int start_fused(const MultiLookupArgs& a, const LookupVariant& v, const LookupOptions& o, Stream stream) {
  const LookupBuild build(a, v.vector, v.kind == LookupKind::kRows);
  if (!build.fits()) return kInvalidValue;
  LookupRequest q;
  q.build = &build;
  set_values(a, o, &q.head);
  q.head.hint = static_cast<RowHint>(v.hint);
  q.head.streams_out = v.stores;
  q.head.row_width = build.class_width();
  q.head.lanes_log2 = lanes_for(v.vector, build.class_width());
  q.n_records = count_records(build, &q.head, &q.cached);
  if (q.n_records < 0) return kInvalidValue;
  set_geometry(v, o.device, &q);
  size_t used = 0;
  if (q.n_records > kLargeRecords) {
    used = rounded(static_cast<size_t>(q.n_records) * sizeof(Record));
    if (o.scratch == nullptr || used > o.scratch_bytes) return kInvalidValue;
    auto* records = static_cast<Record*>(o.scratch);
    if (const int code = upload_records(build, records, stream); code != 0) return code;
    q.head.records = records;
  }
  if (v.sort_bags != 0) {
    if (const int code = sort_bags(build, o, used, &q, stream); code != 0) return code;
  }
  if (a.out.dtype != DType::kF32 && a.out.data != nullptr)
    return q.cached ? start_cached_h8(q, stream) : start_lookup_h8(q, stream);
  if (v.vector == 4) return q.cached ? start_cached_f4(q, stream) : start_lookup_f4(q, stream);
  return q.cached ? start_cached_f8(q, stream) : start_lookup_f8(q, stream);
}

}  // namespace

size_t lookup_scratch_bytes(const MultiLookupAttrs& attrs, int64_t rows, const LookupVariant& asked) {
#ifdef DPI_MEASURE
  if (asked.kind == LookupKind::kInputFirst)
    return rounded(static_cast<size_t>(input_first_floats(attrs, rows)) * sizeof(float));
#endif
  // A field may have two records: one that copies it, one that sums it.
  const int64_t n = 2 * (int64_t{attrs.n_fields} + attrs.n_numerics) + attrs.n_scalars;
  size_t bytes = n > kLargeRecords ? rounded(static_cast<size_t>(n) * sizeof(Record)) : 0;
  const int32_t bags = written_bags(attrs);
  if (asked.sort_bags != 0 && bags > 0)
    bytes += bag_order_bytes(bags < kMaxOrderFields ? bags : kMaxOrderFields, rows);
  return bytes;
}

int multi_lookup(const MultiLookupArgs& a, const LookupOptions& options, Stream stream) {
  if (a.rows <= 0) return 0;
  const LookupVariant v = choose_lookup(a, options.variant, options.tuning, options.device);
  if (v.kind != LookupKind::kInputFirst) return start_fused(a, v, options, stream);
#ifdef DPI_MEASURE
  const size_t bytes = static_cast<size_t>(input_first_floats(a.attrs, a.rows)) * sizeof(float);
  if (bytes > 0 && (options.scratch == nullptr || bytes > options.scratch_bytes)) return kInvalidValue;
  return start_input_first(a, options.faults, static_cast<float*>(options.scratch), stream);
#else
  return kInvalidValue;
#endif
}

int multi_lookup(const MultiLookupArgs& a, Stream stream) { return multi_lookup(a, LookupOptions{}, stream); }

}  // namespace dpi::kernels::cuda
