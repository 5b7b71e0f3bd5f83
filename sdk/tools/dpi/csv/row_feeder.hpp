// Turns the cells of a CSV row into one row of a dpi_rows (contracts of the CSV form: `dpi predict --help`).
#pragma once

#include <string>
#include <vector>

#include "sdk/tools/dpi/csv/csv.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

class RowFeeder {
 public:
  /// Reads the header from `csv` and matches it with the model's features. Throws CommandError that names
  /// missing, doubled columns.
  RowFeeder(const LoadedModel& model, CsvReader* csv, const std::string& label, bool raw);

  /// From here on records next to each other with the same cells of shared features are rows of one user,
  /// whose features are given once (a shared part).
  void share_users() { shares_users_ = true; }
  /// `rows` is empty again: the next record begins a user.
  void begin_batch() { user_.clear(); }
  /// Reads the next record into `rows`; false at the end.
  bool next(dpi_rows* rows);
  /// The last record began a user.
  bool began_user() const { return began_user_; }
  float label() const { return label_; }
  bool has_label() const { return label_column_ >= 0; }
  const std::vector<std::string>& ignored() const { return ignored_; }
  /// "file:line:column" of a feature's first cell in a row that began on `line`.
  std::string place(int64_t line, int64_t feature) const;

 private:
  struct Column {
    int32_t feature = -1;  // -1: label or ignored
    int32_t element = -1;  // of a dense vector
  };
  void map_column(size_t c, const std::string& name);
  /// Refuses a header that another character than a comma separates.
  void check_separator() const;
  void check_complete(const std::string& label) const;
  bool same_user() const;
  bool is_shared(size_t c) const;
  void set_part(dpi_rows* rows, bool shared);
  void set_cell(dpi_rows* rows, size_t c, const std::string& cell);
  void set_raw(dpi_rows* rows, size_t c, const std::string& cell);
  void set_ids(dpi_rows* rows, size_t c, const std::string& cell);
  void read_label(const std::string& cell);
  float number(size_t c, const std::string& text) const;
  [[noreturn]] void fail(size_t c, const std::string& text) const;
  void check_call(dpi_status status, size_t c) const;

  const LoadedModel& model_;
  CsvReader* csv_;
  bool raw_;
  std::vector<std::string> header_, cells_, ignored_;
  std::vector<Column> columns_;
  std::vector<std::vector<float>> dense_;  // per feature: the vector of the open row
  std::vector<bool> splits_;               // per feature: the bundle says how a bag's text is split
  std::vector<size_t> first_column_;       // per feature, 0 = none, from 1
  bool shares_users_ = false, began_user_ = false;
  std::vector<std::string> user_;  // the cells of the user's first record; empty: none yet
  int label_column_ = -1;
  float label_ = 0;
  std::vector<int64_t> ids_;
  std::vector<float> weights_;
  mutable dpi_error error_{};
};

/// A message of the library without its "row N, " (rows of a batch mean nothing in a file).
std::string without_row(const std::string& message);

}  // namespace dpi::tool
