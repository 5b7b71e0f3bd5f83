#include "store/tiered/arena.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/checked.hpp"
#include "store/tiered/directory.hpp"

namespace dpi::tiered {

namespace {

constexpr int64_t kLeastPerShard = 4096;
constexpr int64_t kMostPlaces = (int64_t{1} << 31) - 4096;  // of a class: places are int32
constexpr int64_t kMostPerShard = int64_t{1} << 22;         // leaves 9 bits of a word for the table
constexpr int64_t kMostShards = 1024;
constexpr int64_t kDirectoryBytes = 18;  // a place, at a load of 0.75, absent keys included
constexpr int64_t kPlaceBytes = 9;       // its pool, heat, sketch and probation
constexpr int64_t kShardBytes = 320;     // a shard's stash, and what is rounded up
// Absent keys beyond those that places carry with them, one for 64: few places would remember next to none,
// and a table whose keys are looked up from elsewhere would be asked for each of them in every call.
constexpr int64_t kAbsentNote = 24;    // which, and since when
constexpr int64_t kAbsentBytes = 42;   // with its share of the directory
constexpr int64_t kFewAbsent = 64;     // for which room is kept
constexpr int64_t kMostAbsent = 4096;  // of a shard, where its class has bytes to spare

// An absent key has a place too, until that is known. Of a table that may be asked for any key so many of one
// call have one, however few its rows are.
constexpr int64_t kAnyKeys = 65536;

int64_t carried_absent(const ArenaPlan::Class& c) { return c.places_per_shard / 64; }

int64_t wanted_bytes(const TierTable& t) {
  return checked_mul(std::max<int64_t>(1, t.rows), row_stride(t)).value_or(int64_t{1} << 50);
}

int64_t shards_for(int64_t places, int64_t most) {
  const auto wanted =
      static_cast<uint64_t>(std::clamp<int64_t>(places / kLeastPerShard, 1, std::max<int64_t>(1, most)));
  const auto needed = static_cast<uint64_t>((places + kMostPerShard - 1) / kMostPerShard);
  const auto shards = static_cast<int64_t>(std::max(std::bit_floor(wanted), std::bit_ceil(needed)));
  return std::min(kMostShards, shards);
}

/// A quarter more than the rows there are, for shards that are not equally full; 0 = not known.
int64_t most_places(int64_t rows) { return rows < 0 ? 0 : rows + rows / 4 + 64; }

/// The bytes that the class can use, if its rows are known.
double all_bytes(const ArenaPlan::Class& c, int64_t places, int64_t shards, int32_t reserved) {
  if (places == 0) return 1e15;
  const auto each = static_cast<double>(c.stride + kDirectoryBytes + kPlaceBytes);
  const auto own = static_cast<int64_t>(c.tables.size()) + reserved;
  const int64_t fixed = own * c.stride + 64 + shards_for(places, shards) * kShardBytes;
  return static_cast<double>(places) * each + static_cast<double>(fixed + kFewAbsent * kAbsentBytes);
}

/// Shards and places of a class that may take `bytes`. most_rows: more would never be used, 0 = not known.
void cut(ArenaPlan::Class* c, int64_t bytes, int64_t most_rows, int64_t shards, int32_t reserved) {
  const int64_t each = c->stride + kDirectoryBytes + kPlaceBytes;
  const int64_t own = (static_cast<int64_t>(c->tables.size()) + reserved) * c->stride + 64;
  const int64_t absent = std::min(c->any_key ? kMostAbsent * kAbsentBytes : kFewAbsent * kAbsentBytes,
                                  bytes / (c->any_key ? 8 : 16));
  const auto room = [&](int64_t n) {
    const int64_t left = bytes - absent - n * kShardBytes - own;
    const int64_t places = std::clamp<int64_t>(left / each, 0, kMostPlaces);
    return most_rows > 0 ? std::min(places, most_rows) : places;
  };
  c->shards = static_cast<int32_t>(shards_for(room(1), shards));
  c->places_per_shard = static_cast<int32_t>(room(c->shards) / c->shards);
  const int64_t spare = bytes - own - c->shards * kShardBytes - c->places() * each;
  const int64_t more = std::clamp<int64_t>(spare / (c->shards * kAbsentBytes), 1, kMostAbsent);
  c->remembered = static_cast<int32_t>(std::max(carried_absent(*c), more));
}

Status place_classes(const std::vector<TierTable>& tables, uint64_t budget, int32_t reserved,
                     ArenaPlan* plan) {
  for (auto& c : plan->classes) {
    if (c.places_per_shard == 0) {
      return {Code::kOutOfMemory, "a host budget of " + std::to_string(budget) +
                                      " bytes leaves no room for a row of table '" +
                                      tables[static_cast<size_t>(c.tables[0])].name + "', which takes " +
                                      std::to_string(c.stride + kDirectoryBytes + kPlaceBytes) + " bytes"};
    }
    const auto shape =
        directory_shape(c.shards, c.places_per_shard, c.remembered, static_cast<int64_t>(c.tables.size()), 0);
    if (!shape)
      return unsupported(std::to_string(c.tables.size()) + " tables with rows of " +
                         std::to_string(c.stride) + " bytes, at most 511");
    c.row_offset = plan->row_bytes + static_cast<uint64_t>(reserved * c.stride);
    c.directory_offset = plan->directory_bytes;
    const int64_t rows = reserved + c.places() + static_cast<int64_t>(c.tables.size());
    plan->row_bytes += static_cast<uint64_t>(round_up(rows * c.stride, 64));
    plan->directory_bytes += Directory::bytes(*shape);
    const int64_t absent = c.shards * (c.remembered - carried_absent(c));
    plan->place_bytes += static_cast<uint64_t>(c.places() * kPlaceBytes + absent * kAbsentNote);
  }
  return {};
}

}  // namespace

int64_t row_bytes(const TierTable& table) {
  if (table.dtype == kernels::DType::kI8) return scale_at(table.dim) + int64_t{sizeof(float)};
  return kernels::row_bytes_of(table.dtype, table.dim);
}

int64_t row_stride(const TierTable& table) {
  const int64_t scalars = table.scalars * static_cast<int64_t>(sizeof(float));
  const int64_t bytes = scalars > 0 ? scalars_at(table) + scalars : row_bytes(table);
  if (kernels::row_form(table.dtype).whole) return round_up(bytes, 4);
  if (bytes <= 32)
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 4))));
  return bytes <= 64 ? 64 : round_up(bytes, 32);
}

Result<ArenaPlan> plan_arena(const std::vector<TierTable>& tables, uint64_t budget, int32_t shards,
                             int32_t reserved) {
  ArenaPlan plan;
  std::vector<double> share;
  std::vector<int64_t> most_rows;  // of all tables of a class, 0 = not known
  for (size_t t = 0; t < tables.size(); ++t) {
    const int64_t stride = row_stride(tables[t]);
    size_t c = 0;
    while (c < plan.classes.size() && plan.classes[c].stride != stride) ++c;
    if (c == plan.classes.size()) {
      plan.classes.emplace_back().stride = stride;
      share.push_back(0);
      most_rows.push_back(0);
    }
    plan.classes[c].tables.push_back(static_cast<int32_t>(t));
    plan.classes[c].any_key = plan.classes[c].any_key || tables[t].any_key;
    plan.class_of.push_back(static_cast<int32_t>(c));
    plan.code_of.push_back(static_cast<int32_t>(plan.classes[c].tables.size()));
    share[c] += static_cast<double>(wanted_bytes(tables[t]));
    const bool known = tables[t].rows > 0 && most_rows[c] >= 0;
    const int64_t keys = std::max(tables[t].rows, tables[t].any_key ? kAnyKeys : 0);
    most_rows[c] = known ? checked_add(most_rows[c], keys).value_or(-1) : -1;
  }
  // A small class gets all it can use, up to a share that large ones do not feel; what is left goes by size.
  const double least = static_cast<double>(budget) / (4.0 * static_cast<double>(plan.classes.size()));
  double left = static_cast<double>(budget), open = 0;
  std::vector<double> at_once;
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    most_rows[c] = most_places(most_rows[c]);
    at_once.push_back(std::min(least, all_bytes(plan.classes[c], most_rows[c], shards, reserved)));
    left -= at_once[c], open += share[c];
  }
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    const double bytes = std::min(1e15, at_once[c] + left * (share[c] / open));
    cut(&plan.classes[c], static_cast<int64_t>(bytes), most_rows[c], shards, reserved);
  }
  DPI_RETURN_IF_ERROR(place_classes(tables, budget, reserved, &plan));
  return plan;
}

bool same_classes(const ArenaPlan& a, const ArenaPlan& b) {
  const auto same_stride = [](const ArenaPlan::Class& x, const ArenaPlan::Class& y) {
    return x.stride == y.stride;
  };
  return a.class_of == b.class_of &&
         std::equal(a.classes.begin(), a.classes.end(), b.classes.begin(), b.classes.end(), same_stride);
}

Result<Arena> Arena::make(const ArenaPlan& plan, const MemoryHooks& for_rows, const MemoryHooks& hooks) {
  Arena a;
  a.plan_ = plan;
  DPI_ASSIGN_OR_RETURN(a.rows_, Block::make(for_rows, plan.row_bytes, "the rows of tiered tables"));
  DPI_ASSIGN_OR_RETURN(a.directories_,
                       Block::make(hooks, plan.directory_bytes, "directories of tiered tables"));
  return a;
}

}  // namespace dpi::tiered
