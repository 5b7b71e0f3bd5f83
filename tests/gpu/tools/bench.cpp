// gpu_bench [JOBS.jsonl]: latencies of dpi_predict over the C API, from rows in pageable host memory to
// scores in host memory. One job a line (standard input without a file), one result a line, flushed. Used by
// stages/b1_end_to_end.py and others.
//
// A job: {"bundle", "ids", "dense"?, "batch", "sets", "options": {}, "calls", "seconds", "callers"?,
// "reference"?, "compare_with"?, "tolerance", "labels": {}}. `ids` is a file of int64 [sets, batch, slots],
// `dense` one of float32 [sets, batch, columns]; calls rotate through the sets. `calls` is how many timed
// calls are wanted, `seconds` when to stop (after 20 calls at least). Outputs are compared before anything is
// timed, |ours - want| <= tolerance (1 + |want|), with `reference`, a file of float32 logits [sets, batch],
// or with what the same bundle computes under the options `compare_with`. `info`: true adds what runs.
//
// For caches that learn, where a row that was asked for is another thing than one that was not: "check":
// {"ids", "dense"?, "sets", "batch"}, rows that are compared instead, before and after; "warm", the same
// form, rows that are asked for over and over for `warm_seconds` before the timed ones; `once`: no caller
// asks for a set that was asked for. `by_set`: true adds each set's median, where a tail may come from the
// rows. Of tables with copies of rows on the device the result has "hit_rate",
// of the timed calls' lookups. A result: the job's labels and "status": ok, wrong (not timed), unsupported,
// failed.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "client.hpp"

namespace dpi::gpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kLeastCalls = 20;
constexpr int kWarmUpRounds = 4;

template <class T>
std::vector<T> read_file(const std::string& path, size_t want) {
  std::vector<T> values(want);
  std::ifstream f(path, std::ios::binary);
  if (!f.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(want * sizeof(T))))
    throw std::runtime_error(path + ": expected " + std::to_string(want * sizeof(T)) + " bytes");
  return values;
}

/// The rows of a job and where the scores go. ids: [sets, batch, slots], dense: [sets, batch, columns].
struct Rows {
  size_t sets = 1, batch = 1, slots = 0, columns = 0, heads = 1;
  std::vector<int64_t> ids;
  std::vector<float> dense;

  Rows(const json& job, const dpi_model* model) {
    const dpi_model_info info = info_of(model);
    sets = job.at("sets");
    batch = job.at("batch");
    slots = static_cast<size_t>(info.num_slots);
    columns = static_cast<size_t>(info.dense_dim);
    heads = static_cast<size_t>(info.num_heads);
    if (slots > 0) ids = read_file<int64_t>(job.at("ids"), sets * batch * slots);
    if (columns > 0) dense = read_file<float>(job.at("dense"), sets * batch * columns);
  }

  dpi_batch of(size_t set) const {
    dpi_batch b{};
    b.struct_size = sizeof b;
    b.rows = static_cast<int64_t>(batch);
    b.ids = slots > 0 ? ids.data() + set * batch * slots : nullptr;
    b.nnz = static_cast<int64_t>(batch * slots);
    b.dense = columns > 0 ? dense.data() + set * batch * columns : nullptr;
    return b;
  }
};

/// Logits of the first head, [sets, batch]; empty with *error filled when a call fails.
std::vector<float> all_logits(dpi_model* model, const Rows& rows, Error* error) {
  std::vector<float> scores(rows.batch * rows.heads), logits(scores.size()), all;
  for (size_t set = 0; set < rows.sets; ++set) {
    const dpi_batch b = rows.of(set);
    dpi_run_options run{};
    run.struct_size = sizeof run;
    std::fill(logits.begin(), logits.end(), NAN);
    run.logits = logits.data();
    run.logits_len = logits.size();
    if (dpi_predict(model, &b, scores.data(), scores.size(), &run, error) != DPI_OK) return {};
    for (size_t i = 0; i < rows.batch; ++i) all.push_back(logits[i * rows.heads]);
  }
  return all;
}

/// What the job's outputs are compared with; empty = nothing, or *error says why not.
std::vector<float> wanted_logits(const json& job, const Rows& rows, Error* error) {
  if (job.contains("reference")) return read_file<float>(job.at("reference"), rows.sets * rows.batch);
  if (!job.contains("compare_with")) return {};
  const ModelPtr model = load(job.at("bundle"), job.at("compare_with").get<Options>(), error);
  return model ? all_logits(model.get(), rows, error) : std::vector<float>();
}

/// The largest |got - want| / (1 + |want|); NaN if any value is.
double worst_error(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double e = std::fabs(static_cast<double>(got[i]) - want[i]) / (1 + std::fabs(want[i]));
    if (std::isnan(e)) return e;
    worst = std::max(worst, e);
  }
  return worst;
}

double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

struct Caller {
  std::vector<double> us;
  Error error;
  bool failed = false;
};

/// The share of the lookups sampled since `before` that found their row on the device; null where none was.
json hit_rate(const json& before, const json& after) {
  int64_t all = 0, found = 0;
  const auto add = [&](const json& counters, int64_t sign) {
    for (const json& t : counters.value("tiers", json::array())) {
      all += sign * t.value("device_sampled", int64_t{0});
      found += sign * t.value("device_hits", int64_t{0});
    }
  };
  add(before, -1);
  add(after, 1);
  return all > 0 ? json(static_cast<double>(found) / static_cast<double>(all)) : json();
}

void call(dpi_model* model, const Rows& rows, size_t calls, double seconds, size_t first, Caller* me) {
  std::vector<float> scores(rows.batch * rows.heads);
  me->us.reserve(std::min<size_t>(calls, 1 << 20));
  const auto begin = Clock::now();
  for (size_t i = 0; i < calls; ++i) {
    const dpi_batch b = rows.of((first + i) % rows.sets);
    const auto start = Clock::now();
    const dpi_status status = dpi_predict(model, &b, scores.data(), scores.size(), nullptr, &me->error);
    const auto end = Clock::now();
    if (status != DPI_OK) {
      me->failed = true;
      return;
    }
    me->us.push_back(std::chrono::duration<double, std::micro>(end - start).count());
    if (me->us.size() >= kLeastCalls && std::chrono::duration<double>(end - begin).count() > seconds) return;
  }
}

/// Callers that ask at once, each beginning `apart` sets behind the one before.
void ask(dpi_model* model, const Rows& rows, size_t calls, double seconds, size_t apart,
         std::vector<Caller>* all) {
  std::vector<std::thread> threads;
  for (size_t c = 1; c < all->size(); ++c)
    threads.emplace_back(call, model, std::cref(rows), calls, seconds, apart * c, &(*all)[c]);
  call(model, rows, calls, seconds, 0, &(*all)[0]);
  for (std::thread& t : threads) t.join();
}

/// Medians of the calls that asked for each of `sets` sets in turn, of one caller.
json medians_by_set(const std::vector<double>& us, size_t sets) {
  json medians = json::array();
  for (size_t s = 0; s < sets && s < us.size(); ++s) {
    std::vector<double> of;
    for (size_t i = s; i < us.size(); i += sets) of.push_back(us[i]);
    std::sort(of.begin(), of.end());
    medians.push_back(percentile(of, 0.5));
  }
  return medians;
}

void measure(dpi_model* model, const Rows& rows, const json& job, json* out) {
  const size_t callers = job.value("callers", 1), share = rows.sets / callers;
  const bool once = job.value("once", false);
  if (once && share == 0) throw std::runtime_error("fewer sets than callers");
  const size_t wanted = job.at("calls"), calls = once ? std::min(wanted, share) : wanted;
  const size_t apart = once ? share : 3;
  std::vector<Caller> all(callers);
  if (job.contains("warm")) {
    const Rows warm(job.at("warm"), model);
    ask(model, warm, SIZE_MAX, job.at("warm_seconds"), warm.sets / callers + 1, &all);
  } else {
    ask(model, rows, kWarmUpRounds * rows.sets, 0.1, apart, &all);
  }
  for (Caller& c : all) c.us.clear();
  const json before = text_of(dpi_model_counters_json, model);
  const auto begin = Clock::now();
  ask(model, rows, calls, job.at("seconds"), apart, &all);
  const double elapsed = seconds_since(begin);
  const json found = hit_rate(before, text_of(dpi_model_counters_json, model));
  if (!found.is_null()) (*out)["hit_rate"] = found;
  std::vector<double> us;
  for (const Caller& c : all) {
    if (c.failed) {
      *out = {{"status", c.error.status()}, {"error", c.error.message}};
      return;
    }
    us.insert(us.end(), c.us.begin(), c.us.end());
  }
  if (job.value("by_set", false)) (*out)["p50_by_set"] = medians_by_set(all[0].us, rows.sets);
  std::sort(us.begin(), us.end());
  (*out)["p50_us"] = percentile(us, 0.5);
  (*out)["p95_us"] = percentile(us, 0.95);
  (*out)["p99_us"] = percentile(us, 0.99);
  (*out)["min_us"] = us.front();
  (*out)["mean_us"] = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  (*out)["calls"] = us.size();
  (*out)["rows_per_s"] = static_cast<double>(us.size() * rows.batch) / elapsed;
}

/// Models stay loaded while jobs name the same bundle and options.
class Loaded {
 public:
  dpi_model* get(const json& job, json* out) {
    const std::string key = job.at("bundle").dump() + job.at("options").dump();
    if (key == key_ && model_) return model_.get();
    model_.reset();
    key_ = key;
    Error error;
    const auto begin = Clock::now();
    model_ = load(job.at("bundle"), job.at("options").get<Options>(), &error);
    if (!model_) *out = {{"status", error.status()}, {"error", error.message}};
    (*out)["load_ms"] = seconds_since(begin) * 1e3;
    return model_.get();
  }

 private:
  std::string key_;
  ModelPtr model_;
};

/// Of a model's info what says how it runs: graphs, the small-batch kernel, the implementation of each op.
json chosen(const json& info) {
  json out = {{"graphs", info.value("graphs", json())}, {"small_batch", info.value("small_batch", json())}};
  const json plan = info.value("plan", json::object());
  for (const json& op : plan.value("ops", json::array()))
    out["ops"].push_back(op.value("name", "") + ": " + op.value("implementation", "").substr(0, 120));
  return out;
}

json run(const json& job, Loaded* loaded) {
  json out = {{"status", "ok"}};
  dpi_model* model = loaded->get(job, &out);
  if (model == nullptr) return out;
  const Rows rows(job, model);
  if (job.value("info", false)) out["chosen"] = chosen(text_of(dpi_model_info_json, model));
  out["device_bytes"] = info_of(model).device_bytes;
  const Rows checked(job.contains("check") ? job.at("check") : job, model);
  Error error;
  const std::vector<float> want = wanted_logits(job, checked, &error);
  const auto compare = [&] {
    if (want.empty()) return;
    const std::vector<float> got = all_logits(model, checked, &error);
    const double worst = got.size() == want.size() ? worst_error(got, want) : NAN;
    out["worst"] = std::isnan(worst) ? json("NaN") : json(worst);
    if (!(worst <= job.at("tolerance").get<double>())) out["status"] = "wrong";
  };
  compare();
  if (error.code == DPI_OK && out["status"] == "ok") {
    measure(model, rows, job, &out);
    if (job.contains("check") && out["status"] == "ok") compare();
  }
  if (error.code != DPI_OK) return {{"status", error.status()}, {"error", error.message}};
  return out;
}

}  // namespace
}  // namespace dpi::gpu

int main(int argc, char** argv) {
  std::ifstream file;
  if (argc > 1) file.open(argv[1]);
  std::istream& in = argc > 1 ? file : std::cin;
  if (!in) {
    std::fprintf(stderr, "gpu_bench: %s cannot be read\n", argv[1]);
    return 2;
  }
  dpi::gpu::Loaded loaded;
  for (std::string line; std::getline(in, line);) {
    nlohmann::json result;
    nlohmann::json labels = nlohmann::json::object();
    try {
      const nlohmann::json job = nlohmann::json::parse(line);
      labels = job.value("labels", labels);
      result = dpi::gpu::run(job, &loaded);
    } catch (const std::exception& e) {
      result = {{"status", "failed"}, {"error", std::string("gpu_bench: ") + e.what()}};
    }
    labels.update(result);
    std::printf("%s\n", labels.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}
