// `dpi diff`: how far two models' scores of the same rows are apart.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/csv/file_scorer.hpp"
#include "sdk/tools/dpi/shared/metrics.hpp"
#include "sdk/tools/dpi/shared/score_shift.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

[[noreturn]] void rows_changed(const DiffArgs& args) {
  throw CommandError(kExitBadInput, args.rows + ": the rows changed while they were read three times");
}

/// Scores of the file by one model.
struct Side {
  std::string file, model, device;
  std::vector<std::string> heads;
  std::vector<std::vector<float>> scores;  // of each head
  std::vector<float> labels;
  std::vector<int64_t> lines;
  std::vector<std::string> ignored;  // columns that are no feature
};

void keep(const FileScorer& scored, Side* side) {
  const size_t heads = side->heads.size();
  for (size_t r = 0; r < scored.lines().size(); ++r) {
    for (size_t h = 0; h < heads; ++h) {
      const float score = scored.scores()[r * heads + h];
      if (!std::isfinite(score))
        throw CommandError(kExitBadInput, side->file + ": head '" + side->heads[h] +
                                              "' is not finite on line " + std::to_string(scored.lines()[r]) +
                                              " of the rows");
      side->scores[h].push_back(score);
    }
  }
  side->lines.insert(side->lines.end(), scored.lines().begin(), scored.lines().end());
  side->labels.insert(side->labels.end(), scored.labels().begin(), scored.labels().end());
}

/// The model is gone afterwards: one at a time is in memory.
Side score_all(const DiffArgs& args, const std::string& bundle) {
  const LoadedModel model(bundle, args.common);
  model.note_device();
  CsvReader csv(args.rows, args.limits);
  RowFeeder feeder(model, &csv, args.label, args.raw);
  Side side{bundle, model.schema().value("name", ""), model.device_text(), {}, {}, {}, {}, feeder.ignored()};
  for (int32_t h = 0; h < model.info().num_heads; ++h) side.heads.push_back(model.head_name(h));
  side.scores.resize(side.heads.size());
  FileScorer scorer(model, &csv, &feeder, args.batch);
  Progress progress("scoring with " + bundle);
  while (scorer.next()) {
    keep(scorer, &side);
    progress.update(csv.bytes_read(), csv.file_bytes());
  }
  return side;
}

/// Keeps the heads that both have, in the order of the older one; returns the names of the others.
std::vector<std::string> keep_common(Side* side, const Side& other) {
  std::vector<std::string> heads, alone;
  std::vector<std::vector<float>> scores;
  for (size_t h = 0; h < side->heads.size(); ++h) {
    if (std::find(other.heads.begin(), other.heads.end(), side->heads[h]) == other.heads.end()) {
      alone.push_back(side->heads[h]);
    } else {
      heads.push_back(side->heads[h]);
      scores.push_back(std::move(side->scores[h]));
    }
  }
  side->heads = std::move(heads);
  side->scores = std::move(scores);
  return alone;
}

void order_like(Side* side, const Side& first) {
  std::vector<std::vector<float>> scores;
  scores.reserve(first.heads.size());
  for (const std::string& name : first.heads) {
    const auto at = std::find(side->heads.begin(), side->heads.end(), name) - side->heads.begin();
    scores.push_back(std::move(side->scores[static_cast<size_t>(at)]));
  }
  side->heads = first.heads;
  side->scores = std::move(scores);
}

/// Rows as the file has them: the request of each, and cells of some.
struct Texts {
  std::vector<int64_t> request;   // empty when none was asked for
  std::map<int64_t, Json> cells;  // by line: the cells of features that are not empty
};

class TextReader {
 public:
  TextReader(const DiffArgs& args, const Side& old, const Side& next)
      : args_(args), csv_(args.rows, args.limits), lines_(old.lines) {
    csv_.next(&header_);
    for (size_t c = 0; c < header_.size(); ++c) {
      if (!args.request.empty() && header_[c] == args.request) request_ = static_cast<int>(c);
      if (is_feature(header_[c], args, old) || is_feature(header_[c], args, next)) shown_.push_back(c);
    }
    if (!args.request.empty() && request_ < 0)
      throw CommandError(kExitBadInput,
                         args.rows + ":1: no column '" + args.request + "', which --request names");
  }

  Texts read(const std::vector<size_t>& worst) {
    Texts texts;
    std::unordered_map<std::string, int64_t> numbers;
    std::vector<std::string> cells;
    size_t row = 0;
    for (; csv_.next(&cells); ++row) {
      if (row >= lines_.size() || csv_.line() != lines_[row]) rows_changed(args_);
      if (request_ >= 0) {
        const auto number = static_cast<int64_t>(numbers.size());
        texts.request.push_back(
            numbers.try_emplace(cells.at(static_cast<size_t>(request_)), number).first->second);
      }
      if (std::find(worst.begin(), worst.end(), row) != worst.end()) texts.cells[csv_.line()] = shown(cells);
    }
    if (row != lines_.size()) rows_changed(args_);
    return texts;
  }

 private:
  static bool is_feature(const std::string& column, const DiffArgs& args, const Side& side) {
    return column != args.label &&
           std::find(side.ignored.begin(), side.ignored.end(), column) == side.ignored.end();
  }
  Json shown(const std::vector<std::string>& cells) const {
    Json j = Json::object();
    for (const size_t c : shown_)
      if (!cells.at(c).empty()) j[header_[c]] = cells[c];
    return j;
  }

  const DiffArgs& args_;
  CsvReader csv_;
  const std::vector<int64_t>& lines_;
  std::vector<std::string> header_;
  std::vector<size_t> shown_;
  int request_ = -1;
};

Json finite(double v) { return std::isfinite(v) ? Json(v) : Json(); }

Json head_json(const Side& old, const Side& next, size_t h, const Texts& texts, bool labelled) {
  const std::vector<float>&before = old.scores[h], &after = next.scores[h];
  const ScoreShift s = score_shift(before, after);
  Json j = {{"name", old.heads[h]},
            {"mean_old", finite(s.mean_before)},
            {"mean_new", finite(s.mean_after)},
            {"shift",
             {{"mean", finite(s.mean)},
              {"median", finite(s.median)},
              {"p99", finite(s.p99)},
              {"largest", finite(s.largest)}}}};
  if (!before.empty()) j["shift"]["line"] = old.lines[s.largest_row];
  if (labelled) {
    j["auc"] = {{"old", finite(auc(before, old.labels))}, {"new", finite(auc(after, old.labels))}};
    j["logloss"] = {{"old", finite(log_loss(before, old.labels))},
                    {"new", finite(log_loss(after, old.labels))}};
  }
  if (!texts.request.empty()) {
    const OrderShift o = order_shift(before, after, texts.request);
    j["order"] = {{"requests", o.requests},
                  {"first_changed", o.first_changed},
                  {"pairs", o.pairs},
                  {"swapped", o.swapped}};
  }
  return j;
}

Json worst_json(const Side& old, const Side& next, const std::vector<size_t>& rows, const Texts& texts) {
  Json all = Json::array();
  for (const size_t r : rows) {
    Json heads = Json::object();
    for (size_t h = 0; h < old.heads.size(); ++h)
      heads[old.heads[h]] = {{"old", old.scores[h][r]}, {"new", next.scores[h][r]}};
    all.push_back(
        {{"line", old.lines[r]}, {"scores", std::move(heads)}, {"cells", texts.cells.at(old.lines[r])}});
  }
  return all;
}

Json side_json(const Side& s, const std::vector<std::string>& alone) {
  return {{"file", s.file}, {"model", s.model}, {"device", s.device}, {"heads_alone", alone}};
}

/// The head that a label belongs to.
size_t labelled_head(const DiffArgs& args, const Side& old) {
  if (args.head.empty()) return 0;
  const auto at = std::find(old.heads.begin(), old.heads.end(), args.head);
  if (at == old.heads.end())
    throw CommandError(kExitUsage, "--head '" + args.head + "': both models have " + joined(old.heads));
  return static_cast<size_t>(at - old.heads.begin());
}

std::string shown_number(const Json& j) {
  if (j.is_null()) return "none";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", j.get<double>());
  return text;
}

std::string before_after(const Json& j) {
  return shown_number(j["old"]) + " before, " + shown_number(j["new"]) + " after";
}

void print_head(const Json& j, const std::string& rows) {
  const auto line = [](const char* key, const std::string& text) {
    print_line(stdout, "  %-9s %s", key, text.c_str());
  };
  print_line(stdout, "head %s", in_quotes(j["name"].get<std::string>()).c_str());
  line("mean", shown_number(j["mean_old"]) + " before, " + shown_number(j["mean_new"]) + " after");
  const Json& s = j["shift"];
  line("shift", "mean " + shown_number(s["mean"]) + ", median " + shown_number(s["median"]) + ", p99 " +
                    shown_number(s["p99"]) + ", largest " + shown_number(s["largest"]) +
                    (s.contains("line") ? " (" + rows + ":" + s["line"].dump() + ")" : ""));
  if (j.contains("auc")) line("AUC", before_after(j["auc"]));
  if (j.contains("logloss")) line("log loss", before_after(j["logloss"]));
  if (!j.contains("order")) return;
  const Json& o = j["order"];
  line("order", count_text(o["swapped"]) + " of " + count_text(o["pairs"]) +
                    " pairs changed places, the first row in " + count_text(o["first_changed"]) + " of " +
                    count_text(o["requests"]) + " requests with two rows or more");
}

void print_worst(const Json& w, const std::string& rows) {
  std::string text = rows + ":" + w["line"].dump();
  for (const auto& [head, s] : w["scores"].items())
    text += "  " + head + " " + shown_number(s["old"]) + " -> " + shown_number(s["new"]);
  for (const auto& [name, cell] : w["cells"].items()) text += "  " + name + "=" + cell.get<std::string>();
  print_line(stdout, "  %s", text.c_str());
}

void print(const Json& j, const std::string& rows) {
  for (const char* which : {"old", "new"}) {
    const Json& side = j[which];
    print_line(stdout, "%s  %s: %s on %s", which, side["file"].get<std::string>().c_str(),
               side["model"].get<std::string>().c_str(), side["device"].get<std::string>().c_str());
    for (const Json& head : side["heads_alone"])
      print_line(stdout, "     head %s is not in the other model",
                 in_quotes(head.get<std::string>()).c_str());
  }
  print_line(stdout, "rows %s", count_text(j["rows"]).c_str());
  for (const Json& head : j["heads"]) print_head(head, rows);
  if (j["worst"].empty()) return;
  print_line(stdout, "largest shifts");
  for (const Json& w : j["worst"]) print_worst(w, rows);
}

/// Nothing: no score moved by more than allowed.
std::string over_limit(const DiffArgs& args, const Json& heads) {
  for (const Json& head : heads) {
    const Json& s = head["shift"];
    if (!args.limited() || s["largest"].is_null() || s["largest"].get<double>() <= args.limit) continue;
    return args.rows + ":" + s["line"].dump() + ": head '" + head["name"].get<std::string>() +
           "' shifted by " + shown_number(s["largest"]) + ", --limit is " + shown_number(args.limit);
  }
  return "";
}

}  // namespace

int diff(const DiffArgs& args) {
  std::error_code ignored;  // whoever opens it says what is wrong
  if (args.rows == "-" || std::filesystem::is_fifo(args.rows, ignored))
    throw CommandError(kExitUsage, args.rows + ": no regular file, and the rows are read three times");
  Side old = score_all(args, args.old);
  Side next = score_all(args, args.next);
  if (old.lines != next.lines) rows_changed(args);
  const auto only_old = keep_common(&old, next), only_new = keep_common(&next, old);
  if (old.heads.empty())
    throw CommandError(kExitUsage, "the models have no head of the same name: " + joined(only_old) + "; " +
                                       joined(only_new));
  order_like(&next, old);
  const size_t labelled = labelled_head(args, old);
  const std::vector<size_t> worst = worst_rows(old.scores, next.scores, static_cast<size_t>(args.worst));
  const Texts texts = TextReader(args, old, next).read(worst);
  Json j = {
      {"old", side_json(old, only_old)}, {"new", side_json(next, only_new)}, {"rows", old.lines.size()}};
  j["heads"] = Json::array();
  for (size_t h = 0; h < old.heads.size(); ++h)
    j["heads"].push_back(head_json(old, next, h, texts, !args.label.empty() && h == labelled));
  j["worst"] = worst_json(old, next, worst, texts);
  const std::string over = over_limit(args, j["heads"]);
  if (args.limited()) j["within_limit"] = over.empty();
  if (args.json) {
    print_json(stdout, j);
  } else {
    print(j, args.rows);
  }
  if (!over.empty()) throw CommandError(kExitVerifyFailed, over);
  return kExitOk;
}

}  // namespace dpi::tool
