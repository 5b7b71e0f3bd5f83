#include "store/external/table_update.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "store/external/paced_update.hpp"
#include "store/tiered/arena.hpp"

namespace dpi {

namespace {

constexpr int64_t kBlockBytes = 4 << 20;

/// All changes of a table, in one order: rows that are set, row numbers that are gone, keys that are gone.
class Changes {
 public:
  using Sink = std::function<Status(std::span<const int64_t> keys, std::span<const std::byte> rows)>;

  static Result<Changes> make(const TableUpdate& what) {
    Changes c(what);
    if (c.rows_ != nullptr && c.rows_->all && c.rows_->set() > 0) DPI_RETURN_IF_ERROR(c.name_all());
    return c;
  }

  int64_t count() const { return set_rows() + zeroed() + static_cast<int64_t>(gone().size()); }

  /// Identifies the changes and their order; the values follow from the content.
  uint64_t id(const std::string& content) const {
    uint64_t h = XXH3_64bits_withSeed(content.data(), content.size(), static_cast<uint64_t>(set_rows()));
    const auto add = [&h](std::span<const int64_t> keys) {
      h = XXH3_64bits_withSeed(keys.data(), keys.size_bytes(), h + keys.size());
    };
    add(keys());
    if (rows_ != nullptr) add(rows_->gone);
    add(gone());
    return h;
  }

  /// Blocks of those from number `first` on (where one has some of them, all of it): fn(keys, rows, changes
  /// to their end).
  template <class Fn>
  Status each(int64_t first, const Fn& fn) {
    int64_t at = 0;
    const auto pass = [&](std::span<const int64_t> keys, std::span<const std::byte> rows) -> Status {
      at += static_cast<int64_t>(keys.size());
      return at <= first ? Status() : fn(keys, rows, at);
    };
    DPI_RETURN_IF_ERROR(each_row(pass));
    DPI_RETURN_IF_ERROR(each_zeroed(pass));
    for (std::span<const int64_t> left = gone(); !left.empty();) {
      const auto some = left.first(std::min(left.size(), static_cast<size_t>(kBlockBytes / 64)));
      DPI_RETURN_IF_ERROR(pass(some, {}));
      left = left.subspan(some.size());
    }
    return {};
  }

 private:
  explicit Changes(const TableUpdate& what)
      : what_(what),
        spec_(what.delta.manifest().tables[what.table]),
        rows_(what.delta.find_table(what.table)),
        keyed_(spec_.key_set >= 0),
        set_(keyed_ ? what.delta.find_key_set(static_cast<size_t>(spec_.key_set)) : nullptr) {}

  /// Rows that the store keeps: a keyed table's default row, which comes last, is none of them.
  int64_t set_rows() const { return static_cast<int64_t>(keys().size()); }
  std::span<const int64_t> keys() const {
    if (rows_ == nullptr) return {};
    return rows_->all ? std::span<const int64_t>(all_) : std::span<const int64_t>(rows_->at);
  }
  std::span<const int64_t> gone() const {
    return set_ == nullptr ? std::span<const int64_t>() : std::span<const int64_t>(set_->gone);
  }
  int64_t zeroed() const { return rows_ == nullptr ? 0 : static_cast<int64_t>(rows_->gone.size()); }

  Status name_all() {
    const int64_t n = spec_.rows - (keyed_ ? 1 : 0);
    all_.reserve(static_cast<size_t>(n));
    if (!keyed_) {
      all_.resize(static_cast<size_t>(n));
      std::iota(all_.begin(), all_.end(), 0);
      return {};
    }
    return what_.after->read_keys(static_cast<size_t>(spec_.key_set),
                                  [this](int64_t, std::span<const int64_t> keys) -> Status {
                                    all_.insert(all_.end(), keys.begin(), keys.end());
                                    return {};
                                  });
  }

  size_t row_bytes() const {
    return static_cast<size_t>(
        tiered::row_bytes({spec_.name, spec_.rows, static_cast<int32_t>(spec_.dim), spec_.dtype}));
  }

  Status each_row(const Sink& sink) {
    if (rows_ == nullptr || rows_->set() == 0) return {};
    return what_.delta.read_rows(*rows_,
                                 [&](int64_t first, int64_t n, std::span<const std::byte> rows,
                                     std::span<const float> scales) -> Status {
                                   n = std::min(n, set_rows() - first);
                                   if (n <= 0) return {};
                                   const auto keys = keys_of(first, n);
                                   return sink(keys, whole(keys.size(), rows, scales));
                                 });
  }
  std::span<const int64_t> keys_of(int64_t first, int64_t n) const {
    return keys().subspan(static_cast<size_t>(first), static_cast<size_t>(n));
  }

  /// Rows as stores have them: each row of i8 with its scale behind it.
  std::span<const std::byte> whole(size_t n, std::span<const std::byte> rows, std::span<const float> scales) {
    const auto dim = static_cast<size_t>(kernels::row_bytes_of(spec_.dtype, spec_.dim));
    if (spec_.dtype != kernels::DType::kI8) return rows.first(n * dim);
    const size_t at = static_cast<size_t>(tiered::scale_at(static_cast<int32_t>(spec_.dim)));
    const size_t bytes = row_bytes();
    whole_.assign(n * bytes, std::byte{0});
    for (size_t r = 0; r < n; ++r) {
      std::memcpy(whole_.data() + r * bytes, rows.data() + r * dim, dim);
      std::memcpy(whole_.data() + r * bytes + at, &scales[r], sizeof(float));
    }
    return whole_;
  }

  Status each_zeroed(const Sink& sink) {
    if (zeroed() == 0) return {};
    const size_t step = std::max<size_t>(1, static_cast<size_t>(kBlockBytes) / row_bytes());
    whole_.assign(std::min(step, rows_->gone.size()) * row_bytes(), std::byte{0});
    for (std::span<const int64_t> left = rows_->gone; !left.empty();) {
      const auto some = left.first(std::min(left.size(), step));
      DPI_RETURN_IF_ERROR(sink(some, std::span<const std::byte>(whole_).first(some.size() * row_bytes())));
      left = left.subspan(some.size());
    }
    return {};
  }

  TableUpdate what_;
  const TableSpec& spec_;
  const TableDelta* rows_;
  const bool keyed_;
  const KeySetDelta* set_;
  std::vector<int64_t> all_;
  std::vector<std::byte> whole_;
};

}  // namespace

Result<bool> changes_table(const Bundle& before, const Delta& delta, size_t table) {
  if (delta.manifest().tables[table].external) return false;
  DPI_ASSIGN_OR_RETURN(const tiered::StoredTable was, stored_table(before, table));
  DPI_ASSIGN_OR_RETURN(const tiered::StoredTable is, stored_table(delta.result(), table));
  return was.content != is.content;
}

Result<TableUpdated> update_table(const TableUpdate& what, tiered::PluginSource& store, int32_t number,
                                  Rate& rate, const RowProgress& progress) {
  DPI_ASSIGN_OR_RETURN(const tiered::StoredTable next, stored_table(what.delta.result(), what.table));
  DPI_ASSIGN_OR_RETURN(Changes changes, Changes::make(what));
  TableUpdated result{changes.count(), 0};
  DPI_ASSIGN_OR_RETURN(const int64_t done, store.begin_update(number, next, changes.id(next.content)));
  result.already = done < 0 ? result.changes : done;
  if (done < 0) return result;
  PacedUpdate to(store, number, rate, progress);
  DPI_RETURN_IF_ERROR(changes.each(done, [&](std::span<const int64_t> keys, std::span<const std::byte> rows,
                                             int64_t end) { return to.write(keys, rows, end); }));
  DPI_RETURN_IF_ERROR(store.end_update(number));
  return result;
}

}  // namespace dpi
