#include "runtime/load/table_loader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "bundle/extent_reader.hpp"
#include "runtime/load/derived_sums.hpp"
#include "runtime/load/key_loader.hpp"
#include "runtime/load/row_groups.hpp"
#include "runtime/load/table_patch.hpp"
#include "store/resident/row_stream.hpp"

namespace dpi {

namespace {

using Term = PlanTable::Term;

constexpr int64_t kDerivedRows = 65536;  // that are handed to the store at once where they were kept
/// Between two pauses of a load that keeps to a rate: a tenth of a millisecond's work, so that a call that
/// wants its processor does not wait for more.
constexpr int64_t kPacedBytes = 128 << 10;

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
  Loader(Bundle& bundle, const Plan& plan, const LoadBase* base, TableStore& store, LoadWatch* watch,
         const KeyPlaces* keys)
      : bundle_(bundle),
        plan_(plan),
        store_(store),
        watch_(watch),
        keys_(keys),
        patcher_(bundle, plan, base, store, watch) {
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      if (plan.tables[t].source >= 0 || plan.tables[t].tiered) continue;  // the store derives a tiered one
      if (comes_otherwise(t)) continue;
      derived_.push_back({static_cast<int32_t>(t), only_source(plan.tables[t]), 0, {}});
    }
  }

  Status run() {
    for (DerivedSums& d : derived_) {
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
      pads_.push_back(pads_of(s));
      patcher_.set_pads(s, pads_[s]);
    }
    DPI_RETURN_IF_ERROR(patcher_.patch());
    for (size_t s = 0; s < bundle_.manifest().tables.size(); ++s) {
      if (!is_used(static_cast<int32_t>(s))) continue;
      DPI_RETURN_IF_ERROR(stream_table(static_cast<int32_t>(s)));
      for (DerivedSums& d : derived_) {
        if (d.source == static_cast<int32_t>(s)) std::vector<double>().swap(d.sums);
      }
    }
    for (DerivedSums& d : derived_) {
      if (d.source < 0) DPI_RETURN_IF_ERROR(ingest_derived(&d));
    }
    return store_.seal();
  }
  LoadedKeys take_keys() { return {std::move(made_keys_), std::move(pads_)}; }

 private:
  /// The store has its rows, or takes them from the version before.
  bool comes_otherwise(size_t table) const {
    return store_.handover().has_rows(static_cast<int32_t>(table)) || patcher_.patches(table);
  }

  /// Has rows here that something reads, and that are to stream by.
  bool is_used(int32_t source) const {
    if (bundle_.manifest().tables[static_cast<size_t>(source)].external) return false;
    for (size_t i = 0; i < plan_.tables.size(); ++i) {
      const PlanTable& t = plan_.tables[i];
      if (!comes_otherwise(i) && (t.source == source || is_derived_from(t, source))) return true;
    }
    return false;
  }

  uint64_t bytes_to_read() const {
    uint64_t bytes = 0;
    for (size_t s = 0; s < bundle_.manifest().tables.size(); ++s) {
      const TableSpec& t = bundle_.manifest().tables[s];
      const auto rows = static_cast<uint64_t>(t.rows * kernels::row_bytes_of(t.dtype, t.dim));
      if (is_used(static_cast<int32_t>(s))) bytes += rows;
      for (size_t i = 0; i < plan_.tables.size(); ++i) {
        if (plan_.tables[i].source == static_cast<int32_t>(s) && patcher_.patches(i)) bytes += rows;
      }
    }
    return bytes;
  }

  bool feeds_derived(int32_t source) const {
    return std::any_of(derived_.begin(), derived_.end(), [&](const DerivedSums& d) {
      return is_derived_from(plan_.tables[static_cast<size_t>(d.table)], source);
    });
  }

  /// The rows of a keyed table that its pad rows are copies of.
  std::vector<int64_t> pads_of(size_t source) const {
    const TableSpec& spec = bundle_.manifest().tables[source];
    std::vector<int64_t> from;
    if (spec.pad_rows == 0 || keys_ == nullptr) return from;
    const KeySetSpec& set = bundle_.manifest().key_sets[static_cast<size_t>(spec.key_set)];
    for (const std::optional<int64_t>& pad : set.pads) {
      KeyLookup lookup{pad.value_or(0), 0, spec.key_set, -1};
      if (pad) keys_->find({&lookup, 1});
      from.push_back(lookup.row >= 0 ? lookup.row : set.keys);
    }
    return from;
  }

  Status stream_table(int32_t source) {
    const TableSpec& spec = bundle_.manifest().tables[source];
    PadRows pads(pads_[static_cast<size_t>(source)],
                 static_cast<size_t>(kernels::row_bytes_of(spec.dtype, spec.dim)));
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
      if (comes_otherwise(t)) continue;
      if (room.empty() && stored == spec.dtype) room = store_.room(static_cast<int32_t>(t));
      if (!scale.empty()) DPI_RETURN_IF_ERROR(store_.ingest_scale(static_cast<int32_t>(t), scale));
    }
    const bool decode = feeds_derived(source);
    const Bundle::BlockSink take = [&](int64_t first, int64_t n, std::span<const std::byte> bytes) -> Status {
      if (stored != spec.dtype) DPI_RETURN_IF_ERROR(narrower_.narrow(spec, stored, first, &bytes));
      for (size_t t = 0; t < plan_.tables.size(); ++t) {
        if (plan_.tables[t].source != source || comes_otherwise(t)) continue;
        DPI_RETURN_IF_ERROR(store_.ingest(static_cast<int32_t>(t), first, n, bytes));
      }
      return decode ? add_block(source, stored, first, n, bytes, scale) : Status();
    };
    const Bundle::BlockSink block = [&](int64_t first, int64_t n,
                                        std::span<const std::byte> bytes) -> Status {
      pads.look(first, n, bytes);
      const auto row = static_cast<int64_t>(bytes.size()) / n;
      const int64_t at_once = watch_->is_paced() ? std::max<int64_t>(1, kPacedBytes / row) : n;
      for (int64_t at = 0; at < n; at += at_once) {
        const int64_t some = std::min(at_once, n - at);
        const auto part = bytes.subspan(static_cast<size_t>(at * row), static_cast<size_t>(some * row));
        DPI_RETURN_IF_ERROR(take(first + at, some, part));
        DPI_RETURN_IF_ERROR(watch_->advance(part.size()));
      }
      return {};
    };
    DPI_RETURN_IF_ERROR(bundle_.read_table_into(source, room, block));
    return pads.count() == 0 ? Status() : take(spec.rows, pads.count(), pads.bytes());
  }

  Status add_block(int32_t source, kernels::DType stored, int64_t first, int64_t n,
                   std::span<const std::byte> bytes, const std::vector<float>& scale) {
    const TableSpec& spec = bundle_.manifest().tables[source];
    const float* rows_of_block = reinterpret_cast<const float*>(bytes.data());  // where they are such
    if (stored != kernels::DType::kF32) {
      decode_rows(spec, stored, n, bytes, scale.empty() ? nullptr : scale.data() + first, &rows_);
      rows_of_block = rows_.data();
    }
    for (DerivedSums& d : derived_) {
      if (d.source >= 0 && d.source != source) continue;
      const PlanTable& t = plan_.tables[d.table];
      const int64_t rows = std::min(n, t.rows - first);
      if (d.source == source) {
        d.first = first;
        d.sums.assign(static_cast<size_t>(std::max<int64_t>(rows, 0)) * t.columns.size(), 0.0);
      }
      add_terms(t, source, rows_of_block, first, n, spec.dim, &d);
      if (d.source == source && rows > 0) DPI_RETURN_IF_ERROR(ingest_sums(d, first, rows));
    }
    return {};
  }

  /// The sums of a block, rounded.
  Status ingest_sums(const DerivedSums& d, int64_t first, int64_t n) {
    rounded_.assign(d.sums.begin(), d.sums.end());
    return store_.ingest(d.table, first, n, std::as_bytes(std::span(rounded_)));
  }

  Status ingest_derived(DerivedSums* d) {
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
  std::vector<std::vector<int64_t>> pads_;  // by table of the bundle
  std::vector<DerivedSums> derived_;
  std::vector<float> rows_;
  std::vector<float> rounded_;
  RowNarrower narrower_;
  TablePatcher patcher_;
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

/// Appends a table that a store keeps under its digest: that, and the rows of absent keys and padding.
bool append_external(const Manifest& manifest, const TableSpec& spec, std::string* to) {
  *to += "external " + spec.digest + (spec.key_set >= 0 ? " keyed" : "");
  append_bytes(spec.default_row, to);
  if (spec.key_set < 0) return !spec.digest.empty();
  for (const std::optional<int64_t>& pad : manifest.key_sets[static_cast<size_t>(spec.key_set)].pads)
    *to += " pad " + (pad ? std::to_string(*pad) : "none");
  return !spec.digest.empty();
}

/// Appends a table of the bundle: its rows, scales, and which rows stand for padding behind them.
bool append_source(const Bundle& bundle, int32_t source, std::string* to) {
  const TableSpec& spec = bundle.manifest().tables[static_cast<size_t>(source)];
  *to += "rows " + std::to_string(static_cast<int>(spec.dtype)) + ' ';
  if (spec.external) return append_external(bundle.manifest(), spec, to);
  bool known = append_hash(bundle, spec.data, to);
  if (!spec.scale.empty()) known = append_hash(bundle, spec.scale, to) && known;
  if (!spec.offset.empty()) known = append_hash(bundle, spec.offset, to) && known;
  if (spec.pad_rows == 0) return known;
  const KeySetSpec& set = bundle.manifest().key_sets[static_cast<size_t>(spec.key_set)];
  for (const std::optional<int64_t>& pad : set.pads) *to += " pad " + (pad ? std::to_string(*pad) : "none");
  return append_hash(bundle, set.data, to) && known;
}

/// Describes the columns of a derived table, without the rows.
std::string terms_of(const PlanTable& t) {
  std::string terms;
  for (const auto& column : t.columns) {
    terms += "column ";
    for (const Term& term : column) {
      terms += term.kind == Term::Kind::kDot ? "dot " : "term " + std::to_string(term.column) + ' ';
      terms += std::to_string(term.table) + ' ';
      append_bytes(std::span(&term.factor, 1), &terms);
      append_bytes(term.weights, &terms);
    }
  }
  return terms;
}

/// Describes the content of a table. For a derived one these are its terms, each with its source and factors,
/// dense weights among them included.
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

/// Gives tables their row group and spare rows.
void add_spare_rows(const std::vector<RowGroup>& groups, int64_t percent, std::vector<StoreTable>* tables) {
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const int32_t i : groups[g].tables) {
      StoreTable& t = (*tables)[static_cast<size_t>(i)];
      t.row_group = static_cast<int32_t>(g);
      t.spare = std::min(t.rows / 100 * percent, kMaxTableRows - t.rows);
    }
  }
}

bool has_moved_rows(const Bundle& bundle, const LoadBase& base, int32_t source) {
  const auto s = static_cast<size_t>(source);
  return base.rows[s].moves(bundle.manifest().tables[s].rows);
}

bool has_same_rows(const PlanTable& t, const std::vector<RowHistory>& rows) {
  if (t.source >= 0) return rows[static_cast<size_t>(t.source)].same();
  return std::all_of(t.columns.begin(), t.columns.end(), [&](const auto& column) {
    return std::all_of(column.begin(), column.end(),
                       [&](const Term& term) { return rows[static_cast<size_t>(term.table)].same(); });
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

const LoadBase* same_plan(const Plan& plan, const LoadBase* base) {
  const auto same = [](const PlanTable& t, const LoadBase::Table& b) {
    return t.name == b.name && t.source == b.source;
  };
  return base != nullptr && std::equal(plan.tables.begin(), plan.tables.end(), base->tables.begin(),
                                       base->tables.end(), same)
             ? base
             : nullptr;
}

std::vector<StoreTable> store_tables(const Bundle& bundle, const Plan& plan, bool share, const LoadBase* base,
                                     int64_t spare_percent, const std::string& token) {
  const bool alike = same_plan(plan, base) != nullptr;
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
    if (content.empty()) continue;
    tables.back().terms = terms_of(t);
    if (!alike) continue;
    if (!t.tiered || t.source < 0 || !has_moved_rows(bundle, *base, t.source))
      tables.back().before = base->tables[tables.size() - 1].rows;
    if (has_same_rows(t, base->rows)) tables.back().same = tables.back().before;
  }
  if (share && token.empty() && spare_percent > 0)
    add_spare_rows(row_groups(bundle, plan), spare_percent, &tables);
  return tables;
}

Status load_plan_tables(Bundle& bundle, const Plan& plan, TableStore& store, LoadWatch* watch,
                        LoadedKeys* keys, const LoadBase* base, const KeyPlaces* there) {
  Loader loader(bundle, plan, same_plan(plan, base), store, watch, there);
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
    const kernels::RowForm& form = kernels::row_form(specs[s].dtype);
    const auto row = static_cast<uint64_t>(kernels::row_bytes_of(specs[s].dtype, specs[s].dim));
    const uint64_t n = std::min(rows, std::max<uint64_t>(1, kBlock / std::max<uint64_t>(row, 1)));
    const uint64_t ahead = std::min(rows, n * read_buffers(threads)) - n;
    // read, narrowed, decoded; a column's sums as double and, of one table at a time, as float
    block = std::max(block, ahead * row +
                                n * (row * (form.whole ? 2 : 1) + dim * sizeof(uint16_t) +
                                     dim * sizeof(float) + columns[s] * (sizeof(double) + sizeof(float))) +
                                static_cast<uint64_t>(specs[s].pad_rows) * row);
    scale = std::max(scale, rows * static_cast<uint64_t>(form.scale_bytes + form.offset_bytes));
  }
  return block + kept + scale + sums + (on_device && streams ? 2 * RowStream::kBufferBytes : 0);
}

}  // namespace dpi
