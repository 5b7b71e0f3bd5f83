// Checks of a whole batch that do not look at ids, and its division into ranges that fit a context.
#include <algorithm>

#include "base/checked.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

namespace {

constexpr int64_t kMaxRequestRows = int64_t{1} << 31;

Status check_offsets(const char* name, const int64_t* offsets, int64_t n, int64_t last,
                     const char* last_name) {
  if (offsets[0] != 0) {
    return invalid_argument(std::string(name) + "[0] is " + std::to_string(offsets[0]) + ", expected 0");
  }
  for (int64_t i = 0; i < n; ++i) {
    if (offsets[i + 1] < offsets[i]) {
      return invalid_argument(std::string(name) + "[" + std::to_string(i + 1) + "] is " +
                              std::to_string(offsets[i + 1]) + ", less than the one before, " +
                              std::to_string(offsets[i]));
    }
  }
  if (offsets[n] != last) {
    return invalid_argument(std::string(name) + "[" + std::to_string(n) + "] is " +
                            std::to_string(offsets[n]) + ", expected " + last_name + " = " +
                            std::to_string(last));
  }
  return {};
}

struct PartShape {
  const char* prefix;  // "" or "shared_"
  const char* offsets_name;
  int64_t slots;
  int64_t columns;
};

Status check_ids(const BatchPart& p, const PartShape& shape) {
  const std::string pre = shape.prefix;
  const auto bags = checked_mul(p.rows, shape.slots);
  if (!bags) return invalid_argument(pre + "rows x slots overflows");
  if (p.nnz < 0) return invalid_argument(pre + "nnz is negative");
  if (p.ids == nullptr && (p.nnz > 0 || (p.offsets == nullptr && *bags > 0))) {
    return invalid_argument(pre + "ids is null, but the model has " + std::to_string(shape.slots) +
                            " id features");
  }
  if (p.offsets != nullptr) return check_offsets(shape.offsets_name, p.offsets, *bags, p.nnz, "nnz");
  if (p.nnz != *bags) {
    return invalid_argument(pre + "nnz is " + std::to_string(p.nnz) +
                            ", expected rows x slots = " + std::to_string(p.rows) + " x " +
                            std::to_string(shape.slots) + " (one id per bag; give offsets for bags)");
  }
  return {};
}

Status check_part(const BatchPart& p, const PartShape& shape) {
  const std::string pre = shape.prefix;
  if (p.rows < 0 || p.rows > kMaxRequestRows) {
    return invalid_argument(pre + "rows is " + std::to_string(p.rows) + ", expected 0 .. 2^31");
  }
  if (p.rows == 0) {
    return p.nnz == 0 ? Status()
                      : invalid_argument(pre + "nnz is " + std::to_string(p.nnz) + ", but there are no rows");
  }
  if (shape.columns > 0) {
    if (p.dense == nullptr) {
      return invalid_argument(pre + "dense is null, but the model has " + std::to_string(shape.columns) +
                              " dense columns");
    }
    if (p.dense_stride != 0 && p.dense_stride < shape.columns) {
      return invalid_argument(pre + "dense_stride is " + std::to_string(p.dense_stride) +
                              ", expected at least " + std::to_string(shape.columns));
    }
  }
  if (shape.slots == 0) {
    return p.nnz == 0
               ? Status()
               : invalid_argument(pre + "nnz is " + std::to_string(p.nnz) + ", but there are no id features");
  }
  return check_ids(p, shape);
}

/// Ids that row `r` of a part adds to sequence feature `f` at most.
int64_t bag_length(const ResolveSchema::Feature& f, const Batch& b, const BatchPart& p, int64_t r,
                   int64_t slots) {
  if (p.offsets == nullptr) return 1;
  const int64_t slot = b.has_shared() ? f.part_slot : f.slot;
  const int64_t bag = b.slot_major ? slot * p.rows + r : r * slots + slot;
  int64_t n = std::max<int64_t>(p.offsets[bag + 1] - p.offsets[bag], 1);
  return f.max_bag > 0 ? std::min(n, std::max<int64_t>(f.max_bag, 1)) : n;
}

/// Last row (exclusive) from `begin` whose bags of every sequence feature of one space fit.
int64_t fit_rows(const ResolveSchema& s, const InputMap& l, const Batch& b, RowSpace space, int64_t begin,
                 int64_t end) {
  const bool own = b.has_shared() && space == RowSpace::kShared;
  const BatchPart& p = own ? b.shared : b.item;
  const auto& n = s.columns;
  const int64_t slots = !b.has_shared() ? n.n_slots : own ? n.n_shared_slots : n.n_item_slots;
  for (size_t k = 0; k < s.sequences.size(); ++k) {
    const auto& f = s.features[s.sequences[k]];
    if (f.spec.space != space) continue;
    int64_t used = 0;
    for (int64_t r = begin; r < end; ++r) {
      used += bag_length(f, b, p, r, slots);
      if (used > l.sequences[k].max_nnz) end = std::max(r, begin + 1);
    }
  }
  return end;
}

}  // namespace

Status check_batch(const ResolveSchema& schema, const Batch& b) {
  const auto& l = schema.columns;
  if (!b.has_shared()) {
    if (b.shared.rows != 0) return invalid_argument("shared_rows is not 0, but shared_offsets is null");
    return check_part(b.item, {"", "offsets", l.n_slots, l.n_columns});
  }
  DPI_RETURN_IF_ERROR(check_part(b.item, {"", "offsets", l.n_item_slots, l.n_item_columns}));
  DPI_RETURN_IF_ERROR(
      check_part(b.shared, {"shared_", "shared_bag_offsets", l.n_shared_slots, l.n_shared_columns}));
  return check_offsets("shared_offsets", b.shared_offsets, b.shared.rows, b.item.rows, "rows");
}

bool bags_fit(const ResolveSchema& schema, const InputMap& map, const Batch& b, const std::byte* block,
              const ResolvedRows& behind) {
  const auto& n = schema.columns;
  for (size_t k = 0; k < schema.sequences.size(); ++k) {
    const auto& f = schema.features[static_cast<size_t>(schema.sequences[k])];
    const bool own = b.has_shared() && f.spec.space == RowSpace::kShared;
    const BatchPart& p = own ? b.shared : b.item;
    const int64_t slots = !b.has_shared() ? n.n_slots : own ? n.n_shared_slots : n.n_item_slots;
    const int64_t there = behind.rows[f.spec.space];
    int64_t used = 0;
    if (there > 0) used = reinterpret_cast<const int32_t*>(block + map.sequences[k].offsets)[there];
    for (int64_t r = 0; r < p.rows; ++r) used += bag_length(f, b, p, r, slots);
    if (used > map.sequences[k].max_nnz) return false;
  }
  return true;
}

Result<RowRange> next_range(const ResolveSchema& schema, const InputMap& map, const PerSpace<int64_t>& most,
                            const Batch& b, int64_t begin, int64_t end) {
  RowRange r;
  r.begin = begin;  // without a shared part each row is its own user
  r.end = std::min(end, begin + (b.has_shared() ? most.item : std::min(most.item, most.shared)));
  if (!schema.sequences.empty()) r.end = fit_rows(schema, map, b, RowSpace::kItem, r.begin, r.end);
  if (!b.has_shared()) {
    if (!schema.sequences.empty()) r.end = fit_rows(schema, map, b, RowSpace::kShared, r.begin, r.end);
    return r;
  }
  const int64_t* first = b.shared_offsets;
  const int64_t* last = first + b.shared.rows + 1;
  r.shared_begin = std::upper_bound(first, last, r.begin) - first - 1;
  r.shared_end = std::lower_bound(first, last, r.end) - first;
  r.shared_end = std::min(r.shared_end, r.shared_begin + most.shared);
  // A shared row without items is not looked at, wherever it stands: a range ends before it.
  const int64_t* none = std::adjacent_find(first + r.shared_begin, first + r.shared_end + 1);
  r.shared_end = std::min(r.shared_end, none - first);
  r.shared_end = fit_rows(schema, map, b, RowSpace::kShared, r.shared_begin, r.shared_end);
  r.end = std::min(r.end, b.shared_offsets[r.shared_end]);
  return r;
}

}  // namespace dpi
