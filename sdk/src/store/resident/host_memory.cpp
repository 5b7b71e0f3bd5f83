#include "store/resident/host_memory.hpp"

#include <string>

namespace dpi {

namespace {

std::string mib(uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

}  // namespace

Status check_table_budget(uint64_t bytes, uint64_t limit, uint64_t available, bool on_host) {
  const uint64_t budget = limit != 0 ? limit : available;
  if (budget == 0 || bytes <= budget) return {};
  return {Code::kOutOfMemory, "the tables need " + mib(bytes) + ", but " +
                                  (limit != 0 ? "option memory_limit allows " : "there is only ") +
                                  mib(budget) + " of " + (on_host ? "host" : "device") +
                                  " memory; nothing was loaded"};
}

}  // namespace dpi
