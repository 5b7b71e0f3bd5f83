#include "runtime/batch/settings.hpp"

#include <charconv>
#include <string>

namespace dpi {

namespace {

struct Number {
  const char* key;
  int64_t BatchSettings::* field;
  int64_t least, most;
};

constexpr Number kNumbers[] = {
    {"batch.max_rows", &BatchSettings::max_rows, 1, BatchSettings::kMostRows},
    {"batch.max_delay_us", &BatchSettings::max_delay_us, 0, 1000000},
    {"batch.running", &BatchSettings::running, 0, BatchSettings::kMostRunning},
    {"batch.queue", &BatchSettings::queue, 1, BatchSettings::kMostQueue},
    {"batch.threads", &BatchSettings::threads, 1, 64},
};

}  // namespace

Status set_batch_setting(BatchSettings* settings, std::string_view key, std::string_view value) {
  std::string known;
  for (const Number& n : kNumbers) {
    known += std::string(known.empty() ? "" : ", ") + n.key;
    if (key != n.key) continue;
    int64_t v = 0;
    const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), v);
    if (fault != std::errc() || end != value.data() + value.size() || v < n.least || v > n.most)
      return invalid_argument("option " + std::string(key) + " is '" + std::string(value) + "', expected " +
                              std::to_string(n.least) + " .. " + std::to_string(n.most));
    settings->*n.field = v;
    return {};
  }
  return {Code::kNotFound, "unknown option '" + std::string(key) + "' of a batcher; known: " + known};
}

}  // namespace dpi
