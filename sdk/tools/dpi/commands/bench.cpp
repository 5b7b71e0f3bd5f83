// `dpi bench`: rows per second and latencies of dpi_predict over batch sizes and callers.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/counted.hpp"
#include "sdk/tools/dpi/commands/profile.hpp"
#include "sdk/tools/dpi/commands/read_rates.hpp"
#include "sdk/tools/dpi/commands/synthetic_rows.hpp"
#include "sdk/tools/dpi/commands/tier_rates.hpp"
#include "sdk/tools/dpi/shared/metrics.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kSeed = 20240601;
constexpr size_t kMaxSamples = size_t{1} << 20;
constexpr int kTurns = 4;  // of each form of a user's rows

struct Caller {
  std::vector<double> latencies;
  int64_t calls = 0;
  std::string failure;
};

using Pool = std::vector<const SyntheticRows*>;

template <class T>
Pool pool_of(const std::vector<T>& batches, const SyntheticRows T::* form) {
  Pool out;
  for (const T& b : batches) out.push_back(&(b.*form));
  return out;
}

Pool pool_of(const std::vector<SyntheticRows>& batches) {
  Pool out;
  for (const SyntheticRows& b : batches) out.push_back(&b);
  return out;
}

/// One caller: until `stop`, after a warm-up of at least one call; through the pool from batch `at` on.
void call_until(const LoadedModel& model, const Pool& pool, size_t at, const std::atomic<bool>& stop,
                std::atomic<int>* ready, Caller* me) {
  SyntheticRows rows = *pool[at];  // in the caller's own caches, as what a host has just put together
  std::vector<float> out(static_cast<size_t>(rows.rows()) * static_cast<size_t>(model.info().num_heads));
  me->latencies.reserve(kMaxSamples);
  dpi_error e{};
  e.struct_size = sizeof e;
  const auto score = [&] {
    const dpi_batch batch = rows.batch();
    return dpi_predict(model.get(), &batch, out.data(), out.size(), nullptr, &e);
  };
  dpi_status status = score();
  ready->fetch_add(1);
  while (status == DPI_OK && !stop.load(std::memory_order_relaxed)) {
    at = (at + 1) % pool.size();
    if (pool.size() > 1) rows = *pool[at];
    const uint64_t begin = monotonic_ns();
    status = score();
    if (me->latencies.size() < kMaxSamples)
      me->latencies.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-9);
    ++me->calls;
  }
  if (status != DPI_OK) me->failure = e.message;
}

Json measure(const LoadedModel& model, const Pool& pool, int n_callers, double seconds) {
  std::vector<Caller> callers(static_cast<size_t>(n_callers));
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  std::atomic<int> ready{0};
  const nlohmann::json before = model.counters();
  for (size_t i = 0; i < callers.size(); ++i)  // each begins elsewhere in the pool
    threads.emplace_back(call_until, std::cref(model), std::cref(pool), i * pool.size() / callers.size(),
                         std::cref(stop), &ready, &callers[i]);
  while (ready.load() < n_callers) std::this_thread::yield();
  const nlohmann::json warm = model.counters();
  const uint64_t begin = monotonic_ns();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& t : threads) t.join();
  const double elapsed = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  std::vector<double> all;
  int64_t calls = 0;
  for (const Caller& c : callers) {
    if (!c.failure.empty()) throw CommandError(kExitOther, "predict failed: " + c.failure);
    all.insert(all.end(), c.latencies.begin(), c.latencies.end());
    calls += c.calls;
  }
  const int64_t batch = pool.front()->rows();
  Json j;
  j["batch"] = batch;
  j["callers"] = n_callers;
  j["different_batches"] = pool.size();
  j["calls"] = calls;
  j["rows_per_second"] = static_cast<double>(calls * batch) / elapsed;
  const bool any = !all.empty();
  j["best_us"] = any ? Json(*std::min_element(all.begin(), all.end()) * 1e6) : Json();
  j["p50_us"] = any ? Json(percentile(&all, 0.5) * 1e6) : Json();
  j["p99_us"] = any ? Json(percentile(&all, 0.99) * 1e6) : Json();
  j["p999_us"] = any ? Json(percentile(&all, 0.999) * 1e6) : Json();
  const nlohmann::json after = model.counters();
  if (!has_tiers(after)) return j;
  j["tiers"] = tier_rates(before, after);
  j["fetches"] = read_rates(warm, after, elapsed, model.details());
  return j;
}

/// The turn with the fastest call: what else the machine does makes calls longer, never shorter.
void keep_faster(Json turn, Json* best) {
  if (best->is_null() || turn["best_us"] < (*best)["best_us"]) *best = std::move(turn);
}

/// Both forms of the rows, in turns.
Json measure_users(const LoadedModel& model, const std::vector<UserRows>& pool, int64_t users, int callers,
                   double seconds) {
  const int64_t batch = pool.front().shared.rows();
  Json shared, expanded;
  for (int turn = 0; turn < kTurns; ++turn) {
    keep_faster(measure(model, pool_of(pool, &UserRows::expanded), callers, seconds / kTurns), &expanded);
    keep_faster(measure(model, pool_of(pool, &UserRows::shared), callers, seconds / kTurns), &shared);
  }
  Json j = {{"batch", batch}, {"users", users}, {"callers", callers}};
  j["shared"] = std::move(shared);
  j["expanded"] = std::move(expanded);
  const bool any = !j["shared"]["best_us"].is_null() && !j["expanded"]["best_us"].is_null();
  if (any) j["faster"] = j["expanded"]["best_us"].get<double>() / j["shared"]["best_us"].get<double>();
  return j;
}

void print_users_header(const LoadedModel& model) {
  print_line(stdout, "%s on %s", model.schema().value("name", "").c_str(), model.device_text().c_str());
  print_line(stdout, "%8s %8s %8s %14s %12s %12s %8s %8s", "batch", "users", "callers", "rows/s", "best",
             "expanded", "faster", "counted");
}

void print_users_run(const Json& j) {
  const auto us = [&](const char* form) {
    return j[form]["best_us"].is_null() ? std::string("-")
                                        : seconds_text(j[form]["best_us"].get<double>() * 1e-6);
  };
  print_line(stdout, "%8s %8s %8s %14s %12s %12s %8s %8s", j["batch"].dump().c_str(),
             j["users"].dump().c_str(), j["callers"].dump().c_str(),
             count_text(j["shared"]["rows_per_second"]).c_str(), us("shared").c_str(), us("expanded").c_str(),
             !j.contains("faster") ? "-" : number_text(j["faster"], 2).c_str(),
             number_text(j["counted"], 2).c_str());
  std::fflush(stdout);
}

void bench_users(const BenchArgs& args, const LoadedModel& model, Json* result) {
  if (model.info().num_shared_slots + model.info().shared_dense_dim == 0)
    throw CommandError(kExitUsage, "--users: no feature of the model is shared");
  const CountedWork work = counted_work(args.bundle, args.common);
  if (!args.json) print_users_header(model);
  for (const int64_t batch : args.batches) {
    for (const int64_t users : args.users) {
      const std::vector<UserRows> pool = make_user_pool(model, batch, users, args.pool, kSeed);
      for (const int callers : args.callers) {
        Json run = measure_users(model, pool, users, callers, args.seconds);
        run["counted"] = work.speedup(batch, users);
        if (!args.json) print_users_run(run);
        (*result)["runs"].push_back(std::move(run));
      }
    }
  }
}

void print_header(const LoadedModel& model) {
  print_line(stdout, "%s on %s", model.schema().value("name", "").c_str(), model.device_text().c_str());
  const char* const hits = has_tiers(model.counters()) ? " host tier      GPU" : "";
  print_line(stdout, "%8s %8s %14s %12s %12s %12s%s", "batch", "callers", "rows/s", "p50", "p99", "p99.9",
             hits);
}

void print_run(const Json& j) {
  const auto us = [&](const char* key) {
    return j[key].is_null() ? std::string("-") : seconds_text(j[key].get<double>() * 1e-6);
  };
  print_line(stdout, "%8s %8s %14s %12s %12s %12s%s", j["batch"].dump().c_str(), j["callers"].dump().c_str(),
             count_text(j["rows_per_second"]).c_str(), us("p50_us").c_str(), us("p99_us").c_str(),
             us("p999_us").c_str(), j.contains("tiers") ? rate_columns(j["tiers"]).c_str() : "");
  if (j.contains("fetches") && !j["fetches"].is_null()) print_read_rates(j["fetches"]);
  std::fflush(stdout);
}

void print_profile(const Json& result) {
  const Json& call = result["profiled_call"];
  print_lines(stdout, "\n");
  print_line(stdout, "per op, batch %s, one caller: medians of %s calls, shares of the whole call",
             call["rows"].dump().c_str(), call["calls"].dump().c_str());
  for (const Json& op : result["profile"]) {
    print_line(stdout, "%10s %5.1f%%  %-14s %s  %s",
               seconds_text(op["us_per_call"].get<double>() * 1e-6).c_str(), op["share"].get<double>() * 100,
               op["kind"].get<std::string>().c_str(), op["op"].get<std::string>().c_str(),
               op["implementation"].get<std::string>().c_str());
  }
  print_line(
      stdout,
      "these ops explain %.1f %% of a call of %s; the rest is checking and packing rows, copies and waiting",
      call["explained"].get<double>() * 100, seconds_text(call["us_per_call"].get<double>() * 1e-6).c_str());
}

void bench_rows(const BenchArgs& args, const LoadedModel& model, Json* result) {
  if (!args.json) print_header(model);
  for (const int64_t batch : args.batches) {
    const std::vector<SyntheticRows> pool = make_pool(model, batch, args.pool, kSeed);
    for (const int callers : args.callers) {
      (*result)["runs"].push_back(measure(model, pool_of(pool), callers, args.seconds));
      if (!args.json) print_run((*result)["runs"].back());
    }
  }
}

/// The times of ops beside the whole call of which they are parts.
void add_profile(const BenchArgs& args, const LoadedModel& model, Json* result) {
  int64_t batch = args.batches.back();
  const int32_t kind = model.info().device_kind;
  if (kind != DPI_DEVICE_REF && kind != DPI_DEVICE_CPU) batch = std::min(batch, model.info().max_rows);
  std::vector<SyntheticRows> pool;
  if (args.users.empty()) {
    pool = make_pool(model, batch, args.pool, kSeed);
  } else {
    for (UserRows& r : make_user_pool(model, batch, args.users.back(), args.pool, kSeed))
      pool.push_back(std::move(r.shared));
  }
  Json profile = profile_ops(args.bundle, args.common, pool, args.seconds);
  (*result)["profile"] = std::move(profile["ops"]);
  (*result)["timeline"] = std::move(profile["timeline"]);
  for (const char* key : {"rows", "users", "calls", "us_per_call", "explained"})
    (*result)["profiled_call"][key] = profile[key];
}

/// One line per op in order of start, a bar where it ran.
void print_timeline(const Json& timeline) {
  constexpr double kWidth = 60;
  const double total = std::max(1e-9, timeline["total_us"].get<double>());
  print_lines(stdout, "\n");
  print_line(stdout,
             "timeline of one call: %.1f us, every stream started after %.1f us, two or more ran for %.1f us",
             total, timeline["all_streams_started_us"].get<double>(), timeline["overlap_us"].get<double>());
  const double origin = timeline["ops"].empty() ? 0 : timeline["ops"][0]["start_us"].get<double>();
  for (const Json& op : timeline["ops"]) {
    const double start = op["start_us"].get<double>() - origin, end = op["end_us"].get<double>() - origin;
    const int from = std::clamp(static_cast<int>(start / total * kWidth), 0, static_cast<int>(kWidth) - 1);
    const int to = std::clamp(static_cast<int>(end / total * kWidth), from + 1, static_cast<int>(kWidth));
    const std::string bar = std::string(from, ' ') + std::string(to - from, '=');
    print_line(stdout, "  stream %d |%-60s| %s", op["stream"].get<int>(), bar.c_str(),
               op["op"].get<std::string>().c_str());
  }
}

/// Warm-up measures which calls threads share.
void find_shares(const LoadedModel& model, const BenchArgs& args) {
  dpi_error e{};
  e.struct_size = sizeof e;
  if (dpi_model_warm_up(model.get(), *std::max_element(args.batches.begin(), args.batches.end()), &e) !=
      DPI_OK)
    throw CommandError(kExitOther, std::string("warm-up failed: ") + e.message);
}

}  // namespace

int bench(const BenchArgs& args) {
  const LoadedModel model(args.bundle, args.common);
  model.note_device();
  if (args.common.threads > 1) find_shares(model, args);
  Json result;
  result["model"] = model.schema().value("name", "");
  result["device"] = model.device_text();
  result["runs"] = Json::array();
  const nlohmann::json before = model.counters();
  if (args.users.empty()) {
    bench_rows(args, model, &result);
  } else {
    bench_users(args, model, &result);
  }
  if (const nlohmann::json after = model.counters(); has_tiers(after)) {
    result["tiers"] = tier_rates(before, after);
    if (!args.json) print_tier_rates(result["tiers"]);
  }
  if (args.profile) {
    add_profile(args, model, &result);
    if (!args.json) print_profile(result);
    if (!args.json && !result["timeline"].is_null()) print_timeline(result["timeline"]);
  }
  if (args.json) print_json(stdout, result);
  return kExitOk;
}

}  // namespace dpi::tool
