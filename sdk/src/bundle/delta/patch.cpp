#include "bundle/patch.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "bundle/delta/moved_keys.hpp"
#include "bundle/delta/row_map.hpp"
#include "bundle/delta/same_schema.hpp"
#include "bundle/hdf5_profile.hpp"

namespace dpi {
namespace {

/// The data of one data set of the new bundle. Places are those in the three files.
struct Piece {
  uint64_t begin = 0, length = 0;  // in the new file
  uint64_t base_at = 0,
           base_bytes = 0;  // what comes from the base, all of it at the front unless `map` is there
  uint64_t delta_at = 0;
  std::shared_ptr<const RowMap> map;
  uint64_t row_bytes = 0;
};

class PatchedSource final : public ByteSource {
 public:
  PatchedSource(std::shared_ptr<Bundle> base, std::shared_ptr<const Delta> delta, std::vector<Piece> pieces)
      : base_(std::move(base)), delta_(std::move(delta)), pieces_(std::move(pieces)) {
    size_ = delta_->result().file_bytes();
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  }
  bool stays() const override { return base_->bytes().stays() && delta_->bytes().stays(); }
  Status unchanged() const override {
    DPI_RETURN_IF_ERROR(base_->bytes().unchanged());
    return delta_->bytes().unchanged();
  }

  Status read(uint64_t offset, void* dst, size_t n) override {
    auto* to = static_cast<std::byte*>(dst);
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                  [](uint64_t at, const Piece& p) { return at < p.begin; });
    if (piece != pieces_.begin() && offset < (piece - 1)->begin + (piece - 1)->length) --piece;
    while (n > 0) {
      size_t part = n;
      if (piece == pieces_.end() || offset < piece->begin) {  // between two data sets
        if (piece != pieces_.end()) part = std::min<uint64_t>(n, piece->begin - offset);
        DPI_RETURN_IF_ERROR(delta_->result_bytes().read(offset, to, part));
      } else {
        part = std::min<uint64_t>(n, piece->begin + piece->length - offset);
        DPI_RETURN_IF_ERROR(read_piece(*piece, offset - piece->begin, to, part));
        ++piece;
      }
      offset += part;
      to += part;
      n -= part;
    }
    return {};
  }

 private:
  Status read_piece(const Piece& p, uint64_t at, std::byte* to, size_t n) const {
    if (p.map != nullptr) return read_rows(p, at, to, n);
    const size_t front = at < p.base_bytes ? std::min<uint64_t>(n, p.base_bytes - at) : 0;
    if (front > 0) DPI_RETURN_IF_ERROR(base_->bytes().read(p.base_at + at, to, front));
    if (front == n) return {};
    return delta_->bytes().read(p.delta_at + (at + front - p.base_bytes), to + front, n - front);
  }

  Status read_rows(const Piece& p, uint64_t at, std::byte* to, size_t n) const {
    while (n > 0) {
      const RowMap::Run run = p.map->at(static_cast<int64_t>(at / p.row_bytes));
      const uint64_t skip = at % p.row_bytes;
      const size_t part = std::min<uint64_t>(n, static_cast<uint64_t>(run.rows) * p.row_bytes - skip);
      const uint64_t from = static_cast<uint64_t>(run.first) * p.row_bytes + skip;
      if (run.from == RowMap::From::kZeros) {
        std::memset(to, 0, part);
      } else if (run.from == RowMap::From::kBase) {
        DPI_RETURN_IF_ERROR(base_->bytes().read(p.base_at + from, to, part));
      } else {
        DPI_RETURN_IF_ERROR(delta_->bytes().read(p.delta_at + from, to, part));
      }
      at += part;
      to += part;
      n -= part;
    }
    return {};
  }

  std::shared_ptr<Bundle> base_;
  std::shared_ptr<const Delta> delta_;
  std::vector<Piece> pieces_;
};

using SharedMap = std::shared_ptr<const RowMap>;

/// Says of each data set of the new bundle where its bytes are.
class Joiner {
 public:
  Joiner(Bundle& base, const Delta& delta)
      : base_(base), delta_(delta), next_(delta.manifest()), maps_(next_.tables.size()) {}

  Result<std::vector<Piece>> run() {
    DPI_RETURN_IF_ERROR(check_same_schema(base_, delta_.result()));
    tables_of_.resize(next_.key_sets.size());
    for (size_t t = 0; t < next_.tables.size(); ++t)
      if (next_.tables[t].key_set >= 0) tables_of_[static_cast<size_t>(next_.tables[t].key_set)].push_back(t);
    for (size_t s = 0; s < next_.key_sets.size(); ++s) DPI_RETURN_IF_ERROR(key_set(s));
    for (const TableDelta& t : delta_.tables())
      if (next_.tables[t.table].keys.empty()) DPI_RETURN_IF_ERROR(plain_table(t));
    for (const DataSetInfo& info : delta_.result().data_sets()) {
      if (info.extent.length == 0 || data_maps_.contains(info.path)) continue;
      DPI_RETURN_IF_ERROR(array(info));
    }
    return std::move(out_);
  }
  PatchMaps take_maps() { return {std::move(maps_), std::move(data_maps_)}; }

 private:
  /// A set's keys and the rows of its tables, where any of them changes.
  Status key_set(size_t s) {
    const KeySetSpec& spec = next_.key_sets[s];
    static const KeySetDelta kNoKeys;
    static const TableDelta kNoRows;
    const KeySetDelta* change = delta_.find_key_set(s);
    DPI_RETURN_IF_ERROR(
        check_count(spec, base_.manifest().key_sets[s], change == nullptr ? kNoKeys : *change));
    std::vector<size_t> tables;
    std::vector<const TableDelta*> rows;
    for (const size_t t : tables_of_[s]) {
      const TableDelta* d = delta_.find_table(t);
      if (d == nullptr && change == nullptr) continue;
      tables.push_back(t);
      rows.push_back(d == nullptr ? &kNoRows : d);
    }
    if (tables.empty() && change == nullptr) return {};
    DPI_ASSIGN_OR_RETURN(MovedKeys places,
                         find_moved_keys(base_, s, change == nullptr ? kNoKeys : *change, rows));
    for (size_t i = 0; i < tables.size(); ++i) {
      if (rows[i]->default_row) places.set[i].push_back(spec.keys);
      add_table(tables[i], *rows[i],
                rows[i]->all
                    ? RowMap::whole(spec.keys + 1)
                    : RowMap(spec.keys + 1, std::move(places.set[i]), {}, places.added, places.gone));
    }
    if (change != nullptr)
      add_rows(spec.data, change->added_data,
               std::make_shared<RowMap>(spec.keys, places.added, std::vector<int64_t>(), places.added,
                                        places.gone));
    return {};
  }

  static Status check_count(const KeySetSpec& next, const KeySetSpec& base, const KeySetDelta& change) {
    const auto came = static_cast<int64_t>(change.added.size()) - static_cast<int64_t>(change.gone.size());
    if (next.external() || next.keys == base.keys + came) return {};
    return bad_model("key set " + in_quotes(next.name) + ": " + std::to_string(base.keys) + " keys and " +
                     std::to_string(came) + " more are not the " + std::to_string(next.keys) +
                     " of the new bundle");
  }

  Status plain_table(const TableDelta& t) {
    const TableSpec& spec = next_.tables[t.table];
    const int64_t before = base_.manifest().tables[t.table].rows;
    const auto behind = [before](const std::vector<int64_t>& list) {
      return list.end() - std::lower_bound(list.begin(), list.end(), before);
    };
    if (!t.all && behind(t.at) + behind(t.gone) != spec.rows - before)
      return bad_model("table " + in_quotes(spec.name) + ": of its new rows " + std::to_string(before) +
                       " to " + std::to_string(spec.rows - 1) + " some are not in the delta");
    add_table(t.table, t, t.all ? RowMap::whole(spec.rows) : RowMap(spec.rows, t.at, t.gone, {}, {}));
    return {};
  }

  void add_table(size_t table, const TableDelta& t, RowMap map) {
    const TableSpec& spec = next_.tables[table];
    const auto shared = std::make_shared<const RowMap>(std::move(map));
    maps_[table] = shared;
    add_rows(spec.data, t.rows, shared);
    if (!spec.scale.empty()) add_rows(spec.scale, t.scale, shared);
    if (!spec.offset.empty()) add_rows(spec.offset, t.offset, shared);
  }

  /// from: the rows in the delta, null = none.
  void add_rows(const std::string& path, const DataSetInfo* from, SharedMap map) {
    const DataSetInfo& info = *delta_.result().find(path);
    Piece p;
    p.begin = info.extent.offset;
    p.length = info.extent.length;
    p.base_at = base_.find(path)->extent.offset;
    p.delta_at = from == nullptr ? 0 : from->extent.offset;
    p.row_bytes = info.extent.length / static_cast<uint64_t>(info.shape[0]);
    p.map = map;
    out_.push_back(std::move(p));
    data_maps_[path] = std::move(map);
  }

  /// Adds a data set without rows of a table: the delta's whole, the delta's behind the base's, or the
  /// base's.
  Status array(const DataSetInfo& info) {
    const DataSetInfo* here = delta_.find_array(info.path);
    const DataSetInfo* before = base_.find(info.path);
    Piece p{info.extent.offset, info.extent.length, 0, 0, 0, nullptr, 0};
    if (here != nullptr) {
      data_maps_[info.path] = nullptr;
      p.delta_at = here->extent.offset;
      p.base_bytes = info.extent.length - here->extent.length;
      if (p.base_bytes > 0) {
        if (before == nullptr || before->type != info.type || before->extent.length != p.base_bytes)
          return differs(info, before);
        p.base_at = before->extent.offset;
      }
    } else {
      if (before == nullptr || before->type != info.type || before->shape != info.shape ||
          before->extent.hash != info.extent.hash)
        return differs(info, before);
      p.base_at = before->extent.offset;
      p.base_bytes = info.extent.length;
    }
    out_.push_back(std::move(p));
    return {};
  }

  static Status differs(const DataSetInfo& info, const DataSetInfo* before) {
    const std::string found =
        before == nullptr ? "nothing" : shape_text(before->shape) + " " + type_name(before->type);
    return bad_model(info.path + ": the delta does not make " + shape_text(info.shape) + " " +
                     type_name(info.type) + " of the new bundle from the base's (" + found +
                     (before != nullptr && before->shape == info.shape ? ", other data)" : ")"));
  }

  Bundle& base_;
  const Delta& delta_;
  const Manifest& next_;
  std::vector<std::vector<size_t>> tables_of_;  // by key set
  std::vector<SharedMap> maps_;                 // by table
  DataMaps data_maps_;                          // data sets of rows have one
  std::vector<Piece> out_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> patched(std::shared_ptr<Bundle> base, std::shared_ptr<const Delta> delta,
                                            PatchMaps* maps) {
  if (base->content_hash() != delta->base())
    return bad_model(delta->name() + ": starts from version " + hex_bytes(delta->base()) + ", " +
                     base->name() + " is version " + hex_bytes(base->content_hash()));
  Joiner joiner(*base, *delta);
  auto pieces = joiner.run();
  if (!pieces.ok()) return std::move(pieces).status().within(delta->name());
  if (maps != nullptr) *maps = joiner.take_maps();
  return std::unique_ptr<ByteSource>(
      new PatchedSource(std::move(base), std::move(delta), std::move(pieces).value()));
}

}  // namespace dpi
