#include "sdk/tools/dpi/commands/verify_raw.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>

#include "base/text.hpp"
#include "sdk/tools/dpi/csv/free_rows.hpp"
#include "sdk/tools/dpi/csv/row_feeder.hpp"

namespace dpi::tool {

namespace {

constexpr double kTolerance = 1e-6;  // of a float: |ours - golden| <= this * max(1, |golden|)
constexpr size_t kShownIds = 8;

/// A feature's value in one row, after the rules of FORMAT.md part 4.
struct Settled {
  std::vector<int64_t> ids;
  float value = 0;
};

bool agree(const Settled& a, const Settled& b) {
  if (a.ids != b.ids) return false;
  if (std::isnan(a.value) || std::isnan(b.value)) return std::isnan(a.value) && std::isnan(b.value);
  const double error = std::fabs(static_cast<double>(a.value) - b.value);
  return error <= kTolerance * std::max(1.0, std::fabs(static_cast<double>(b.value)));
}

std::string text_of(const FeatureSpec& f, const Settled& s) {
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", static_cast<double>(s.value));
  if (!f.is_slot()) return number;
  std::string ids;
  for (size_t i = 0; i < std::min(s.ids.size(), kShownIds); ++i)
    ids += (i == 0 ? "" : " ") + std::to_string(s.ids[i]);
  return "[" + ids + (s.ids.size() > kShownIds ? " ...]" : "]");
}

/// A bag after the rules. Where the encoder keeps missing elements in place, pad_ids at the bag's end (or its
/// beginning, by pad_side) are the same as none.
std::vector<int64_t> settle(const FeatureSpec& f, std::span<const int64_t> bag) {
  const auto limit = static_cast<size_t>(f.max_len);
  if (limit != 0 && bag.size() > limit) bag = f.keep_last ? bag.last(limit) : bag.first(limit);
  std::vector<int64_t> ids(bag.begin(), bag.end());
  if (f.has_missing_id) std::erase(ids, f.missing_id);
  for (int64_t& id : ids) {
    const bool inside = f.is_keyed() || (id >= 0 && id < f.vocab_size);
    if (!inside && f.out_of_range != OutOfRange::kError)
      id = f.out_of_range == OutOfRange::kOov ? f.oov_id : f.default_id;
  }
  if (f.encoder.has_missing_element) {
    const auto is_id = [&](int64_t id) { return !f.has_pad_id || id != f.pad_id; };
    if (f.pad_side == kernels::PadSide::kPost) {
      ids.erase(std::find_if(ids.rbegin(), ids.rend(), is_id).base(), ids.end());
    } else {
      ids.erase(ids.begin(), std::find_if(ids.begin(), ids.end(), is_id));
    }
  }
  if (ids.empty() && f.missing == Missing::kDefault) ids.push_back(f.default_id);
  if (ids.empty() && f.missing == Missing::kPad && f.kind == FeatureKind::kCategorical)
    ids.push_back(f.pad_id);
  return ids;
}

float settle(const FeatureSpec& f, float x) {
  if (!std::isnan(x) || f.missing == Missing::kError) return x;
  return f.missing == Missing::kDefault ? static_cast<float>(f.default_value) : 0.0f;
}

/// Where a feature's values stand in one part of a batch.
struct FeatureValues {
  std::span<const float> dense;
  std::span<const int64_t> ids, offsets;
  int64_t row = 0, slot = 0, slots = 0, column = 0, columns = 0;

  Settled settled(const FeatureSpec& f) const {
    Settled s;
    if (f.is_slot()) {
      const auto begin = static_cast<size_t>(offsets[row * slots + slot]);
      const auto end = static_cast<size_t>(offsets[row * slots + slot + 1]);
      s.ids = settle(f, ids.subspan(begin, end - begin));
    } else {
      s.value = settle(f, dense[row * columns + column]);
    }
    return s;
  }
};

FeatureValues golden_values(const Manifest& m, const BatchColumns& l, size_t f, const GoldenRows& g,
                            int64_t row) {
  if (g.shared_rows == 0) {
    return {g.dense,    g.ids, g.offsets, row, l.slot_of_feature[f], l.n_slots, l.column_of_feature[f],
            l.n_columns};
  }
  if (m.features[f].space != RowSpace::kShared) {
    return {g.dense,
            g.ids,
            g.offsets,
            row,
            l.item_slot_of_feature[f],
            l.n_item_slots,
            l.item_column_of_feature[f],
            l.n_item_columns};
  }
  const auto after = std::upper_bound(g.shared_offsets.begin(), g.shared_offsets.end(), row);
  return {g.shared_dense,
          g.shared_ids,
          g.shared_bag_offsets,
          after - g.shared_offsets.begin() - 1,
          l.shared_slot_of_feature[f],
          l.n_shared_slots,
          l.shared_column_of_feature[f],
          l.n_shared_columns};
}

/// One comparison in progress.
class RawCheck {
 public:
  RawCheck(const LoadedModel& model, const Manifest& manifest, const GoldenRows& golden, const GoldenRaw& raw)
      : manifest_(manifest), golden_(golden), raw_(raw), columns_(columns_of(manifest.features)) {
    error_.struct_size = sizeof error_;
    dpi_rows* rows = nullptr;
    if (dpi_rows_create(model.get(), &rows, &error_) != DPI_OK)
      throw CommandError(kExitOther, error_.message);
    rows_.reset(rows);
    for (const std::string& name : raw.features)
      features_.push_back(dpi_model_feature_index(model.get(), name.c_str()));
  }

  RawComparison run() {
    result_.rows = raw_.rows;
    result_.failed_of.assign(features_.size(), 0);
    for (int64_t r = 0; r < raw_.rows; ++r) {
      dpi_rows_clear(rows_.get());
      if (dpi_rows_begin(rows_.get(), &error_) != DPI_OK) throw CommandError(kExitOther, error_.message);
      refused_.assign(features_.size(), false);
      for (size_t c = 0; c < features_.size(); ++c) set_cell(r, c);
      dpi_batch batch{};
      batch.struct_size = sizeof batch;
      if (dpi_rows_get_batch(rows_.get(), &batch, &error_) != DPI_OK)
        throw CommandError(kExitOther, error_.message);
      for (size_t c = 0; c < features_.size(); ++c) compare(r, c, batch);
    }
    return std::move(result_);
  }

 private:
  int64_t cell(int64_t r, size_t c) const {
    return raw_.cells[static_cast<size_t>(r) * features_.size() + c];
  }
  int64_t golden_row(int64_t r) const { return golden_.rows - raw_.rows + r; }

  void set_cell(int64_t r, size_t c) {
    for (int64_t t = cell(r, c); t < cell(r, c + 1) && !refused_[c]; ++t) {
      const std::string_view text = raw_.text(t);
      const auto length = static_cast<int64_t>(text.size());
      if (dpi_rows_set_text(rows_.get(), features_[c], text.data(), length, &error_) == DPI_OK) continue;
      refused_[c] = true;
      fail(c, "row " + std::to_string(golden_row(r)) + ", " + without_row(error_.message));
    }
  }

  void compare(int64_t r, size_t c, const dpi_batch& b) {
    ++result_.cells;
    if (refused_[c]) return;
    const auto at = static_cast<size_t>(features_[c]);
    const FeatureSpec& f = manifest_.features[at];
    FeatureValues ours{{},
                       {},
                       {},
                       0,
                       columns_.slot_of_feature[at],
                       columns_.n_slots,
                       columns_.column_of_feature[at],
                       columns_.n_columns};
    if (b.dense != nullptr) ours.dense = {b.dense, static_cast<size_t>(columns_.n_columns)};
    if (b.offsets != nullptr) ours.offsets = {b.offsets, static_cast<size_t>(columns_.n_slots) + 1};
    if (b.ids != nullptr) ours.ids = {b.ids, static_cast<size_t>(b.nnz)};
    const Settled got = ours.settled(f);
    const Settled want = golden_values(manifest_, columns_, at, golden_, golden_row(r)).settled(f);
    if (agree(got, want)) return;
    std::string texts;
    for (int64_t t = cell(r, c); t < cell(r, c + 1); ++t)
      texts += (texts.empty() ? "" : ", ") + in_quotes(raw_.text(t));
    fail(c, "row " + std::to_string(golden_row(r)) + ", feature '" + f.name +
                "': " + (texts.empty() ? "no text" : texts) + " gives " + text_of(f, got) + ", golden is " +
                text_of(f, want));
  }

  void fail(size_t c, const std::string& text) {
    ++result_.failed_of[c];
    if (result_.failed++ == 0) result_.first = text;
  }

  const Manifest& manifest_;
  const GoldenRows& golden_;
  const GoldenRaw& raw_;
  const BatchColumns columns_;
  std::unique_ptr<dpi_rows, FreeRows> rows_;
  std::vector<int32_t> features_;  // index of each column
  std::vector<bool> refused_;      // cells of the open row
  dpi_error error_{};
  RawComparison result_;
};

}  // namespace

RawComparison compare_raw(const LoadedModel& model, const Manifest& manifest, const GoldenRows& golden,
                          const GoldenRaw& raw) {
  return RawCheck(model, manifest, golden, raw).run();
}

}  // namespace dpi::tool
