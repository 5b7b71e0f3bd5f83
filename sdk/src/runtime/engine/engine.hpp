// The immutable state that all contexts of a model on one device share: the plan, the backend's device with
// the prepared ops, the tables, the schema. Destroyed after the last context. A model on several devices has
// an engine for each; the first reads the bundle, the others take the tables from it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/abi/backend_status.hpp"
#include "backend/abi/registry.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/engine/host_flights.hpp"
#include "runtime/engine/memory_forecast.hpp"
#include "runtime/engine/user_cache.hpp"
#include "runtime/load/load_watch.hpp"
#include "runtime/load/row_groups.hpp"
#include "runtime/options/options.hpp"
#include "runtime/request/resolve.hpp"
#include "store/host_tier/shared_tier.hpp"
#include "store/resident/key_places.hpp"
#include "store/resident/spare_rows.hpp"
#include "store/resident/table_blocks.hpp"
#include "store/table_store.hpp"

namespace dpi {

class Engine {
 public:
  /// Plans, opens the backend, prepares the ops, streams the tables to their storage. `store` may be given by
  /// tests; else resident. `watch` may be null.
  static Result<std::unique_ptr<Engine>> create(Bundle& bundle, const ModelOptions& options,
                                                std::unique_ptr<TableStore> store = nullptr,
                                                LoadWatch* watch = nullptr);
  /// For the next device of a model, devices_of(options)[number]. `first` is the engine of its first device
  /// and outlives this one.
  static Result<std::unique_ptr<Engine>> create_next(Bundle& bundle, const ModelOptions& options,
                                                     const Engine& first, size_t number);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Plan& plan() const { return plan_; }
  const ModelOptions& options() const { return options_; }
  Environment& environment() const { return *options_.environment; }
  LogSink& log() const { return options_.environment->log(); }
  const ResolveSchema& schema() const { return schema_; }
  const dpi_backend_api& api() const { return *device_->backend.api; }
  dpi_backend_device* device() const { return device_->backend.device; }
  const dpi_backend_caps& caps() const { return caps_; }
  const std::string& device_note() const {
    return device_->backend.note;
  }  // why auto fell back, "" otherwise
  TableStore& store() const { return *store_; }
  const KeyPlaces* keys() const { return first_ != nullptr ? first_->keys() : keys_.get(); }
  /// Where tables lie that option store.peer_devices spreads.
  const TableRange& range() const { return range_; }
  /// For a load that may take tables over. They stay as long as the list does.
  std::vector<LoadBase::Table> held_tables() const;
  /// By table of the bundle: the rows that its pad rows are copies of.
  const std::vector<std::vector<int64_t>>& pads() const { return pads_; }
  /// Tables and features whose rows may lie elsewhere.
  struct Overlaid {
    RowGroup group;
    std::shared_ptr<RowVersion> version;
  };
  const std::vector<Overlaid>& overlaid() const { return overlaid_; }
  /// The overlay of a table of the plan; null where all rows are at home.
  const RowOverlay* overlay_of(int32_t table) const;
  const StoreForecast& forecast() const { return forecast_; }
  const MemoryForecast& memory() const { return memory_; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  int64_t heads() const { return static_cast<int64_t>(plan_.heads.size()); }

  const dpi_backend_op* op(size_t i) const { return ops_[i]; }
  const std::string& op_report(size_t i) const { return reports_[i]; }
  /// Backend memory of a kConst value's parameter.
  float* const_data(int32_t param) const { return const_data_[static_cast<size_t>(param)]; }
  /// One op that does the whole plan for calls of at most small_batch_max_rows rows; null when the backend
  /// has none.
  const dpi_backend_op* small_batch() const { return small_batch_; }
  int64_t small_batch_max_rows() const { return small_batch_max_rows_; }
  /// Its calls are given their input in staging memory.
  bool small_batch_in_place() const { return small_batch_in_place_; }
  const std::string& small_batch_report() const { return small_batch_report_; }

  /// Values of users of before; null without option user_cache_bytes.
  UserCache* user_cache() const { return user_cache_.get(); }
  const UserPart& user_part() const { return user_part_; }

  /// Calls are captured and replayed: the option, and a backend that can.
  bool uses_graphs() const { return graphs_.load(std::memory_order_relaxed); }
  void capture_succeeded() const { captured_.store(true, std::memory_order_relaxed); }
  /// graphs_note says why. `given_up`: it was the last attempt of its shape, whose calls go on op by op;
  /// those of all shapes do so if no capture ever succeeded.
  void capture_failed(const Status& why, bool given_up) const;
  /// Why the last capture failed; "" = none did.
  std::string graphs_note() const;
  /// The note after the first failure, once; "" afterwards.
  std::string take_graphs_note() const;

  /// Option debug.timestamps: values of calls that 16 bits could not hold.
  void count_saturated(uint64_t n) const { saturated_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t saturated() const { return saturated_.load(std::memory_order_relaxed); }

  /// How threads share calls out (host memory, option threads), by whether the others are awake.
  WorkRows work_rows(bool awake) const {
    return {share_rows_[awake].load(std::memory_order_relaxed),
            crew_rows_[awake].load(std::memory_order_relaxed)};
  }
  /// Warm-up found other sizes. Scores do not depend on them.
  void set_work_rows(bool awake, const WorkRows& rows) const;
  const OpCut& op_cut(size_t i) const { return op_cuts_[i]; }
  ThreadPool& pool() const { return options_.environment->pool(); }

  /// Elements between rows of a value in its buffer (inputs and outputs included).
  int64_t row_stride(const PlanValue& v) const;
  bool host_memory() const { return (caps_.flags & DPI_BACKEND_HOST_MEMORY) != 0; }

 private:
  /// The device of a model, open while the model or tables that it loaded are in use.
  struct OpenDevice {
    std::shared_ptr<Environment> environment;
    MemoryHooks hooks;  // as they were when this was opened, and what counts the model's bytes
    dpi_backend_memory memory{};
    backend::OpenedBackend backend;
    ~OpenDevice();
  };

  friend class EngineLoader;  // fills it; nothing is written afterwards but what is atomic or under
                              // note_mutex_
  Engine() = default;

  ModelOptions options_;  // with an environment; device_index is this engine's
  std::optional<ThreadPool::User> pool_user_;
  const Engine* first_ = nullptr;  // of the model's engines; null = this is it
  uint64_t number_ = 0;            // no other load of the process has it
  TableRange range_;
  mutable std::atomic<int64_t> share_rows_[2] = {kNoRows, kNoRows}, crew_rows_[2] = {kNoRows, kNoRows};
  std::vector<OpCut> op_cuts_;
  Plan plan_;
  ResolveSchema schema_;
  std::shared_ptr<OpenDevice> device_;
  dpi_backend_caps caps_{};
  std::unique_ptr<TableStore> store_;
  std::unique_ptr<KeyPlaces> keys_;  // null: no ids are keys
  std::vector<std::vector<int64_t>> pads_;
  std::vector<Overlaid> overlaid_;
  StoreForecast forecast_;
  MemoryForecast memory_;
  std::vector<dpi_backend_op*> ops_;
  std::vector<std::string> reports_;
  std::vector<float*> const_data_;  // per param, null unless a value reads it
  uint64_t weight_bytes_ = 0;
  HeldCount weights_held_, keys_held_;
  UserPart user_part_;
  std::unique_ptr<UserCache> user_cache_;
  dpi_backend_op* small_batch_ = nullptr;
  int64_t small_batch_max_rows_ = 0;
  bool small_batch_in_place_ = false;
  std::string small_batch_report_;
  mutable std::atomic<uint64_t> saturated_{0};
  mutable std::atomic<bool> graphs_{false}, captured_{false};
  mutable std::mutex note_mutex_;  // of graphs_note_, never on a path that works
  mutable std::string graphs_note_;
  mutable bool graphs_note_new_ = false;
};

}  // namespace dpi
