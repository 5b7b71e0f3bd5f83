// Follows one load through its stages: tells the caller how far it is, looks at the caller's cancel flag, and
// tells the log how long each stage took.
#pragma once

#include <cstdint>
#include <string>

#include "base/rate.hpp"
#include "base/status.hpp"
#include "runtime/options/options.hpp"

namespace dpi {

enum class LoadStage : int32_t { kOpen, kPlan, kTables, kOps, kVerify };

class LoadWatch {
 public:
  /// The first stage is kOpen. `options` must outlive the watch.
  LoadWatch(const ModelOptions& options, std::string name);

  /// Ends the stage before. `total` is in bytes for kTables and kVerify, else in steps. kCancelled when the
  /// flag is set.
  Status enter(LoadStage stage, uint64_t total);
  /// `n` more of the stage's total; the caller hears of it about a hundred times a stage. Of bytes it sleeps
  /// as long as LoadControl::bytes_per_second asks, and looks at the flag meanwhile.
  Status advance(uint64_t n);
  /// True if LoadControl::bytes_per_second limits the rate.
  bool is_paced() const { return options_.load.bytes_per_second != 0; }
  /// The model is ready; `device` says on what.
  Status finish(const std::string& device);

 private:
  void end_stage(uint64_t now);
  void tell() const;
  Status check_cancel() const;

  const ModelOptions& options_;
  LogSink& log_;
  std::string name_;
  uint64_t began_ = 0;
  uint64_t stage_began_ = 0;
  LoadStage stage_ = LoadStage::kOpen;
  uint64_t done_ = 0, total_ = 1, told_ = 0;
  Rate rate_;
};

}  // namespace dpi
