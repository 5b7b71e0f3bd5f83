#include "sdk/tools/dpi/csv/row_feeder.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "base/text.hpp"

namespace dpi::tool {

namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

/// Calls fn(element) for each part of "a|b|c"; not at all for an empty cell.
template <class Fn>
void for_each_element(std::string_view bag, Fn fn) {
  if (bag.empty()) return;
  for (;;) {
    const size_t bar = bag.find('|');
    fn(bag.substr(0, bar));
    if (bar == std::string_view::npos) return;
    bag.remove_prefix(bar + 1);
  }
}

template <class T>
bool parse(std::string_view text, T* out) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const auto [at, ec] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return ec == std::errc() && at == text.data() + text.size();
}

}  // namespace

std::string without_row(const std::string& message) {
  const size_t comma = message.find(", ");
  const bool named = message.starts_with("row ") || message.starts_with("shared row ");
  return named && comma != std::string::npos ? message.substr(comma + 2) : message;
}

RowFeeder::RowFeeder(const LoadedModel& model, CsvReader* csv, const std::string& label, bool raw)
    : model_(model), csv_(csv), raw_(raw) {
  error_.struct_size = sizeof error_;
  dense_.resize(model.features().size());
  first_column_.resize(model.features().size(), 0);
  for (size_t f = 0; f < dense_.size(); ++f) {
    splits_.push_back(model.schema()["features"][f].contains("splitter"));
    if (model.features()[f].kind == DPI_FEATURE_DENSE)
      dense_[f].resize(static_cast<size_t>(model.features()[f].dim), kMissing);
  }
  if (!csv_->next(&header_))
    throw CommandError(kExitBadInput, csv_->place(1, 0) + ": no header, expected feature names");
  columns_.resize(header_.size());
  std::unordered_set<std::string_view> seen;
  for (size_t c = 0; c < header_.size(); ++c) {
    if (!seen.insert(header_[c]).second) fail(c, "column " + in_quotes(header_[c]) + " occurs twice");
    if (!label.empty() && header_[c] == label) {
      label_column_ = static_cast<int>(c);
    } else {
      map_column(c, header_[c]);
    }
  }
  check_separator();
  check_complete(label);
}

void RowFeeder::check_separator() const {
  if (ignored_.size() != 1 || header_.size() != 1) return;
  for (const char* found : {";", "\t", "|"}) {
    if (header_[0].find(*found) == std::string::npos) continue;
    throw CommandError(kExitBadInput, csv_->place(1, 0) + ": the header has no comma but " +
                                          (*found == '\t' ? "tabs" : "'" + std::string(found) + "'") +
                                          "; cells are separated by commas, so write the file with commas");
  }
}

void RowFeeder::map_column(size_t c, const std::string& name) {
  Column& column = columns_[c];
  column.feature = dpi_model_feature_index(model_.get(), name.c_str());
  const size_t bracket = name.rfind('[');
  if (column.feature < 0 && bracket != std::string::npos && name.back() == ']') {
    const std::string base = name.substr(0, bracket);
    const int32_t feature = dpi_model_feature_index(model_.get(), base.c_str());
    const std::string_view digits(name.data() + bracket + 1, name.size() - bracket - 2);
    int32_t element = -1;  // of "vec[1x]" parse leaves 1: the column is no element all the same
    if (feature >= 0 && model_.features()[feature].kind == DPI_FEATURE_DENSE && parse(digits, &element)) {
      column.feature = feature;
      column.element = element;
      if (column.element < 0 || column.element >= model_.features()[feature].dim) {
        fail(c, "column '" + name + "': feature '" + base + "' has " +
                    std::to_string(model_.features()[feature].dim) + " elements");
      }
    }
  }
  if (column.feature < 0) {
    ignored_.push_back(name);
    return;
  }
  const bool vector = model_.features()[column.feature].kind == DPI_FEATURE_DENSE;
  if (vector && column.element < 0) column.element = model_.features()[column.feature].dim == 1 ? 0 : -1;
  if (vector && column.element < 0)
    fail(c, "feature '" + name + "' is a vector, expected columns '" + name + "[0]', ...");
  if (vector && raw_ && model_.features()[column.feature].has_encoder != 0) {
    fail(c, "feature '" + model_.feature_name(column.feature) +
                "' is a vector with an encoder, which --raw cannot apply; give encoded values without --raw");
  }
  if (first_column_[column.feature] == 0) first_column_[column.feature] = c + 1;
}

void RowFeeder::check_complete(const std::string& label) const {
  std::vector<std::vector<bool>> seen(dense_.size());
  for (size_t f = 0; f < seen.size(); ++f) seen[f].resize(dense_[f].size());
  for (const Column& column : columns_) {
    if (column.element < 0) continue;
    if (seen[column.feature][column.element]) {
      throw CommandError(kExitBadInput, csv_->place(1, 0) + ": two columns for element " +
                                            std::to_string(column.element) + " of feature '" +
                                            model_.feature_name(column.feature) + "'");
    }
    seen[column.feature][column.element] = true;
  }
  for (int32_t f = 0; f < static_cast<int32_t>(seen.size()); ++f) {
    const std::string name = model_.feature_name(f);
    if (first_column_[f] == 0) {
      throw CommandError(kExitBadInput, csv_->place(1, 0) + ": no column for feature '" + name +
                                            (dense_[f].empty() ? "'" : "[0]' ..."));
    }
    for (size_t i = 0; i < seen[f].size(); ++i) {
      if (!seen[f][i])
        throw CommandError(kExitBadInput,
                           csv_->place(1, 0) + ": no column '" + name + "[" + std::to_string(i) + "]'");
    }
  }
  if (!label.empty() && label_column_ < 0) {
    const std::vector<std::string_view> names(header_.begin(), header_.end());
    throw CommandError(kExitBadInput, csv_->place(1, 0) + ": no column '" + label + "' for the label" +
                                          did_you_mean(label, names));
  }
}

void RowFeeder::fail(size_t c, const std::string& text) const {
  throw CommandError(kExitBadInput, csv_->place(csv_->line(), c + 1) + ": " + text);
}

void RowFeeder::check_call(dpi_status status, size_t c) const {
  if (status == DPI_OK) return;
  const std::string text = csv_->place(csv_->line(), c + 1) + ": " + without_row(error_.message);
  throw CommandError(exit_of(status, false), text);
}

std::string RowFeeder::place(int64_t line, int64_t feature) const {
  const bool known = feature >= 0 && feature < static_cast<int64_t>(first_column_.size());
  return csv_->place(line, known ? first_column_[feature] : 0);
}

float RowFeeder::number(size_t c, const std::string& text) const {
  if (text.empty()) return kMissing;
  float v = 0;
  if (!parse(text, &v)) fail(c, "feature '" + header_[c] + "': " + in_quotes(text) + " is not a number");
  return v;
}

void RowFeeder::read_label(const std::string& cell) {
  const size_t c = static_cast<size_t>(label_column_);
  if (!parse(cell, &label_) || (label_ != 0 && label_ != 1)) {
    fail(c, "label '" + header_[c] + "' is " + in_quotes(cell) + ", expected 0 or 1");
  }
}

bool RowFeeder::next(dpi_rows* rows) {
  if (!csv_->next(&cells_)) return false;
  if (cells_.size() != header_.size()) {
    throw CommandError(kExitBadInput, csv_->place(csv_->line(), cells_.size()) + ": the row has " +
                                          std::to_string(cells_.size()) + " cells, the header " +
                                          std::to_string(header_.size()));
  }
  if (label_column_ >= 0) read_label(cells_[static_cast<size_t>(label_column_)]);
  began_user_ = shares_users_ && !same_user();
  if (began_user_) {
    check_call(dpi_rows_begin_shared(rows, &error_), 0);
    set_part(rows, true);
    user_ = cells_;
  }
  check_call(dpi_rows_begin(rows, &error_), 0);
  set_part(rows, false);
  return true;
}

bool RowFeeder::is_shared(size_t c) const {
  return shares_users_ && columns_[c].feature >= 0 && model_.features()[columns_[c].feature].shared != 0;
}

bool RowFeeder::same_user() const {
  if (user_.empty()) return false;
  for (size_t c = 0; c < cells_.size(); ++c) {
    if (is_shared(c) && cells_[c] != user_[c]) return false;
  }
  return true;
}

/// Without users every feature is in the item part.
void RowFeeder::set_part(dpi_rows* rows, bool shared) {
  for (size_t c = 0; c < cells_.size(); ++c) {
    if (columns_[c].feature >= 0 && is_shared(c) == shared) set_cell(rows, c, cells_[c]);
  }
  for (size_t f = 0; f < dense_.size(); ++f) {
    if (dense_[f].empty() || is_shared(first_column_[f] - 1) != shared) continue;
    const auto n = static_cast<int64_t>(dense_[f].size());
    check_call(dpi_rows_set_floats(rows, static_cast<int32_t>(f), dense_[f].data(), n, &error_),
               first_column_[f] - 1);
  }
}

void RowFeeder::set_cell(dpi_rows* rows, size_t c, const std::string& cell) {
  const Column& column = columns_[c];
  if (column.element >= 0) {
    dense_[column.feature][column.element] = number(c, cell);
    return;
  }
  if (raw_) return set_raw(rows, c, cell);
  if (model_.features()[column.feature].kind != DPI_FEATURE_NUMERIC) return set_ids(rows, c, cell);
  const float v = number(c, cell);
  check_call(dpi_rows_set_floats(rows, column.feature, &v, 1, &error_), c);
}

void RowFeeder::set_raw(dpi_rows* rows, size_t c, const std::string& cell) {
  const int32_t feature = columns_[c].feature;
  const dpi_feature_info& f = model_.features()[feature];
  if (f.kind != DPI_FEATURE_SEQUENCE || splits_[feature]) {
    check_call(dpi_rows_set_text(rows, feature, cell.data(), static_cast<int64_t>(cell.size()), &error_), c);
    return;
  }
  for_each_element(cell, [&](std::string_view element) {
    float weight = 1;
    const size_t colon = element.rfind(':');
    if (f.weighted != 0 && colon != std::string_view::npos) {
      if (!parse(element.substr(colon + 1), &weight)) {
        fail(c, "feature '" + header_[c] + "': " + in_quotes(element) + " has no number after ':'");
      }
      element = element.substr(0, colon);
    }
    check_call(dpi_rows_add_text(rows, feature, element.data(), static_cast<int64_t>(element.size()), weight,
                                 &error_),
               c);
  });
}

void RowFeeder::set_ids(dpi_rows* rows, size_t c, const std::string& cell) {
  const int32_t feature = columns_[c].feature;
  const dpi_feature_info& f = model_.features()[feature];
  ids_.clear();
  weights_.clear();
  const auto add = [&](std::string_view element) {
    float weight = 1;
    const size_t colon = f.weighted != 0 ? element.rfind(':') : std::string_view::npos;
    const bool weighted = colon != std::string_view::npos;
    int64_t id = 0;
    if (!parse(element.substr(0, colon), &id) || (weighted && !parse(element.substr(colon + 1), &weight))) {
      fail(c, "feature '" + header_[c] + "': " + in_quotes(element) + " is not an id" +
                  (f.has_encoder != 0 && !raw_ ? "; are these raw values? then add --raw" : ""));
    }
    ids_.push_back(id);
    weights_.push_back(weight);
  };
  if (f.kind == DPI_FEATURE_SEQUENCE) {
    for_each_element(cell, add);
  } else if (!cell.empty()) {
    add(cell);
  }
  const float* weights = f.weighted != 0 ? weights_.data() : nullptr;
  check_call(
      dpi_rows_set_ids(rows, feature, ids_.data(), weights, static_cast<int64_t>(ids_.size()), &error_), c);
}

}  // namespace dpi::tool
