// Forecasts a model's memory, host and device together, before its tables are loaded. Used by the engine,
// which refuses a model that cannot fit, and by `dpi inspect`, which needs no device for it.
//
// Large things are counted to the byte: tables, packed weights, vocabularies, contexts, blocks on their way.
// What describes a model (names, ops, plan) is many small pieces: it is taken from the size of the bundle's
// metadata, on the safe side. tests/injection/forecast_main.cpp holds all of it against what is really
// allocated.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/options/options.hpp"
#include "store/table_range.hpp"

namespace dpi {

/// Sizes that only the device knows.
struct DeviceSizes {
  bool on_device = false;    // rows are laid out as for a GPU, and a flight has memory on both sides
  int64_t alignment = 64;    // of arena offsets
  uint64_t weights = 0;      // as its ops have packed them; 0 = nothing is prepared, so as the plan has them
  uint64_t scratch = 0;      // of one flight, all streams
  int64_t weight_bytes = 4;  // of a weight that is not packed yet: the least that the device keeps of it
  uint64_t shared = 0;       // of the tables: what models that are loaded hold already
  bool tier_given = false;   // they hold the host tier already
  bool warms = false;        // a tier may begin with the keys of another one
  TableRange range = {};     // of large tables; not chosen: as the option says, on devices that can do it
};

/// A model's memory on one of several devices that it runs on or keeps rows on.
struct DeviceShare {
  int32_t index = 0;
  uint64_t tables = 0;  // that every device has
  uint64_t range = 0;   // of tables that lie on several devices, what is here
  uint64_t copies = 0;  // at most: of rows that lie on the others
  uint64_t weights = 0;
  uint64_t contexts = 0;  // with all of its contexts in use
};

struct MemoryForecast {
  static constexpr uint64_t kTimes = uint64_t{36} << 10;  // of a context: execute/call_times.hpp
  uint64_t tables = 0;            // fused arena, padding included; without what other models hold already
  uint64_t shared = 0;            // that other models hold already: it takes nothing more
  uint64_t may_share = 0;         // of tables and shared: what models of equal tables take once
  uint64_t host_tier = 0;         // rows of tiered tables, directories and what fetches need
  uint64_t host_tier_shared = 0;  // the same where other models hold it already: it takes nothing more
  uint64_t device_cache = 0;      // copies of its rows on the device
  uint64_t peer_copies = 0;       // at most: of rows that lie on other devices
  uint64_t peer_copy_host = 0;    // what the host keeps of which rows these are
  uint64_t weights = 0;           // constants, and weights as the device keeps them
  uint64_t keys = 0;              // indexes of key sets
  uint64_t encoders = 0;          // vocabularies with their indexes
  uint64_t model = 0;             // what describes the model
  uint64_t user_cache = 0;        // what is kept of users
  uint64_t flight = 0;  // one flight of a context: values, packed input, scores, scratch, bound operands
  uint64_t device_flight = 0;        // what of it lies in the device's memory
  int32_t flights = 1;               // of one context, at most
  int32_t contexts = 1;              // at most, in use
  int32_t parked = 0;                // at most, of calls that wait for rows: others
  uint64_t warm_up = 0;              // what dpi_model_warm_up takes beside the contexts, while it runs
  uint64_t loading = 0;              // the most at any moment of the load
  uint64_t range = 0;                // of tables and shared: in ranges over several devices
  uint64_t own_tables = 0;           // of tables: what the device takes that this is about
  uint64_t others = 0;               // what the model's other devices keep: tables, weights, description
  std::vector<DeviceShare> devices;  // where there are several, else none

  uint64_t kept() const {
    return tables + host_tier + device_cache + peer_copies + peer_copy_host + weights + keys + encoders +
           model + user_cache + others;
  }
  uint64_t one_context() const { return flight * static_cast<uint64_t>(flights) + kTimes; }
  uint64_t all_contexts() const { return one_context() * static_cast<uint64_t>(contexts + parked); }
  /// Bytes of a context beside its flights; 0 on a device.
  uint64_t context_own() const { return device_flight != 0 ? 0 : kTimes; }
  /// The least a call needs.
  uint64_t least() const { return kept() + (device_flight != 0 ? flight : one_context()); }
  /// The most at any moment: while loading, or with every context in use by calls of many chunks.
  uint64_t most() const;
  /// "1234 bytes (tables 800, weights 300 ...), most of it for the tables"
  std::string text() const;
};

/// Bytes of a packed weight where `precision` narrows it, as far as one can tell without a device.
int64_t least_weight_bytes(const ModelOptions& options);

/// Fails with kOutOfMemory when sizes overflow.
Result<MemoryForecast> forecast_memory(const Bundle& bundle, const Plan& plan, const ModelOptions& options,
                                       const DeviceSizes& device);

/// The contexts a model has: the option, or as many as the machine has hardware threads, one per device at
/// least. Its devices have them in turn.
int32_t context_count(const ModelOptions& options);

/// Calls that may wait for rows at once: the option, where there is a host tier.
int32_t parked_count(const ModelOptions& options, const Plan& plan);

}  // namespace dpi
