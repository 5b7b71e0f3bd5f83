#include "sdk/tools/dpi/commands/read_rates.hpp"

#include <cmath>
#include <cstdint>
#include <string>

#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kLoad = 0.5;       // of the threads that are asked for
constexpr double kNearlyAll = 0.9;  // of the threads there are

double number_of(const nlohmann::json& options, const char* key) {
  const nlohmann::json& v = options.at(key);
  return v.is_string() ? std::stod(v.get<std::string>()) : v.get<double>();
}

}  // namespace

Json read_rates(const nlohmann::json& before, const nlohmann::json& after, double seconds,
                const nlohmann::json& info) {
  uint64_t reads = 0, us = 0, rows = 0;
  for (size_t i = 0; i < after["tiers"].size(); ++i) {
    const auto rise = [&](const char* key) {
      return after["tiers"][i][key].get<uint64_t>() - before["tiers"][i][key].get<uint64_t>();
    };
    reads += rise("reads"), us += rise("read_us");
    rows += rise("fetched") + rise("missing") + rise("failed");
  }
  if (reads == 0 || !(seconds > 0)) return {};
  const nlohmann::json& options = info["options"];
  const double threads = number_of(options, "store.fetch_threads");
  const double busy = static_cast<double>(us) * 1e-6 / seconds;  // Little's law: rate times time of one
  Json j;
  j["reads"] = reads;
  j["rows_per_read"] = static_cast<double>(rows) / static_cast<double>(reads);
  j["read_us"] = static_cast<double>(us) / static_cast<double>(reads);
  j["reads_per_second"] = static_cast<double>(reads) / seconds;
  j["threads_busy"] = busy;
  j["fetch_threads"] = static_cast<int64_t>(threads);
  j["threads_needed"] = static_cast<int64_t>(std::ceil(busy / kLoad));
  j["limited"] = busy >= kNearlyAll * threads;
  j["fetch_queue"] = static_cast<int64_t>(number_of(options, "store.fetch_queue"));
  // Those that wait without a context, and those that hold one and are about to.
  const int64_t calls =
      info["memory"]["contexts"].get<int64_t>() + info["memory"]["parked_contexts"].get<int64_t>();
  j["waiting_calls"] = calls;
  j["queue_needed"] = calls * static_cast<int64_t>(after["tiers"].size());
  return j;
}

void print_read_rates(const Json& r) {
  const auto number = [&](const char* key, int decimals) {
    return number_text(r[key].get<double>(), decimals);
  };
  print_line(stdout, "reads into the host tier: %s per second of %s rows, %s each: %s threads busy",
             number("reads_per_second", 1).c_str(), number("rows_per_read", 1).c_str(),
             seconds_text(r["read_us"].get<double>() * 1e-6).c_str(), number("threads_busy", 2).c_str());
  print_line(stdout, "  store.fetch_threads=%s: %s", r["fetch_threads"].dump().c_str(),
             r["limited"].get<bool>()
                 ? "all were busy, and callers waited for them; measure again with more"
                 : ("these reads need " + r["threads_needed"].dump() + " at a load of 0.5").c_str());
  print_line(stdout, "  store.fetch_queue=%s: up to %s calls wait at once, which need %s",
             r["fetch_queue"].dump().c_str(), r["waiting_calls"].dump().c_str(),
             r["queue_needed"].dump().c_str());
}

}  // namespace dpi::tool
