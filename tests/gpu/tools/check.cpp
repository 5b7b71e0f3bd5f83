// gpu_check [JOBS.jsonl]: a device against a reference, over the C API. One job a line (standard input
// without a file), one result a line. Used by stages/a2_correctness.py and a3_sanitizer.py.
//
// A job: {"bundle", "rows": [1, 33], "reference": {options}, "reference_bundle"?, "variants": [{"name",
// "options", "tolerance", "required"?}], "seconds"?, "labels"}. For every variant and row count: scores and
// logits within tolerance (1 + |reference|), NaN only where the reference has NaN; of a reference that fp16
// does not hold only the sign, in fp16. Two batches of each row
// count are asked three times in turn and must give the same bits each time: with graphs the first call runs
// op by op, the second, which has the other rows, is recorded, and all others are replays of that and nothing
// else. seconds > 0 adds four threads that call at once for so long, each expecting its own bits. A result:
// labels, variant, "status": ok, wrong, unstable, unsupported, failed; the largest error and where it was.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <thread>

#include "check_rows.hpp"

namespace dpi::gpu {
namespace {

constexpr int kThreads = 4;
constexpr int kBatches = 2;  // of each row count
constexpr int kCalls = 3;    // of each batch

/// Scores and logits of one call, [rows, heads] each, poisoned before it.
struct Answer {
  std::vector<float> scores, logits;
};

bool ask(dpi_model* model, const CheckRows& rows, Answer* out, Error* error) {
  const size_t n = static_cast<size_t>(rows.rows()) * rows.heads();
  out->scores.assign(n, std::numeric_limits<float>::quiet_NaN());
  out->logits.assign(n, -12345.0f);
  dpi_run_options run{};
  run.struct_size = sizeof run;
  run.logits = out->logits.data();
  run.logits_len = n;
  const dpi_batch batch = rows.batch();
  return dpi_predict(model, &batch, out->scores.data(), n, &run, error) == DPI_OK;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

struct Worst {
  double error = 0;
  int64_t at = -1;
  bool nan = false;
};

/// What |reference| may be for a value of the precision to come near it: -1e9 of an empty bag is -65504 in
/// fp16.
double most_held(const json& variant) {
  return variant.at("options").value("precision", "fp32") == "fp16" ? 65504 : HUGE_VAL;
}

/// Beyond `most` only the sign counts, and that the score is 0 or 1 either way.
void compare(const std::vector<float>& got, const std::vector<float>& want, double most, Worst* worst) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    const double w = want[i];
    if (std::fabs(w) > most && std::isfinite(got[i]) && std::fabs(got[i]) > 100 &&
        std::signbit(got[i]) == std::signbit(w))
      continue;
    const double e = std::fabs(got[i] - w) / (1 + std::fabs(w));
    if (std::isnan(e)) worst->nan = true;
    if (std::isnan(e) || e > worst->error) worst->at = static_cast<int64_t>(i);
    if (e > worst->error) worst->error = e;
  }
}

/// Rows of the job with the reference's answer.
struct Asked {
  CheckRows rows;
  Answer want;
};

/// Two batches of as many rows.
using Case = std::vector<Asked>;

/// Four threads on one model; each has rows of its own and must see the same bits at every call.
json concurrent(dpi_model* model, double seconds) {
  std::atomic<int64_t> calls{0}, differing{0}, failing{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const CheckRows rows(model, 17 + 24 * t, 100 + static_cast<uint64_t>(t));
      Answer first, again;
      Error error;
      if (!ask(model, rows, &first, &error)) {
        ++failing;
        return;
      }
      const auto begin = std::chrono::steady_clock::now();
      do {
        if (!ask(model, rows, &again, &error)) ++failing;
        if (!same_bits(again.scores, first.scores)) ++differing;
        ++calls;
      } while (seconds_since(begin) < seconds);
    });
  }
  for (std::thread& t : threads) t.join();
  return {{"calls", calls.load()}, {"differing", differing.load()}, {"failing", failing.load()}};
}

json refusal(const Error& error) { return {{"status", error.status()}, {"error", error.message}}; }

json check_variant(const json& job, const json& variant, const std::vector<Case>& cases) {
  Error error;
  const ModelPtr model = load(job.at("bundle"), variant.at("options").get<Options>(), &error);
  if (!model) return refusal(error);
  json out = {{"status", "ok"}};
  Worst worst;
  for (const Case& c : cases) {
    Answer first[kBatches], again;
    for (int call = 0; call < kBatches * kCalls; ++call) {
      const Asked& asked = c[static_cast<size_t>(call % kBatches)];
      const bool is_first = call < kBatches;
      Answer& answer = is_first ? first[call] : again;
      if (!ask(model.get(), asked.rows, &answer, &error)) return refusal(error);
      if (is_first) {
        const Worst before = worst;
        compare(answer.scores, asked.want.scores, most_held(variant), &worst);
        compare(answer.logits, asked.want.logits, most_held(variant), &worst);
        if (worst.error > before.error || worst.nan) out["worst_rows"] = asked.rows.rows();
      } else if (const Answer& was = first[call % kBatches];
                 !same_bits(was.scores, again.scores) || !same_bits(was.logits, again.logits)) {
        out["status"] = "unstable";
        out["unstable_rows"] = asked.rows.rows();
        out["unstable_call"] = call + 1;
      }
    }
  }
  out["worst"] = worst.nan ? json("NaN") : json(worst.error);
  if (worst.nan || !(worst.error <= variant.at("tolerance").get<double>())) {
    out["status"] = "wrong";
    out["worst_at"] = worst.at;
  }
  if (job.value("seconds", 0.0) > 0) {
    out["concurrent"] = concurrent(model.get(), job.at("seconds"));
    if (out["concurrent"]["differing"] != 0 || out["concurrent"]["failing"] != 0) out["status"] = "unstable";
  }
  return out;
}

void print(const json& labels, const json& result) {
  json line = labels;
  line.update(result);
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void run(const json& job) {
  const json labels = job.value("labels", json::object());
  Error error;
  const ModelPtr reference =
      load(job.value("reference_bundle", job.at("bundle")), job.at("reference").get<Options>(), &error);
  std::vector<Case> cases;
  uint64_t seed = 1;
  for (const int64_t rows : job.at("rows")) {
    if (!reference) break;
    Case& made = cases.emplace_back();
    for (int b = 0; b < kBatches && error.code == DPI_OK; ++b) {
      made.push_back({CheckRows(reference.get(), rows, seed++), {}});
      static_cast<void>(ask(reference.get(), made.back().rows, &made.back().want, &error));
    }
    if (error.code == DPI_OK) continue;
    cases.clear();
    break;
  }
  if (cases.empty()) {
    print(labels, {{"variant", "reference"}, {"status", "failed"}, {"error", error.message}});
    return;
  }
  for (const json& variant : job.at("variants")) {
    json result = check_variant(job, variant, cases);
    result["variant"] = variant.at("name");
    result["required"] = variant.value("required", true);
    print(labels, result);
  }
}

}  // namespace
}  // namespace dpi::gpu

int main(int argc, char** argv) {
  std::ifstream file;
  if (argc > 1) file.open(argv[1]);
  std::istream& in = argc > 1 ? file : std::cin;
  if (!in) {
    std::fprintf(stderr, "gpu_check: %s cannot be read\n", argv[1]);
    return 2;
  }
  for (std::string line; std::getline(in, line);) {
    nlohmann::json labels = nlohmann::json::object();
    try {
      const nlohmann::json job = nlohmann::json::parse(line);
      labels = job.value("labels", labels);
      dpi::gpu::run(job);
    } catch (const std::exception& e) {
      dpi::gpu::print(labels, {{"status", "failed"}, {"error", std::string("gpu_check: ") + e.what()}});
    }
  }
  return 0;
}
