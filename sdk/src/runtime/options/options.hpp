// Options of a model, parsed from the string pairs of the C API. options.def has keys, values and defaults.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/environment.hpp"
#include "base/held_bytes.hpp"
#include "base/status.hpp"
#include "bundle/row_history.hpp"
#include "plan/plan.hpp"
#include "store/host_tier/tiered_store.hpp"

namespace dpi {

enum class Precision : int32_t { kFp32 = 0, kTf32 = 1, kFp16 = 2, kBf16 = 3, kInt8 = 4 };

/// Where the rows of a table lie: kAuto = in the host tier when there is one and the table is large.
enum class TableTier : int32_t { kAuto, kResident, kHost };

/// Tables of a model that is there, and which of their rows the one that is loaded has too: known by who asks
/// for the load, so that nobody compares them.
struct LoadBase {
  struct Table {
    std::string name;  // of the plan
    int32_t source = -1;
    HeldRows rows;  // TableStore::holds
  };
  std::vector<Table> tables;               // of the plan, in its order
  std::vector<RowHistory> rows;            // by table of the bundle
  std::vector<std::vector<int64_t>> pads;  // the same: the rows that its pad rows are copies of
};

/// Who watches a load and may stop it. Used while loading only.
struct LoadControl {
  void (*progress)(void* user, const char* stage, uint64_t done, uint64_t total) = nullptr;
  void* user = nullptr;
  const volatile int32_t* cancel = nullptr;  // read atomically
  uint64_t bytes_per_second = 0;             // that are read for tables, keys and hashes at most; 0 = any
  const LoadBase* base = nullptr;
};

struct ModelOptions {
  std::shared_ptr<Environment> environment;  // null = the process's
  std::shared_ptr<HeldBytes> held;           // bytes are counted in; null = nowhere
  LoadControl load;
  std::string device = "auto";  // cpu, cuda, auto, ref, or the name of another plugin
  int32_t device_index = 0;
  std::vector<int32_t> devices;       // that share the calls, instead of device_index; empty = one device
  std::vector<int32_t> peer_devices;  // over whose memory large tables are spread; empty = none is
  uint64_t peer_copy_bytes = 0;       // of each device: copies of hot rows that lie on others
  Precision precision = Precision::kFp32;
  int32_t threads = 1;
  int32_t spin_us = 200;  // of the environment's pool, which takes the longest; for threads > 1
  bool strict = false;
  bool refuse_nonfinite = true;  // a call with a score that is not finite
  int64_t max_rows = 4096;
  int64_t max_nnz = int64_t{1} << 20;  // ids per sequence feature and chunk
  uint64_t scratch_bytes = 0;          // of a chunk's values; 0 = chunk_bytes()
  uint64_t user_cache_bytes = 0;       // what is kept of users; 0 = nothing
  int32_t slow_us = 0;                 // calls that take as long are kept; 0 = none is
  int32_t max_contexts = 0;            // 0 = usable CPUs (base/host_share.hpp)
  bool fold = true;
  bool fold_as_tiered = false;  // only folds that tables in the host tier have too
  bool fuse = true;
  ScheduleMode schedule = ScheduleMode::kBreadthFirst;
  StartOrder order = StartOrder::kCost;
  bool verify_golden = false;
  std::string require_signature;
  std::string backend_dir;
  uint64_t memory_limit = 0;
  std::string isa = "auto";
  std::string skip;          // passes of the plan left out, for measuring: PlanOptions::skip
  bool graphs = true;        // capture and replay where the backend can
  int32_t in_flight = 3;     // chunks of one call in flight
  bool timestamps = false;   // timestamps per op
  bool small_batch = false;  // one kernel for small batches where the backend has one
  std::string lookup = "auto";
  std::string fetch = "kernel";  // how the input comes to the device
  std::string tuning = "default";
  std::vector<std::string> tiered;  // tables whose rows a test's own store moves (PlanOptions::tiered)
  int64_t spare_percent =
      0;              // rows behind large tables, for versions to come (store/resident/spare_rows.hpp)
  bool share = true;  // tables with models of the same environment whose tables are equal
  TierOptions tiers;
  uint64_t resident_bytes = uint64_t{1} << 20;                 // a table of at most so many stays resident
  std::string rocksdb_reads = "pread";                         // as its plugin's setting "reads"
  std::vector<std::pair<std::string, TableTier>> table_tiers;  // by name, where said
};

/// Sets one option. Unknown key: kNotFound with the list of keys; bad value: kInvalidArgument with what is
/// allowed.
Status set_option(ModelOptions* options, std::string_view key, std::string_view value);

/// The environment of models with these options; never null.
inline const std::shared_ptr<Environment>& environment_of(const ModelOptions& options) {
  return options.environment != nullptr ? options.environment : Environment::process();
}

/// The devices that the model runs on, in the order of the option; one where it names none.
std::vector<int32_t> devices_of(const ModelOptions& options);

/// The options of the plan's passes among them.
PlanOptions plan_options(const ModelOptions& options);

/// One option as dpi.h lists it.
struct OptionText {
  const char *key, *values, *fallback, *clause;
};

/// The lines of options.def, in their order.
std::span<const OptionText> option_texts();

/// All options in force as key and value, in the order of options.def; of tables those that were set.
std::vector<std::pair<std::string, std::string>> option_values(const ModelOptions& options);

}  // namespace dpi
