#include "sdk/tools/dpi/csv/file_scorer.hpp"

#include <string>

#include "base/clock.hpp"

namespace dpi::tool {

namespace {
constexpr uint64_t kMostCallText = uint64_t{16} << 20;  // of a call's rows
}  // namespace

FileScorer::FileScorer(const LoadedModel& model, CsvReader* csv, RowFeeder* feeder, int64_t rows)
    : model_(model), csv_(csv), feeder_(feeder), most_rows_(rows) {
  error_.struct_size = sizeof error_;
  dpi_rows* made = nullptr;
  if (dpi_rows_create(model.get(), &made, &error_) != DPI_OK) throw CommandError(kExitOther, error_.message);
  rows_.reset(made);
  scores_.resize(static_cast<size_t>(rows) * static_cast<size_t>(model.info().num_heads));
}

bool FileScorer::next() {
  if (!fill()) return false;
  predict();
  return true;
}

bool FileScorer::fill() {
  dpi_rows_clear(rows_.get());
  feeder_->begin_batch();
  lines_.clear();
  user_lines_.clear();
  labels_.clear();
  const uint64_t end = csv_->bytes_read() + kMostCallText;
  while (static_cast<int64_t>(lines_.size()) < most_rows_ && csv_->bytes_read() < end &&
         feeder_->next(rows_.get())) {
    lines_.push_back(csv_->line());
    if (feeder_->began_user()) user_lines_.push_back(csv_->line());
    if (feeder_->has_label()) labels_.push_back(feeder_->label());
  }
  return !lines_.empty();
}

void FileScorer::predict() {
  batch_ = {};
  batch_.struct_size = sizeof batch_;
  if (dpi_rows_get_batch(rows_.get(), &batch_, &error_) != DPI_OK)
    throw CommandError(kExitOther, error_.message);
  const size_t n = lines_.size() * static_cast<size_t>(model_.info().num_heads);
  const uint64_t begin = monotonic_ns();
  const dpi_status status = dpi_predict(model_.get(), &batch_, scores_.data(), n, nullptr, &error_);
  seconds_ = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  if (status == DPI_OK) return;
  const std::vector<int64_t>& lines = error_.in_shared != 0 ? user_lines_ : lines_;
  const bool known = error_.row >= 0 && error_.row < static_cast<int64_t>(lines.size());
  const std::string place =
      known ? feeder_->place(lines[static_cast<size_t>(error_.row)], error_.feature) + ": " : "";
  throw CommandError(exit_of(status, false), place + (known ? without_row(error_.message) : error_.message));
}

}  // namespace dpi::tool
