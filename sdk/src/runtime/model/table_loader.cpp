#include "runtime/model/table_loader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "bundle/extent_reader.hpp"
#include "runtime/model/key_loader.hpp"
#include "store/row_stream.hpp"

namespace dpi {

namespace {

using Term = PlanTable::Term;

constexpr int64_t kDerivedRows = 65536;  // that are handed to the store at once where they were kept

/// The one source of a derived table, or -1 when it has several.
int32_t only_source(const PlanTable& t) {
  int32_t source = -1;
  for (const auto& column : t.columns) {
    for (const Term& term : column) {
      if (source >= 0 && term.table != source) return -1;
      source = term.table;
    }
  }
  return source;
}

/// Sums of a derived table while its sources stream by: one per row and column, a handful of terms each. With
/// one source a block's sums are complete when the block has been seen, and go to the store at once; else
/// they are kept until all have come.
struct Derived {
  int32_t table = -1;   // of the plan
  int32_t source = -1;  // the only one, or -1
  int64_t first = 0;    // row of sums[0]
  std::vector<double> sums;
};

/// One term of one derived column over the rows [first, first + n) of its source, already decoded to `rows`
/// [n, dim]. Rows beyond those of the derived table are left out.
void add_term(const Term& term, const float* rows, int64_t first, int64_t n, int64_t dim, Derived* d,
              size_t column, size_t columns) {
  for (int64_t r = 0; r < n; ++r) {
    const float* row = rows + r * dim;
    const double sum = term.value(dim, [row](int64_t k) { return row[k]; });
    const size_t at = static_cast<size_t>(first - d->first + r) * columns + column;
    if (at < d->sums.size()) d->sums[at] += sum;
  }
}

/// The rows that stand for padding, behind those of the file: copies of rows that stream by.
class PadRows {
 public:
  /// from[j]: the row that pad row j is a copy of.
  PadRows(std::vector<int64_t> from, size_t row_bytes) : from_(std::move(from)), row_bytes_(row_bytes) {
    bytes_.resize(from_.size() * row_bytes_);
  }
  void look(int64_t first, int64_t n, std::span<const std::byte> rows) {
    for (size_t j = 0; j < from_.size(); ++j) {
      const int64_t at = from_[j] - first;
      if (at < 0 || at >= n) continue;
      std::memcpy(bytes_.data() + j * row_bytes_, rows.data() + static_cast<size_t>(at) * row_bytes_,
                  row_bytes_);
    }
  }
  void add_scales(std::vector<float>* scale) const {
    for (const int64_t row : from_) scale->push_back((*scale)[static_cast<size_t>(row)]);
  }
  int64_t count() const { return static_cast<int64_t>(from_.size()); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<int64_t> from_;
  size_t row_bytes_;
  std::vector<std::byte> bytes_;
};

class Loader {
 public:
  Loader(Bundle& bundle, const Plan& plan, TableStore& store, LoadWatch* watch, const KeyPlaces* keys)
      : bundle_(bundle), plan_(plan), store_(store), watch_(watch), keys_(keys) {
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      if (plan.tables[t].source >= 0 || plan.tables[t].tiered) continue;  // the store derives a tiered one
      if (store.has_rows(static_cast<int32_t>(t))) continue;
      derived_.push_back({static_cast<int32_t>(t), only_source(plan.tables[t]), 0, {}});
    }
  }

  Status run() {
    for (Derived& d : derived_) {
      const PlanTable& t = plan_.tables[d.table];
      if (d.source < 0) d.sums.assign(static_cast<size_t>(t.rows) * static_cast<size_t>(t.dim), 0.0);
    }
    const uint64_t keys = keys_ == nullptr ? key_bytes(bundle_, plan_).read : 0;
    DPI_RETURN_IF_ERROR(watch_->enter(LoadStage::kTables, bytes_to_read() + keys));
    if (keys_ == nullptr) {
      DPI_ASSIGN_OR_RETURN(made_keys_, load_keys(bundle_, plan_, watch_));
      keys_ = made_keys_.get();
    }
    for (size_t s = 0; s < bundle_.manifest().tables.size(); ++s) {
      if (!is_used(static_cast<int32_t>(s))) continue;
      DPI_RETURN_IF_ERROR(stream_table(static_cast<int32_t>(s)));
      for (Derived& d : derived_) {
        if (d.source == static_cast<int32_t>(s)) std::vector<double>().swap(d.sums);
      }
    }
    for (Derived& d : derived_) {
      if (d.source < 0) DPI_RETURN_IF_ERROR(ingest_derived(&d));
    }
    return store_.seal();
  }
  std::unique_ptr<KeyPlaces> take_keys() { return std::move(made_keys_); }

 private:
  /// Has rows here that something reads, and does not have already.
  bool is_used(int32_t source) const {
    if (bundle_.manifest().tables[static_cast<size_t>(source)].external) return false;
    for (size_t i = 0; i < plan_.tables.size(); ++i) {
      const PlanTable& t = plan_.tables[i];
      if (store_.has_rows(static_cast<int32_t>(i))) continue;
      if (t.source == source) return true;
      for (const auto& column : t.columns) {
        for (const Term& term : column) {
          if (term.table == source) return true;
        }
      }
    }
    return false;
  }

  uint64_t bytes_to_read() const {
    uint64_t bytes = 0;
    for (size_t s = 0; s < bundle_.manifest().tables.size(); ++s) {
      const TableSpec& t = bundle_.manifest().tables[s];
      if (is_used(static_cast<int32_t>(s)))
        bytes += static_cast<uint64_t>(t.rows * t.dim * kernels::dtype_bytes(t.dtype));
    }
    return bytes;
  }

  bool feeds_derived(int32_t source) const {
    for (const Derived& d : derived_) {
      for (const auto& column : plan_.tables[d.table].columns) {
        for (const Term& term : column) {
          if (term.table == source) return true;
        }
      }
    }
    return false;
  }

  /// The rows of a keyed table that its pad rows are copies of.
  PadRows pad_rows(const TableSpec& spec) const {
    std::vector<int64_t> from;
    if (spec.pad_rows > 0) {
      const KeySetSpec& set = bundle_.manifest().key_sets[static_cast<size_t>(spec.key_set)];
      for (const std::optional<int64_t>& pad : set.pads) {
        KeyLookup lookup{pad.value_or(0), 0, spec.key_set, -1};
        if (pad) keys_->find({&lookup, 1});
        from.push_back(lookup.row >= 0 ? lookup.row : set.keys);
      }
    }
    return {std::move(from), static_cast<size_t>(spec.dim * kernels::dtype_bytes(spec.dtype))};
  }

  Status stream_table(int32_t source) {
    const TableSpec& spec = bundle_.manifest().tables[source];
    PadRows pads = pad_rows(spec);
    std::vector<float> scale;
    if (spec.dtype == kernels::DType::kI8) {
      DPI_RETURN_IF_ERROR(bundle_.read_table_scale(source, &scale));
      pads.add_scales(&scale);
    }
    kernels::DType stored = spec.dtype;
    std::span<std::byte> room;
    for (size_t t = 0; t < plan_.tables.size(); ++t) {
      if (plan_.tables[t].source != source) continue;
      stored = plan_.tables[t].dtype;
      if (store_.has_rows(static_cast<int32_t>(t))) continue;
      if (room.empty() && stored == spec.dtype) room = store_.room(static_cast<int32_t>(t));
      if (!scale.empty()) DPI_RETURN_IF_ERROR(store_.ingest_scale(static_cast<int32_t>(t), scale));
    }
    const bool decode = feeds_derived(source);
    const Bundle::BlockSink take = [&](int64_t first, int64_t n, std::span<const std::byte> bytes) -> Status {
      if (stored != spec.dtype) DPI_RETURN_IF_ERROR(narrow(spec, stored, first, &bytes));
      for (size_t t = 0; t < plan_.tables.size(); ++t) {
        if (plan_.tables[t].source != source || store_.has_rows(static_cast<int32_t>(t))) continue;
        DPI_RETURN_IF_ERROR(store_.ingest(static_cast<int32_t>(t), first, n, bytes));
      }
      return decode ? add_block(source, stored, first, n, bytes, scale) : Status();
    };
    const Bundle::BlockSink block = [&](int64_t first, int64_t n,
                                        std::span<const std::byte> bytes) -> Status {
      pads.look(first, n, bytes);
      DPI_RETURN_IF_ERROR(take(first, n, bytes));
      return watch_->advance(bytes.size());
    };
    DPI_RETURN_IF_ERROR(bundle_.read_table_into(source, room, block));
    return pads.count() == 0 ? Status() : take(spec.rows, pads.count(), pads.bytes());
  }

  /// Replaces a block of float32 rows by the same in 16 bits.
  Status narrow(const TableSpec& spec, kernels::DType type, int64_t first,
                std::span<const std::byte>* bytes) {
    const size_t n = bytes->size() / sizeof(float);
    const bool half = type == kernels::DType::kF16;
    narrowed_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      float v = 0;
      std::memcpy(&v, bytes->data() + i * sizeof(float), sizeof v);
      narrowed_[i] = half ? kernels::float_to_half(v) : kernels::float_to_bf16(v);
      if (half ? kernels::half_holds(v) : kernels::bf16_holds(v)) continue;
      const auto at = static_cast<int64_t>(i);
      return unsupported("table '" + spec.name + "', row " + std::to_string(first + at / spec.dim) +
                         ", column " + std::to_string(at % spec.dim) + ": " + std::to_string(v) +
                         " is beyond what " + (half ? "fp16" : "bf16") + " holds; load with precision tf32" +
                         (half ? " or bf16" : ""));
    }
    *bytes = std::as_bytes(std::span(narrowed_));
    return {};
  }

  /// The rows of a block as floats: its own bytes where they are such.
  const float* as_floats(kernels::DType stored, int64_t dim, int64_t first, int64_t n,
                         std::span<const std::byte> bytes, const std::vector<float>& scale) {
    if (stored == kernels::DType::kF32) return reinterpret_cast<const float*>(bytes.data());
    kernels::TableView view;
    view.base = bytes.data();
    view.rows = n;
    view.dim = static_cast<int32_t>(dim);
    view.dtype = stored;
    view.row_bytes = dim * kernels::dtype_bytes(stored);
    view.scale = scale.empty() ? nullptr : scale.data() + first;
    view.scale_stride = 1;
    rows_.resize(static_cast<size_t>(n * dim));
    for (int64_t r = 0; r < n; ++r) kernels::decode_row(view, r, rows_.data() + r * dim);
    return rows_.data();
  }

  Status add_block(int32_t source, kernels::DType stored, int64_t first, int64_t n,
                   std::span<const std::byte> bytes, const std::vector<float>& scale) {
    const int64_t dim = bundle_.manifest().tables[source].dim;
    const float* const rows_of_block = as_floats(stored, dim, first, n, bytes, scale);
    for (Derived& d : derived_) {
      if (d.source >= 0 && d.source != source) continue;
      const PlanTable& t = plan_.tables[d.table];
      const int64_t rows = std::min(n, t.rows - first);
      if (d.source == source) {
        d.first = first;
        d.sums.assign(static_cast<size_t>(std::max<int64_t>(rows, 0)) * t.columns.size(), 0.0);
      }
      for (size_t c = 0; c < t.columns.size(); ++c) {
        for (const Term& term : t.columns[c]) {
          if (term.table == source) add_term(term, rows_of_block, first, n, dim, &d, c, t.columns.size());
        }
      }
      if (d.source == source && rows > 0) DPI_RETURN_IF_ERROR(ingest_sums(d, first, rows));
    }
    return {};
  }

  /// The sums of a block, rounded.
  Status ingest_sums(const Derived& d, int64_t first, int64_t n) {
    rounded_.assign(d.sums.begin(), d.sums.end());
    return store_.ingest(d.table, first, n, std::as_bytes(std::span(rounded_)));
  }

  Status ingest_derived(Derived* d) {
    const PlanTable& t = plan_.tables[d->table];
    for (int64_t first = 0; first < t.rows; first += kDerivedRows) {
      const int64_t n = std::min(kDerivedRows, t.rows - first);
      const auto begin = d->sums.begin() + first * t.dim;
      rows_.assign(begin, begin + n * t.dim);
      DPI_RETURN_IF_ERROR(store_.ingest(d->table, first, n, std::as_bytes(std::span(rows_))));
    }
    std::vector<double>().swap(d->sums);
    return {};
  }

  Bundle& bundle_;
  const Plan& plan_;
  TableStore& store_;
  LoadWatch* watch_;
  const KeyPlaces* keys_;  // of another engine of the model, or made here
  std::unique_ptr<KeyPlaces> made_keys_;
  std::vector<Derived> derived_;
  std::vector<float> rows_;
  std::vector<float> rounded_;
  std::vector<uint16_t> narrowed_;
};

template <class T>
void append_bytes(const T& from, std::string* to) {
  const auto bytes = std::as_bytes(std::span(from));
  to->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// The hash of a data set as the file states it; false when there is none.
bool append_hash(const Bundle& bundle, const std::string& path, std::string* to) {
  const DataSetInfo* info = bundle.find(path);
  if (info == nullptr || info->extent.length == 0 || info->extent.hash == ContentHash{}) return false;
  append_bytes(info->extent.hash, to);
  return true;
}

/// Of a table whose rows a store has under its digest: that, and what absent keys and padding are.
bool append_external(const Manifest& manifest, const TableSpec& spec, std::string* to) {
  *to += "external " + spec.digest + (spec.key_set >= 0 ? " keyed" : "");
  append_bytes(spec.default_row, to);
  if (spec.key_set < 0) return !spec.digest.empty();
  for (const std::optional<int64_t>& pad : manifest.key_sets[static_cast<size_t>(spec.key_set)].pads)
    *to += " pad " + (pad ? std::to_string(*pad) : "none");
  return !spec.digest.empty();
}

/// Of a table of the bundle: its rows, scales, and which rows stand for padding behind them.
bool append_source(const Bundle& bundle, int32_t source, std::string* to) {
  const TableSpec& spec = bundle.manifest().tables[static_cast<size_t>(source)];
  *to += "rows " + std::to_string(static_cast<int>(spec.dtype)) + ' ';
  if (spec.external) return append_external(bundle.manifest(), spec, to);
  bool known = append_hash(bundle, spec.data, to);
  if (!spec.scale.empty()) known = append_hash(bundle, spec.scale, to) && known;
  if (spec.pad_rows == 0) return known;
  const KeySetSpec& set = bundle.manifest().key_sets[static_cast<size_t>(spec.key_set)];
  for (const std::optional<int64_t>& pad : set.pads) *to += " pad " + (pad ? std::to_string(*pad) : "none");
  return append_hash(bundle, set.data, to) && known;
}

/// Of a derived table its terms, each with its source and its factors: dense weights among them are part of
/// it.
std::string content_of(const Bundle& bundle, const PlanTable& t) {
  std::string content;
  bool known = true;
  if (t.source >= 0) {
    known = append_source(bundle, t.source, &content);
    return known ? content : std::string();
  }
  for (const auto& column : t.columns) {
    content += "column ";
    for (const Term& term : column) {
      content += term.kind == Term::Kind::kDot ? "dot " : "term " + std::to_string(term.column) + ' ';
      append_bytes(std::span(&term.factor, 1), &content);
      append_bytes(term.weights, &content);
      known = append_source(bundle, term.table, &content) && known;
    }
  }
  return known ? content : std::string();
}

bool same_tables(const Plan& plan, const LoadBase& base) {
  return std::equal(
      plan.tables.begin(), plan.tables.end(), base.tables.begin(), base.tables.end(),
      [](const PlanTable& t, const LoadBase::Table& b) { return t.name == b.name && t.source == b.source; });
}

/// Of a derived table those that it is derived from; its factors are in StoreTable::content.
bool has_same_rows(const PlanTable& t, const std::vector<bool>& same) {
  if (t.source >= 0) return same[static_cast<size_t>(t.source)];
  return std::all_of(t.columns.begin(), t.columns.end(), [&](const auto& column) {
    return std::all_of(column.begin(), column.end(),
                       [&](const Term& term) { return same[static_cast<size_t>(term.table)]; });
  });
}

}  // namespace

void narrow_tables(kernels::DType type, Plan* plan) {
  const auto stays = [plan](int32_t source) {
    return std::any_of(plan->tables.begin(), plan->tables.end(), [source](const PlanTable& t) {
      return t.source == source && (t.needs_nonzero || t.dtype != kernels::DType::kF32);
    });
  };
  // Rows that are there for what is derived from them are not rounded, as those are not that stream by.
  std::vector<bool> is_read(plan->tables.size(), false);
  for (const PlanOp& op : plan->ops) {
    for (const int32_t t : op.tables) is_read[static_cast<size_t>(t)] = true;
  }
  std::vector<int32_t> narrow;
  for (size_t t = 0; t < plan->tables.size(); ++t) {
    if (is_read[t] && plan->tables[t].source >= 0 && !stays(plan->tables[t].source))
      narrow.push_back(static_cast<int32_t>(t));
  }
  for (const int32_t t : narrow) plan->tables[static_cast<size_t>(t)].dtype = type;
}

std::vector<StoreTable> store_tables(const Bundle& bundle, const Plan& plan, bool share, const LoadBase* base,
                                     const std::string& token) {
  const bool alike = base != nullptr && same_tables(plan, *base);
  std::vector<StoreTable> tables;
  for (const PlanTable& t : plan.tables) {
    tables.push_back({t.name, t.rows, t.dim, t.dtype, t.needs_nonzero, t.ride_with, t.tiered, t.pinned, {}});
    if (t.source >= 0) {
      const TableSpec& spec = bundle.manifest().tables[static_cast<size_t>(t.source)];
      tables.back().any_key = spec.external && spec.key_set >= 0;
    } else if (t.tiered) {
      tables.back().columns = t.columns;
    }
    if (share) tables.back().content = content_of(bundle, t);
    std::string& content = tables.back().content;
    if (content.empty() && !token.empty()) content = token + ' ' + std::to_string(tables.size());
    if (!content.empty() && alike && has_same_rows(t, base->same))
      tables.back().same = base->tables[tables.size() - 1].rows;
  }
  return tables;
}

Status load_plan_tables(Bundle& bundle, const Plan& plan, TableStore& store, LoadWatch* watch,
                        std::unique_ptr<KeyPlaces>* keys, const KeyPlaces* there) {
  Loader loader(bundle, plan, store, watch, there);
  DPI_RETURN_IF_ERROR(loader.run());
  *keys = loader.take_keys();
  return {};
}

uint64_t table_loading_bytes(const Bundle& bundle, const Plan& plan, bool on_device, int32_t threads) {
  constexpr uint64_t kBlock = kReadBlockBytes;
  const std::vector<TableSpec>& specs = bundle.manifest().tables;
  uint64_t block = 0, kept = 0, sums = 0, scale = 0;
  std::vector<uint64_t> columns(specs.size(), 0);  // derived from one source, by source
  const auto elsewhere = [&specs](int32_t s) { return s >= 0 && specs[static_cast<size_t>(s)].external; };
  for (const PlanTable& t : plan.tables) {
    if (elsewhere(t.source)) continue;  // nothing of it comes by
    const auto rows = static_cast<uint64_t>(t.rows), dim = static_cast<uint64_t>(t.dim);
    if (t.needs_nonzero) kept += (rows + 63) / 64 * sizeof(uint64_t);
    if (t.dtype == kernels::DType::kI8) kept += rows * sizeof(float);
    if (t.source >= 0 || t.tiered) continue;
    if (const int32_t source = only_source(t); source >= 0) {
      columns[static_cast<size_t>(source)] += dim;
    } else {
      sums += rows * dim * sizeof(double) + std::min<uint64_t>(rows, kDerivedRows) * dim * sizeof(float);
    }
  }
  const bool streams =
      std::any_of(plan.tables.begin(), plan.tables.end(), [](const PlanTable& p) { return !p.tiered; });
  for (size_t s = 0; s < specs.size(); ++s) {
    if (specs[s].external) continue;
    const auto rows = static_cast<uint64_t>(specs[s].loaded_rows()),
               dim = static_cast<uint64_t>(specs[s].dim);
    const uint64_t row = dim * static_cast<uint64_t>(kernels::dtype_bytes(specs[s].dtype));
    const uint64_t n = std::min(rows, std::max<uint64_t>(1, kBlock / std::max<uint64_t>(row, 1)));
    const uint64_t ahead = std::min(rows, n * read_buffers(threads)) - n;
    // read, narrowed, decoded; a column's sums as double and, of one table at a time, as float
    block = std::max(block, ahead * row +
                                n * (row + dim * sizeof(uint16_t) + dim * sizeof(float) +
                                     columns[s] * (sizeof(double) + sizeof(float))) +
                                static_cast<uint64_t>(specs[s].pad_rows) * row);
    if (specs[s].dtype == kernels::DType::kI8) scale = std::max(scale, rows * sizeof(float));
  }
  return block + kept + scale + sums + (on_device && streams ? 2 * RowStream::kBufferBytes : 0);
}

}  // namespace dpi
