// gpu_tiers [JOBS.jsonl]: where the rows of an embedding lookup may lie, timed: from row numbers in pinned
// host memory to one block of rows in device memory that the caller may read. One job a line (standard input
// without a file), one result a line, flushed. Used by stages/c1_tiers.py. gpu_tiers_emu is the same program
// on the emulated device, where times mean nothing.
//
// A job: {"way", "tables": rows of each, "dim", "ids", "sets", "batch", "budget"?, "shares"?, "warm",
// "calls", "seconds", "labels": {}}. Ways: `resident` (all rows in device memory), `cached` (copies of the
// hottest rows in `budget` bytes of it, the others read in host memory by the same launch), `mapped` (all in
// host memory), `uvm` (pages that the driver moves into what is left of the device: `budget` bytes), `peers`
// (one range over `shares` allocations), `chain` (HPS-like: unique, query, missing rows brought by the host,
// insertion, expansion, table after table; caches of `budget` bytes, which begin with the hottest rows).
// `ids` is a file of int64 [sets, batch, tables], ids by falling frequency. The first `warm` sets are not
// timed; each of the others is asked for once, so that a cache that learns meets new rows.
//
// Every way's rows are compared bit for bit with what they are known to be: of two sets before anything is
// timed, and of the last one after. A result: the labels and "status": ok or wrong (not timed), or failed.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/gpu/tools/tiers.hpp"
#include "tests/gpu/tools/tiers_rows.hpp"

namespace dpi::gpu {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr size_t kLeastCalls = 5;

double percentile(std::vector<double> us, double p) {
  std::sort(us.begin(), us.end());
  return us[static_cast<size_t>(p * static_cast<double>(us.size() - 1) + 0.5)];
}

/// Tables and ids stay while jobs ask for the same ones.
class World {
 public:
  const Tables& tables(const json& job) {
    const std::string key = job.at("tables").dump() + job.at("dim").dump();
    if (key != tables_key_) {
      ids_.reset();
      ids_key_.clear();
      tables_.reset();
      tables_ = std::make_unique<Tables>(job.at("tables").get<std::vector<int64_t>>(),
                                         job.at("dim").get<int32_t>());
      tables_key_ = key;
    }
    return *tables_;
  }
  const Ids& ids(const json& job) {
    const Tables& of = tables(job);
    const std::string key = job.at("ids").dump() + job.at("sets").dump() + job.at("batch").dump();
    if (key != ids_key_) {
      ids_.reset();
      ids_ = std::make_unique<Ids>(job.at("ids").get<std::string>(), job.at("sets").get<int64_t>(),
                                   job.at("batch").get<int64_t>(), of);
      ids_key_ = key;
    }
    return *ids_;
  }

 private:
  std::string tables_key_, ids_key_;
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<Ids> ids_;
};

/// Rows of a set that differ from what they should be.
int64_t wrong_rows(Way& way, const Tables& tables, const Ids& ids, int64_t set) {
  const std::vector<float> got = way.read();
  int64_t wrong = 0;
  for (int64_t b = 0; b < ids.batch; ++b) {
    for (int32_t f = 0; f < ids.fields; ++f) {
      const int64_t row = ids.of(set, f)[b];
      const float* const at = got.data() + b * way.columns() + int64_t{f} * tables.dim;
      const bool copied = way.copied(row);
      bool same = true;
      for (int32_t v = 0; v < tables.dim; ++v) {
        const float want = copied ? -element(row, v) : element(row, v);
        same = same && std::memcmp(at + v, &want, sizeof want) == 0;
      }
      wrong += same ? 0 : 1;
    }
  }
  return wrong;
}

int64_t checked(Way* way, const Tables& tables, const Ids& ids, int64_t set) {
  way->clear();
  way->run(set);
  return wrong_rows(*way, tables, ids, set);
}

struct Times {
  std::vector<double> us, device_us, hits;
};

/// Each of the sets from `warm` on once, until the time is up.
Times measure(Way* way, const Ids& ids, int64_t warm, int64_t calls, double seconds) {
  Times t;
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (int64_t set = 0; set < warm && passed() < seconds; ++set) way->run(set);
  const double until = passed() + seconds;
  for (int64_t set = warm; set < std::min(ids.sets, warm + calls); ++set) {
    const auto start = Clock::now();
    way->run(set);
    t.us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    t.device_us.push_back(way->device_us());
    t.hits.push_back(way->hits(set));
    if (t.us.size() >= kLeastCalls && passed() > until) break;
  }
  return t;
}

void report(const Times& t, const Ids& ids, json* out) {
  double sum = 0, hits = 0;
  for (size_t i = 0; i < t.us.size(); ++i) {
    sum += t.us[i];
    hits += t.hits[i];
  }
  const auto n = static_cast<double>(t.us.size());
  (*out)["p50_us"] = percentile(t.us, 0.5);
  (*out)["p95_us"] = percentile(t.us, 0.95);
  (*out)["p99_us"] = percentile(t.us, 0.99);
  (*out)["calls"] = t.us.size();
  (*out)["rows_per_s"] = n * static_cast<double>(ids.batch) / (sum * 1e-6);
  if (t.device_us[0] >= 0) (*out)["device_us"] = percentile(t.device_us, 0.5);
  if (hits >= 0) (*out)["hit_rate"] = hits / n;
}

json run(const json& job, const Device& device, World* world) {
  const Tables& tables = world->tables(job);
  const Ids& ids = world->ids(job);
  const int64_t warm = job.at("warm");
  if (ids.sets < warm + 1 || ids.sets < 2) throw std::invalid_argument("too few sets");
  const auto way =
      make_way({job.at("way"), job.value("budget", int64_t{0}), job.value("shares", 4)}, device, tables, ids);
  json out = {{"status", "ok"}};
  int64_t wrong = checked(way.get(), tables, ids, 0) + checked(way.get(), tables, ids, 1);
  if (wrong == 0) {
    const Times t = measure(way.get(), ids, warm, job.at("calls"), job.at("seconds"));
    report(t, ids, &out);
    wrong = checked(way.get(), tables, ids, ids.sets - 1);
  }
  if (wrong > 0) out = {{"status", "wrong"}, {"wrong_rows", wrong}};
  return out;
}

}  // namespace
}  // namespace dpi::gpu

int main(int argc, char** argv) {
  std::ifstream file;
  if (argc > 1) file.open(argv[1]);
  std::istream& in = argc > 1 ? file : std::cin;
  if (!in) {
    std::fprintf(stderr, "gpu_tiers: %s cannot be read\n", argv[1]);
    return 2;
  }
  try {
    const dpi::gpu::Device device;
    dpi::gpu::World world;
    for (std::string line; std::getline(in, line);) {
      nlohmann::json labels = nlohmann::json::object(), result;
      try {
        const nlohmann::json job = nlohmann::json::parse(line);
        labels = job.value("labels", labels);
        result = dpi::gpu::run(job, device, &world);
      } catch (const std::exception& e) {
        result = {{"status", "failed"}, {"error", std::string("gpu_tiers: ") + e.what()}};
      }
      labels.update(result);
      std::printf("%s\n", labels.dump().c_str());
      std::fflush(stdout);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_tiers: %s\n", e.what());
    return 1;
  }
  return 0;
}
