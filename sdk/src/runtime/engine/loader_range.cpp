// Options devices and store.peer_devices: whether they can be followed, and what is said of it.
#include "runtime/engine/engine_loader.hpp"

#include <set>
#include <string>
#include <vector>

#include "runtime/options/device_list.hpp"

namespace dpi {

/// Checks the options that name several devices, and decides where tables lie then.
Status EngineLoader::choose_range() {
  const bool several = engine_.options_.devices.size() > 1, spread = !engine_.options_.peer_devices.empty();
  if (!spread && engine_.options_.peer_copy_bytes > 0)
    return invalid_argument(
        "option 'store.peer_copy_bytes' copies rows that lie on other devices, and none do: set "
        "'store.peer_devices'");
  if (!several && !spread) return {};
  if (engine_.host_memory() || engine_.api().range_plan == nullptr)
    return unsupported("option " + std::string(several ? "devices" : "store.peer_devices") +
                       " names devices, but backend '" + engine_.api().name + "' has no memory of its own" +
                       (engine_.device_note().empty() ? "" : ": " + engine_.device_note()));
  if (several && engine_.options_.tiers.gpu_bytes > 0)
    return unsupported(
        "option devices names several devices, and copies of a host tier's rows (store.gpu_bytes) lie on "
        "one: "
        "leave store.gpu_bytes out, or load a model per device, each with device=cuda:N");
  if (!spread) return {};
  engine_.range_.owners = engine_.options_.peer_devices;
  const std::set<int32_t> readers = [this] {
    const std::vector<int32_t> devices = devices_of(engine_.options_);
    std::set<int32_t> all(devices.begin(), devices.end());
    all.insert(engine_.range_.owners.begin(), engine_.range_.owners.end());
    return all;
  }();
  engine_.range_.readers.assign(readers.begin(), readers.end());
  char why[256] = "";
  dpi_backend_error err{};
  const dpi_range_desc desc = engine_.range_.desc();
  const int32_t code = engine_.api().range_plan(engine_.device(), &desc, &engine_.range_.kind,
                                                &engine_.range_.granularity, why, sizeof why, &err);
  engine_.range_.why = why;
  return backend_status(code, err, "option store.peer_devices");
}

/// A table that is spread is never so silently, and never silently not.
void EngineLoader::tell_range() const {
  if (engine_.range_.owners.empty()) return;
  const std::string named =
      bundle_->name() + ": store.peer_devices=" + device_text(engine_.range_.owners) + ": ";
  const std::string large = std::to_string(engine_.forecast_.range_bytes) + " bytes of tables of " +
                            std::to_string(engine_.range_.least()) + " bytes or more lie ";
  int64_t copies = 0;
  for (size_t t = 0; t < engine_.plan_.tables.size(); ++t)
    if (const auto s = engine_.store_->peer_stats(static_cast<int32_t>(t))) copies += s->copies;
  const std::string copied =
      copies > 0 ? ", with copies of " + std::to_string(copies) + " hot rows on the device" : "";
  if (engine_.range_.kind == DPI_RANGE_PEERS) {
    engine_.log().write(LogLevel::kInfo, "tables",
                        named + large + "in the memory of these devices together" + copied);
  } else if (engine_.range_.kind == DPI_RANGE_HOST) {
    engine_.log().write(
        LogLevel::kWarn, "tables",
        named + large + "in host memory, which is slow to read" + copied + ": " + engine_.range_.why);
  } else {
    engine_.log().write(LogLevel::kWarn, "tables",
                        named + "tables lie in the device's own memory: " + engine_.range_.why);
  }
}

}  // namespace dpi
