#include "runtime/load/load_watch.hpp"

#include <cstdio>
#include <utility>

#include "base/clock.hpp"

namespace dpi {

namespace {

const char* stage_name(LoadStage stage) {
  static const char* const kNames[] = {"open", "plan", "tables", "ops", "verify"};
  return kNames[static_cast<int32_t>(stage)];
}

std::string milliseconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(ns) * 1e-6);
  return text;
}

}  // namespace

LoadWatch::LoadWatch(const ModelOptions& options, std::string name)
    : options_(options),
      log_(environment_of(options)->log()),
      name_(std::move(name)),
      began_(monotonic_ns()),
      stage_began_(began_),
      rate_(options.load.bytes_per_second) {}

void LoadWatch::tell() const {
  if (options_.load.progress != nullptr)
    options_.load.progress(options_.load.user, stage_name(stage_), done_, total_);
}

Status LoadWatch::check_cancel() const {
  const volatile int32_t* flag = options_.load.cancel;
  if (flag == nullptr || __atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) return {};
  return {Code::kCancelled, name_ + ": the load was cancelled in stage " + stage_name(stage_)};
}

void LoadWatch::end_stage(uint64_t now) {
  if (done_ != total_ || told_ != done_) {
    done_ = told_ = total_;
    tell();
  }
  if (log_.wants(LogLevel::kDebug))
    log_.write(LogLevel::kDebug, "load",
               name_ + ": stage " + stage_name(stage_) + " took " + milliseconds(now - stage_began_));
  stage_began_ = monotonic_ns();
}

Status LoadWatch::enter(LoadStage stage, uint64_t total) {
  end_stage(monotonic_ns());
  stage_ = stage;
  done_ = told_ = 0;
  total_ = total;
  tell();
  return check_cancel();
}

Status LoadWatch::advance(uint64_t n) {
  constexpr uint64_t kTimes = 100;
  done_ += n;
  if (done_ - told_ >= total_ / kTimes && done_ < total_) {
    told_ = done_;
    tell();
  }
  return n > 0 && (stage_ == LoadStage::kTables || stage_ == LoadStage::kVerify)
             ? rate_.keep(n, [this] { return check_cancel(); })
             : check_cancel();
}

Status LoadWatch::finish(const std::string& device) {
  const uint64_t now = monotonic_ns();
  end_stage(now);
  DPI_RETURN_IF_ERROR(check_cancel());
  log_.write(LogLevel::kInfo, "load",
             name_ + ": ready on " + device + " after " + milliseconds(now - began_));
  return {};
}

}  // namespace dpi
