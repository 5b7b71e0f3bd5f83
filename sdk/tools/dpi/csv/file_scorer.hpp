// Scores the rows of a CSV file, batch after batch.
#pragma once

#include <dpi/dpi.h>

#include <memory>
#include <vector>

#include "sdk/tools/dpi/csv/free_rows.hpp"
#include "sdk/tools/dpi/csv/row_feeder.hpp"

namespace dpi::tool {

class FileScorer {
 public:
  /// rows: of a call, at most. A call ends early where its rows make up much text: memory does not grow with
  /// what a caller allows.
  FileScorer(const LoadedModel& model, CsvReader* csv, RowFeeder* feeder, int64_t rows);

  /// Reads and scores the next rows; false at the end of the file. Throws CommandError that names the line
  /// and column of a row that is refused.
  bool next();

  // These are of the last batch, and stay until the next one.
  const dpi_batch& batch() const { return batch_; }
  const float* scores() const { return scores_.data(); }  // [rows, heads]
  const std::vector<int64_t>& lines() const { return lines_; }
  const std::vector<float>& labels() const { return labels_; }  // empty without a column of labels
  double seconds() const { return seconds_; }                   // that dpi_predict took

 private:
  bool fill();
  void predict();

  const LoadedModel& model_;
  CsvReader* csv_;
  RowFeeder* feeder_;
  int64_t most_rows_;
  std::unique_ptr<dpi_rows, FreeRows> rows_;
  dpi_batch batch_{};
  std::vector<int64_t> lines_;
  std::vector<int64_t> user_lines_;  // of each user's first row
  std::vector<float> scores_, labels_;
  double seconds_ = 0;
  dpi_error error_{};
};

}  // namespace dpi::tool
