#include "sdk/tools/dpi/commands/tier_rates.hpp"

#include <cstdint>
#include <cstdio>
#include <utility>

#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

struct TierCounts {
  uint64_t lookups = 0, hits = 0, sampled = 0, device_hits = 0;
};

uint64_t between(const nlohmann::json& before, const nlohmann::json& after, const char* key) {
  return after[key].get<uint64_t>() - before[key].get<uint64_t>();
}

TierCounts counted(const nlohmann::json& before, const nlohmann::json& after) {
  TierCounts c;
  for (const char* key : {"hits", "late", "absent", "defaulted"}) c.lookups += between(before, after, key);
  c.hits = between(before, after, "hits");
  c.sampled = between(before, after, "device_sampled");
  c.device_hits = between(before, after, "device_hits");
  return c;
}

Json rate(uint64_t part, uint64_t all) {
  return all == 0 ? Json() : Json(static_cast<double>(part) / static_cast<double>(all));
}

void add_rates(const TierCounts& c, Json* to) {
  (*to)["lookups"] = c.lookups;
  (*to)["host_hit_rate"] = rate(c.hits, c.lookups);
  (*to)["device_sampled"] = c.sampled;
  (*to)["device_hit_rate"] = rate(c.device_hits, c.sampled);
}

std::string percent(const Json& rate) {
  return rate.is_null() ? std::string("-") : number_text(rate.get<double>() * 100, 1) + " %";
}

}  // namespace

bool has_tiers(const nlohmann::json& counters) {
  return counters.contains("tiers") && !counters["tiers"].empty();
}

Json tier_rates(const nlohmann::json& before, const nlohmann::json& after) {
  Json tables = Json::array();
  TierCounts all;
  for (size_t i = 0; i < after["tiers"].size(); ++i) {
    const TierCounts c = counted(before["tiers"][i], after["tiers"][i]);
    Json table = {{"name", after["tiers"][i]["name"]}};
    add_rates(c, &table);
    tables.push_back(std::move(table));
    all.lookups += c.lookups, all.hits += c.hits;
    all.sampled += c.sampled, all.device_hits += c.device_hits;
  }
  Json j;
  add_rates(all, &j);
  j["tables"] = std::move(tables);
  return j;
}

std::string rate_columns(const Json& rates) {
  char text[64];
  std::snprintf(text, sizeof text, " %9s %8s", percent(rates["host_hit_rate"]).c_str(),
                percent(rates["device_hit_rate"]).c_str());
  return text;
}

void print_tier_rates(const Json& rates) {
  print_lines(stdout, "\n");
  print_line(stdout, "%-24s %14s %9s %8s", "table in the host tier", "lookups", "host tier", "GPU");
  for (const Json& t : rates["tables"])
    print_line(stdout, "%-24s %14s %9s %8s", t["name"].get<std::string>().c_str(),
               count_text(t["lookups"].get<double>()).c_str(), percent(t["host_hit_rate"]).c_str(),
               percent(t["device_hit_rate"]).c_str());
}

}  // namespace dpi::tool
