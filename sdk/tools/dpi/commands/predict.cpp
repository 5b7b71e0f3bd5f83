// `dpi predict`: CSV rows in, scores out.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/summary.hpp"
#include "sdk/tools/dpi/csv/file_scorer.hpp"
#include "sdk/tools/dpi/csv/row_feeder.hpp"
#include "sdk/tools/dpi/csv/score_file.hpp"
#include "sdk/tools/dpi/csv/value_counts.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

/// Reads, scores and writes batch by batch.
class Scorer {
 public:
  Scorer(const PredictArgs& args, const LoadedModel& model, int32_t head)
      : counts(model), args_(args), model_(model), head_(head) {}

  /// out: null = scores are not wanted.
  void run(CsvReader* csv, RowFeeder* feeder, ScoreFile* out) {
    const uint64_t begin = monotonic_ns();
    Progress progress("scoring", out == nullptr || !out->is_stdout() || !shows_stdout());
    FileScorer scorer(model_, csv, feeder, args_.batch);
    while (scorer.next()) {
      add(scorer);
      if (out != nullptr) out->write(scorer.scores(), scorer.lines().size());
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
  void add(const FileScorer& scored) {
    counts.count(scored.batch());
    summary.predict_seconds += scored.seconds();
    summary.rows += static_cast<int64_t>(scored.lines().size());
    if (!args_.wants_summary()) return;
    summary.latencies.push_back(scored.seconds());
    const std::vector<float>& labels = scored.labels();
    summary.labels.insert(summary.labels.end(), labels.begin(), labels.end());
    const auto heads = static_cast<size_t>(model_.info().num_heads);
    for (size_t r = 0; r < labels.size(); ++r)
      summary.scores.push_back(scored.scores()[r * heads + static_cast<size_t>(head_)]);
  }

  const PredictArgs& args_;
  const LoadedModel& model_;
  int32_t head_;
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
