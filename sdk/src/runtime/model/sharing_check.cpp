#include "runtime/model/sharing_check.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.hpp"

namespace dpi {

namespace {

constexpr uint64_t kBudgetNs = 60'000'000;
constexpr int kTurns = 7;       // of each form; the fastest of each counts
constexpr double kGain = 1.05;  // what is worth a second thread
constexpr int64_t kAround = 4;  // sizes are looked for between a quarter of the estimate and four times it

class SharingCheck {
 public:
  SharingCheck(const Engine& engine, Context& context, const Batch& batch, float* out)
      : engine_(engine), context_(context), batch_(batch), out_(out), end_(monotonic_ns() + kBudgetNs) {}

  Status run() {
    for (const bool awake : {false, true}) {
      if (awake && engine_.pool().spin_ns() == 0) continue;
      awake_ = awake;
      WorkRows rows = engine_.work_rows(awake);
      DPI_RETURN_IF_ERROR(find_share(&rows));
      DPI_RETURN_IF_ERROR(find_crew(&rows));
      if (believed()) engine_.set_work_rows(awake, rows);
    }
    return {};
  }

 private:
  bool believed() const { return engine_.pool().recent_callers() <= 1 && monotonic_ns() < end_; }

  /// A measurement taken while others use this machine shows neither gain nor loss and leaves the estimate:
  /// its result would hold for as long as the model lives.
  enum class Verdict { kGained, kSame, kLost };

  /// Calls are shared from the first size that gains; from twice the last one that loses, if that is no less
  /// than the estimate.
  Status find_share(WorkRows* rows) {
    const int64_t estimate = 2 * rows->min_share, least = 2 * kTileRows;
    int64_t from = 0;
    for (int64_t size = std::max(estimate / kAround, least);
         size <= std::min(estimate * kAround, batch_.item.rows); size *= 2) {
      Verdict found = Verdict::kSame;
      DPI_RETURN_IF_ERROR(look(size, {size / 2, kNoRows}, &found));
      if (!believed()) return {};
      if (found == Verdict::kLost && size >= estimate) from = 2 * size;
      if (found != Verdict::kGained) continue;
      from = size;
      break;
    }
    if (from > 0) rows->min_share = (from / 2 + kTileRows - 1) / kTileRows * kTileRows;
    return {};
  }

  Status find_crew(WorkRows* rows) {
    if (rows->crew_rows == kNoRows) return {};
    for (int64_t size = 1; size < 2 * rows->min_share && size <= batch_.item.rows; size *= 2) {
      Verdict found = Verdict::kSame;
      DPI_RETURN_IF_ERROR(look(size, {kNoRows, 1}, &found));
      if (!believed()) return {};
      if (found == Verdict::kLost && size >= rows->crew_rows) rows->crew_rows = 2 * size;
      if (found != Verdict::kGained) continue;
      rows->crew_rows = size;
      break;
    }
    if (rows->crew_rows >= 2 * rows->min_share)
      rows->crew_rows = kNoRows;  // calls of so many share their rows
    return {};
  }

  Status look(int64_t size, const WorkRows& as, Verdict* found) {
    uint64_t alone = ~uint64_t{0}, shared = alone;
    for (int turn = 0; turn < kTurns && believed(); ++turn) {
      DPI_RETURN_IF_ERROR(time(size, {}, &alone));
      if (!awake_) let_sleep();
      DPI_RETURN_IF_ERROR(time(size, as, &shared));
    }
    const auto a = static_cast<double>(alone), b = static_cast<double>(shared);
    *found = a >= kGain * b ? Verdict::kGained : b >= kGain * a ? Verdict::kLost : Verdict::kSame;
    return {};
  }

  /// The shortest so far. Of threads that are awake a call of the same form goes before: it leaves in each
  /// core's cache what the form reads there, as calls one after another do.
  Status time(int64_t size, const WorkRows& as, uint64_t* ns) {
    Batch b = batch_;
    b.item.rows = size;
    b.item.nnz = size * engine_.schema().columns.n_slots;
    if (awake_) DPI_RETURN_IF_ERROR(context_.run(b, out_, {}, &as));
    const uint64_t began = monotonic_ns();
    DPI_RETURN_IF_ERROR(context_.run(b, out_, {}, &as));
    *ns = std::min(*ns, monotonic_ns() - began);
    return {};
  }

  /// Threads that look are given the time to fall asleep.
  void let_sleep() const {
    std::this_thread::sleep_for(std::chrono::nanoseconds(engine_.pool().spin_ns() + 60'000));
  }

  const Engine& engine_;
  Context& context_;
  const Batch& batch_;
  float* out_;
  const uint64_t end_;
  bool awake_ = false;
};

}  // namespace

Status check_sharing(const Engine& engine, Context& context, const Batch& batch, float* out) {
  const bool shares = engine.host_memory() && engine.options().threads > 1;
  if (!shares || engine.pool().processors() < 2 || engine.pool().limit() == 1) return {};
  return SharingCheck(engine, context, batch, out).run();
}

}  // namespace dpi
