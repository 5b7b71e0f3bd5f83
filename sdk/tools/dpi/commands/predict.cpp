// `dpi predict`: CSV rows in, scores out.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/summary.hpp"
#include "sdk/tools/dpi/csv/free_rows.hpp"
#include "sdk/tools/dpi/csv/row_feeder.hpp"
#include "sdk/tools/dpi/csv/score_file.hpp"
#include "sdk/tools/dpi/csv/value_counts.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

/// A call ends early where its rows make up this much text, so that memory does not grow with what --batch
/// allows.
constexpr uint64_t kMaxBatchText = uint64_t{16} << 20;

/// Reads, scores and writes chunk by chunk.
class Scorer {
 public:
  Scorer(const PredictArgs& args, const LoadedModel& model, int32_t head)
      : counts(model), args_(args), model_(model), head_(head) {
    error_.struct_size = sizeof error_;
    dpi_rows* rows = nullptr;
    if (dpi_rows_create(model.get(), &rows, &error_) != DPI_OK)
      throw CommandError(kExitOther, error_.message);
    rows_.reset(rows);
    heads_ = static_cast<size_t>(model.info().num_heads);
    scores_.resize(static_cast<size_t>(args.batch) * heads_);
  }

  /// out: null = scores are not wanted.
  void run(CsvReader* csv, RowFeeder* feeder, ScoreFile* out) {
    const uint64_t begin = monotonic_ns();
    Progress progress("scoring", out == nullptr || !out->is_stdout() || !shows_stdout());
    while (fill(csv, feeder)) {
      predict(*feeder);
      if (out != nullptr) out->write(scores_.data(), lines_.size());
      progress.update(csv->bytes_read(), csv->file_bytes());
    }
    if (out != nullptr) out->commit();
    summary.total_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
    summary.batch = args_.batch;
    summary.head = model_.head_name(head_);
  }

  Summary summary;
  ValueCounts counts;

 private:
  bool fill(CsvReader* csv, RowFeeder* feeder) {
    dpi_rows_clear(rows_.get());
    feeder->begin_batch();
    lines_.clear();
    user_lines_.clear();
    const uint64_t end = csv->bytes_read() + kMaxBatchText;
    while (static_cast<int64_t>(lines_.size()) < args_.batch && csv->bytes_read() < end &&
           feeder->next(rows_.get())) {
      lines_.push_back(csv->line());
      if (feeder->began_user()) user_lines_.push_back(csv->line());
      if (feeder->has_label()) summary.labels.push_back(feeder->label());
    }
    return !lines_.empty();
  }

  void predict(const RowFeeder& feeder) {
    dpi_batch batch{};
    batch.struct_size = sizeof batch;
    if (dpi_rows_get_batch(rows_.get(), &batch, &error_) != DPI_OK)
      throw CommandError(kExitOther, error_.message);
    counts.count(batch);
    const size_t n = lines_.size() * heads_;
    const uint64_t begin = monotonic_ns();
    const dpi_status status = dpi_predict(model_.get(), &batch, scores_.data(), n, nullptr, &error_);
    const double seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
    if (status != DPI_OK) {
      const std::vector<int64_t>& lines = error_.in_shared != 0 ? user_lines_ : lines_;
      const bool known = error_.row >= 0 && error_.row < static_cast<int64_t>(lines.size());
      const std::string place = known ? feeder.place(lines[error_.row], error_.feature) + ": " : "";
      throw CommandError(exit_of(status, false),
                         place + (known ? without_row(error_.message) : error_.message));
    }
    summary.predict_seconds += seconds;
    summary.rows += static_cast<int64_t>(lines_.size());
    if (!args_.wants_summary()) return;
    summary.latencies.push_back(seconds);
    if (!feeder.has_label()) return;
    for (size_t r = 0; r < lines_.size(); ++r)
      summary.scores.push_back(scores_[r * heads_ + static_cast<size_t>(head_)]);
  }

  const PredictArgs& args_;
  const LoadedModel& model_;
  int32_t head_;
  size_t heads_ = 1;
  std::unique_ptr<dpi_rows, FreeRows> rows_;
  std::vector<int64_t> lines_;
  std::vector<int64_t> user_lines_;  // of each user's first row
  std::vector<float> scores_;
  dpi_error error_{};
};

int32_t find_head(const LoadedModel& model, const std::string& name) {
  if (name.empty()) return 0;
  std::string known;
  for (int32_t h = 0; h < model.info().num_heads; ++h) {
    if (model.head_name(h) == name) return h;
    known += (known.empty() ? "" : ", ") + model.head_name(h);
  }
  throw CommandError(kExitUsage, "--head '" + name + "': the model has " + known);
}

std::unique_ptr<ScoreFile> open_output(const PredictArgs& args, const LoadedModel& model) {
  if (args.summary && args.output.empty()) return nullptr;
  for (const std::string& read : {args.bundle, args.rows}) {
    if (is_same_file(read, args.output))
      throw CommandError(kExitUsage, "--output '" + args.output + "' is a file that is read; name another");
  }
  std::vector<std::string> heads;
  for (int32_t h = 0; h < model.info().num_heads; ++h) heads.push_back(model.head_name(h));
  return std::make_unique<ScoreFile>(args.output, std::move(heads));
}

/// One line, however many there are.
void note_ignored(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  if (names.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  if (names.size() == 1) {
    print_line(stderr, "dpi: note: column %s is not a feature, ignored", text.c_str());
  } else {
    print_line(stderr, "dpi: note: %zu columns are not features, ignored: %s%s", names.size(), text.c_str(),
               names.size() > kShown ? ", ..." : "");
  }
}

/// How many values were not what training knew, where any were.
void note_values(const nlohmann::ordered_json& counts) {
  for (const std::string& line : count_lines(counts, kShownFeatures))
    print_line(stderr, "dpi: note: %s", line.c_str());
}

}  // namespace

int predict(const PredictArgs& args) {
  const LoadedModel model(args.bundle, args.common);
  model.note_device();
  const int32_t head = find_head(model, args.head);
  CsvReader csv(args.rows, args.limits);
  RowFeeder feeder(model, &csv, args.label, args.raw);
  if (args.users && model.info().num_shared_slots + model.info().shared_dense_dim > 0) feeder.share_users();
  note_ignored(feeder.ignored());
  const auto out = open_output(args, model);
  Scorer scorer(args, model, head);
  scorer.run(&csv, &feeder, out.get());
  scorer.summary.features = scorer.counts.json();
  if (!args.wants_summary()) note_values(scorer.summary.features);
  for (const std::string& text : scorer.counts.warnings())
    print_line(stderr, "dpi: warning: %s", text.c_str());
  if (!args.wants_summary()) return kExitOk;
  const auto summary = summary_json(model, &scorer.summary);
  std::FILE* to = out != nullptr && out->is_stdout() ? stderr : stdout;
  if (args.json) {
    print_json(to, summary);
  } else {
    print_summary(summary, to);
  }
  return kExitOk;
}

}  // namespace dpi::tool
