// Rows of tables that requests of CSV files look up: ids as `dpi predict` would send them, after the rules of
// their features.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/options/options.hpp"
#include "runtime/request/resolve.hpp"
#include "sdk/tools/dpi/csv/row_feeder.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "store/resident/key_places.hpp"

namespace dpi::tool {

class RowLog {
 public:
  /// bundle: the one that the model was loaded from.
  RowLog(const LoadedModel& model, Bundle* bundle, const ModelOptions& options);

  /// Tables of the bundle that are looked up.
  const std::vector<size_t>& tables() const { return tables_; }
  /// rows: as the next use of a table reads them; of an external keyed table the raw keys.
  using Sink = std::function<void(size_t table, std::span<const int64_t> rows)>;
  /// Reads a file to its end and gives the rows that its requests look up; returns how many requests those
  /// were.
  int64_t read(const std::string& path, bool raw, const CsvLimits& limits, const Sink& sink);

 private:
  struct Use {
    int32_t feature = -1;
    size_t table = 0;  // of the bundle
  };
  void find_uses(const Plan& plan);
  Status look_up(const dpi_batch& batch, const Sink& sink);
  [[noreturn]] void refuse(const RowFeeder& feeder, const Status& why) const;
  void give(const Use& use, const ResolvedRows& rows, const Sink& sink);

  const LoadedModel& model_;
  std::vector<Use> uses_;
  std::vector<size_t> tables_;
  std::unique_ptr<KeyPlaces> keys_;
  ResolveSchema schema_;
  InputMap map_;
  std::vector<std::byte> room_;
  std::byte* block_ = nullptr;  // aligned, in room_
  std::vector<FeatureCounters> counters_;
  std::vector<int64_t> lines_;  // where the batch's requests began
  std::vector<int64_t> column_;
};

}  // namespace dpi::tool
