// When each op of one run was executed on the device, from timed events around it (option debug.timestamps).
// Used by runtime/execute/flight.cpp; read by the program's profile.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/engine.hpp"

namespace dpi {

struct OpTime {
  int32_t stream = 0;
  float start_us = 0;  // since the first op could start
  float end_us = 0;
};

class Timeline {
 public:
  ~Timeline();

  /// Makes the events. Nothing is recorded before.
  Status create(const Engine& engine);
  bool on() const { return engine_ != nullptr; }

  Status mark_origin(dpi_backend_stream* stream);
  Status mark_start(size_t op, dpi_backend_stream* stream);
  Status mark_end(size_t op, dpi_backend_stream* stream);
  /// After the streams were synchronised: reads the times of the run.
  Status collect();
  /// One per op of the plan, in issue order; empty before the first collect.
  const std::vector<OpTime>& ops() const { return times_; }

 private:
  Status record(dpi_backend_event* event, dpi_backend_stream* stream);

  const Engine* engine_ = nullptr;
  dpi_backend_event* origin_ = nullptr;
  std::vector<dpi_backend_event*> events_;  // start and end of op i at 2 i and 2 i + 1
  std::vector<OpTime> times_;
};

/// A timeline's report on branches that run beside each other.
struct OverlapReport {
  float total_us = 0;                // first start to last end
  float all_started_us = 0;          // until every stream of the plan that has ops had started one
  float overlap_us = 0;              // during which ops of two streams or more were executing
  std::vector<int32_t> start_order;  // streams by their first op's start
};
OverlapReport report_overlap(const std::vector<OpTime>& ops);

}  // namespace dpi
