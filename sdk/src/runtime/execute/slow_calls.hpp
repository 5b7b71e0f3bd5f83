// The last calls of a model that took longer than option slow_us: where their time went and how large they
// were, no values. All memory is taken with the model. A call that was slow takes a lock to be kept; others
// never come here.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "runtime/request/request.hpp"
#include "runtime/request/resolve.hpp"
#include "runtime/request/stage_times.hpp"

namespace dpi {

class SlowCalls {
 public:
  static constexpr size_t kKept = 64;

  struct Call {
    int64_t at_ms = 0;  // of the epoch, when it ended
    uint64_t took_ns = 0, waited_ns = 0;
    StageTimes stages;  // started
    int64_t rows = 0, shared_rows = 0;
    uint64_t misses = 0;  // ids that the host tier did not have
    Code code = Code::kOk;
  };
  /// A kept call as a JSON object.
  struct Text {
    int64_t at_ms = 0;
    std::string json;
  };

  /// schema outlives this.
  SlowCalls(const ResolveSchema& schema, uint64_t version);

  /// Allocates nothing. batch: checked; its ids are counted, not kept.
  void keep(const Call& call, const Batch& batch);
  /// A call whose batch is gone. ids: by count_ids, when it was there.
  void keep(const Call& call, const int64_t* ids);
  /// By feature, how many ids the batch gives; -1 for a feature without a slot.
  void count_ids(const Batch& batch, int64_t* ids) const;
  size_t features() const { return schema_.features.size(); }
  /// Oldest first.
  std::vector<Text> texts() const;
  void set_version(uint64_t version) { version_ = version; }

  /// The objects as one JSON list: the newest kKept of all, oldest first.
  static std::string list(std::vector<Text> all);

 private:
  /// Room for the ids of a call, which is kept from now on.
  int64_t* next(const Call& call);
  std::string text(const Call& call, const int64_t* ids) const;

  const ResolveSchema& schema_;
  uint64_t version_;
  mutable std::mutex mutex_;  // of the rest
  std::array<Call, kKept> calls_;
  std::vector<int64_t> ids_;  // [kKept, features]
  uint64_t kept_ = 0;         // ever
};

}  // namespace dpi
