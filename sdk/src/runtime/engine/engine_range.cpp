// Options devices and store.peer_devices: whether they can be followed, and what is said of it.
#include <set>
#include <string>
#include <vector>

#include "runtime/engine/engine.hpp"
#include "runtime/options/device_list.hpp"

namespace dpi {

/// Whether the options that name several devices can be followed, and where tables lie then.
Status Engine::choose_range() {
  const bool several = options_.devices.size() > 1, spread = !options_.peer_devices.empty();
  if (!spread && options_.peer_copy_bytes > 0)
    return invalid_argument(
        "option 'store.peer_copy_bytes' copies rows that lie on other devices, and none do: set "
        "'store.peer_devices'");
  if (!several && !spread) return {};
  if (host_memory() || api().range_plan == nullptr)
    return unsupported("option " + std::string(several ? "devices" : "store.peer_devices") +
                       " names devices, but backend '" + api().name + "' has no memory of its own" +
                       (device_note().empty() ? "" : ": " + device_note()));
  if (several && options_.tiers.gpu_bytes > 0)
    return unsupported(
        "option devices names several devices, and copies of a host tier's rows (store.gpu_bytes) lie on "
        "one: "
        "leave store.gpu_bytes out, or load a model per device, each with device=cuda:N");
  if (!spread) return {};
  range_.owners = options_.peer_devices;
  const std::set<int32_t> readers = [this] {
    const std::vector<int32_t> devices = devices_of(options_);
    std::set<int32_t> all(devices.begin(), devices.end());
    all.insert(range_.owners.begin(), range_.owners.end());
    return all;
  }();
  range_.readers.assign(readers.begin(), readers.end());
  char why[256] = "";
  dpi_backend_error err{};
  const dpi_range_desc desc = range_.desc();
  const int32_t code =
      api().range_plan(device(), &desc, &range_.kind, &range_.granularity, why, sizeof why, &err);
  range_.why = why;
  return backend_status(code, err, "option store.peer_devices");
}

/// A table that is spread is never so silently, and never silently not.
void Engine::tell_range(const Bundle& bundle) const {
  if (range_.owners.empty()) return;
  const std::string named = bundle.name() + ": store.peer_devices=" + device_text(range_.owners) + ": ";
  const std::string large = std::to_string(forecast_.range_bytes) + " bytes of tables of " +
                            std::to_string(range_.least()) + " bytes or more lie ";
  int64_t copies = 0;
  for (size_t t = 0; t < plan_.tables.size(); ++t)
    if (const auto s = store_->peer_stats(static_cast<int32_t>(t))) copies += s->copies;
  const std::string copied =
      copies > 0 ? ", with copies of " + std::to_string(copies) + " hot rows on the device" : "";
  if (range_.kind == DPI_RANGE_PEERS) {
    log().write(LogLevel::kInfo, "tables",
                named + large + "in the memory of these devices together" + copied);
  } else if (range_.kind == DPI_RANGE_HOST) {
    log().write(LogLevel::kWarn, "tables",
                named + large + "in host memory, which is slow to read" + copied + ": " + range_.why);
  } else {
    log().write(LogLevel::kWarn, "tables", named + "tables lie in the device's own memory: " + range_.why);
  }
}

/// What engines of one model call tables that no other model may have.
std::string Engine::table_token() const {
  if (devices_of(options_).size() < 2) return {};
  return "of load " + std::to_string(first_ != nullptr ? first_->number_ : number_);
}

}  // namespace dpi
