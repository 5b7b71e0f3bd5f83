// `dpi predict`: CSV rows in, scores out.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/clock.hpp"
#include "row_feeder.hpp"
#include "summary.hpp"
#include "terminal.hpp"
#include "unknown_values.hpp"

namespace dpi::tool {

namespace {

constexpr const char* kFooter =
    R"(CSV (RFC 4180): the header holds feature names in any order. An empty cell is a missing value; a bag is a|b|c, with weights
a:w|b:w; the elements of a vector stand in columns name[0], name[1], ... Cells are ids and numbers; with --raw the encoders of the
bundle read them, and a bag whose separator the bundle states is split there instead of at |. Columns the model does not know are ignored with a note. Scores: one column per head, %.9g.

Examples:
  dpi predict model.h5 rows.csv > scores.csv
  dpi predict model.h5 rows.csv --raw --label clicked --summary
  zcat rows.csv.gz | dpi predict model.h5 - --output scores.csv)";

struct PredictArgs {
  CommonFlags common;
  std::string bundle, input, output, label, head;
  bool raw = false, summary = false, json = false;
  int64_t batch = 256;
};

struct FreeRows {
  void operator()(dpi_rows* r) const { dpi_rows_free(r); }
};
struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

/// Reads, scores and writes chunk by chunk.
class Scorer {
 public:
  Scorer(const PredictArgs& args, const LoadedModel& model, int32_t head)
      : unknown(model), args_(args), model_(model), head_(head) {
    error_.struct_size = sizeof error_;
    dpi_rows* rows = nullptr;
    if (dpi_rows_create(model.get(), &rows, &error_) != DPI_OK)
      throw CommandError(kExitOther, error_.message);
    rows_.reset(rows);
    heads_ = static_cast<size_t>(model.info().num_heads);
    scores_.resize(static_cast<size_t>(args.batch) * heads_);
  }

  void run(CsvReader* csv, RowFeeder* feeder, std::FILE* out) {
    const uint64_t begin = monotonic_ns();
    Progress progress("scoring");
    write_header(out);
    while (fill(csv, feeder)) {
      predict(*feeder);
      write(out);
      progress.update(csv->bytes_read(), csv->file_bytes());
    }
    summary.total_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
    summary.batch = args_.batch;
    summary.head = model_.head_name(head_);
  }

  Summary summary;
  UnknownValues unknown;  // of raw values

 private:
  bool fill(CsvReader* csv, RowFeeder* feeder) {
    dpi_rows_clear(rows_.get());
    lines_.clear();
    while (static_cast<int64_t>(lines_.size()) < args_.batch && feeder->next(rows_.get())) {
      lines_.push_back(csv->line());
      if (feeder->has_label()) summary.labels.push_back(feeder->label());
    }
    return !lines_.empty();
  }

  void predict(const RowFeeder& feeder) {
    dpi_batch batch{};
    batch.struct_size = sizeof batch;
    if (dpi_rows_get_batch(rows_.get(), &batch, &error_) != DPI_OK)
      throw CommandError(kExitOther, error_.message);
    if (args_.raw) unknown.count(batch);
    const size_t n = lines_.size() * heads_;
    const uint64_t begin = monotonic_ns();
    const dpi_status status = dpi_predict(model_.get(), &batch, scores_.data(), n, nullptr, &error_);
    const double seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
    if (status != DPI_OK) {
      const bool known = error_.row >= 0 && error_.row < static_cast<int64_t>(lines_.size());
      const std::string place = known ? feeder.place(lines_[error_.row], error_.feature) + ": " : "";
      throw CommandError(exit_of(status, false),
                         place + (known ? without_row(error_.message) : error_.message));
    }
    summary.predict_seconds += seconds;
    summary.latencies.push_back(seconds);
    summary.rows += static_cast<int64_t>(lines_.size());
    for (size_t r = 0; r < lines_.size(); ++r)
      summary.scores.push_back(scores_[r * heads_ + static_cast<size_t>(head_)]);
  }

  void write_header(std::FILE* out) const {
    if (out == nullptr) return;
    for (int32_t h = 0; h < model_.info().num_heads; ++h)
      std::fprintf(out, "%s%s", h == 0 ? "" : ",", model_.head_name(h).c_str());
    std::fputc('\n', out);
  }

  void write(std::FILE* out) const {
    if (out == nullptr) return;
    for (size_t i = 0; i < lines_.size() * heads_; ++i) {
      std::fprintf(out, "%.9g%c", static_cast<double>(scores_[i]), (i + 1) % heads_ == 0 ? '\n' : ',');
    }
  }

  const PredictArgs& args_;
  const LoadedModel& model_;
  int32_t head_;
  size_t heads_ = 1;
  std::unique_ptr<dpi_rows, FreeRows> rows_;
  std::vector<int64_t> lines_;
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

std::unique_ptr<std::FILE, CloseFile> open_output(const std::string& path) {
  if (path.empty()) return nullptr;
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) throw CommandError(kExitOther, path + ": " + std::strerror(errno));
  return file;
}

int predict(const PredictArgs& args) {
  const LoadedModel model(args.bundle, args.common);
  model.note_device();
  const int32_t head = find_head(model, args.head);
  CsvReader csv(args.input);
  RowFeeder feeder(model, &csv, args.label, args.raw);
  for (const std::string& name : feeder.ignored())
    std::fprintf(stderr, "dpi: note: column '%s' is not a feature, ignored\n", name.c_str());
  const auto file = open_output(args.output);
  const bool summary_only = args.summary && file == nullptr;
  std::FILE* out = file != nullptr ? file.get() : summary_only ? nullptr : stdout;
  Scorer scorer(args, model, head);
  scorer.run(&csv, &feeder, out);
  for (const std::string& note : scorer.unknown.notes())
    std::fprintf(stderr, "dpi: note: %s\n", note.c_str());
  if (out != nullptr && (std::fflush(out) != 0 || std::ferror(out) != 0)) {
    throw CommandError(kExitOther,
                       (args.output.empty() ? "<stdout>" : args.output) + ": " + std::strerror(errno));
  }
  if (!args.summary && args.label.empty()) return kExitOk;
  const auto summary = summary_json(model, &scorer.summary);
  std::FILE* to = out == stdout ? stderr : stdout;
  if (args.json) {
    std::fprintf(to, "%s\n", summary.dump(2).c_str());
  } else {
    print_summary(summary, to);
  }
  return kExitOk;
}

}  // namespace

void add_predict(CLI::App* app, Command* run) {
  auto args = std::make_shared<PredictArgs>();
  CLI::App* sub = app->add_subcommand("predict", "Score the rows of a CSV file");
  sub->footer(kFooter);
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_option("csv,--input", args->input, "the rows; - reads standard input")->required();
  sub->add_option("-o,--output", args->output, "write the scores here instead of standard output");
  sub->add_flag("--raw", args->raw, "cells are raw values, read by the bundle's encoders");
  sub->add_option("--label", args->label, "column with the label, 0 or 1: prints AUC and log loss");
  sub->add_option("--head", args->head, "which head the label belongs to (default: the first)");
  sub->add_flag("--summary", args->summary, "print a summary; scores only with --output");
  sub->add_flag("--json", args->json, "the summary as JSON");
  sub->add_option("--batch", args->batch, "rows per call")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return predict(*args); }; });
}

}  // namespace dpi::tool
