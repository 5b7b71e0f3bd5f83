// The types behind the opaque handles of dpi.h, and the wall that no exception passes. Included by capi
// sources only.
#pragma once

#include <dpi/dpi.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/float_env.hpp"
#include "base/gate.hpp"
#include "base/status.hpp"
#include "runtime/batch/settings.hpp"
#include "runtime/model/model.hpp"
#include "runtime/model/raw_rows.hpp"

struct dpi_env {
  std::shared_ptr<dpi::Environment> environment;
};

struct dpi_options {
  dpi::ModelOptions values;
  dpi::BatchSettings batch;
};

struct dpi_model {
  std::unique_ptr<dpi::Model> model;
  // what is written lies apart from what every predict reads
  alignas(128) std::atomic<int64_t> references{1};
  /// Calls inside the model that hold no context (dpi::capi::Visit); kClosing is added when it is freed.
  static constexpr int64_t kClosing = int64_t{1} << 62;
  std::atomic<int64_t> visitors{0};
};

struct dpi_context {
  dpi_model* model = nullptr;  // one reference
  std::unique_ptr<dpi::ContextPool> own;
  int64_t max_rows = 0;
  int64_t max_nnz = 0;
  std::vector<float> dense, weights, out;
  std::vector<int64_t> ids, offsets;
};

struct dpi_rows {
  dpi_model* model = nullptr;  // one reference
  std::unique_ptr<dpi::RawRows> rows;
};

namespace dpi::capi {

/// Sizes of the structs in version 1.0. Frozen: callers compiled then say them for ever.
inline constexpr size_t kModelInfo10 = 88, kFeatureInfo10 = 56, kRunOptions10 = 48, kContextView10 = 64;
inline constexpr size_t kMemoryHooks10 = 32;
/// Up to the text's first bytes.
inline constexpr size_t kLeastError = 40;

/// Fills the caller's error block from a status, as far as its struct_size goes; tolerates null.
dpi_status report(const Status& status, dpi_error* error) noexcept;
/// The same for what was thrown: no text of it may need memory.
dpi_status report_thrown(Code code, const char* text, dpi_error* error) noexcept;

/// Runs `body` (returning Status) behind the exception wall and in the default floating-point environment.
template <class Body>
dpi_status guard(dpi_error* error, Body&& body) noexcept {
  const FloatEnvironment standard;
  try {
    const Status status = body();
    if (status.ok() && error == nullptr) return DPI_OK;
    return report(status, error);
  } catch (const std::bad_alloc&) {
    return report_thrown(Code::kOutOfMemory, "out of memory", error);
  } catch (const std::exception& e) {
    return report_thrown(Code::kInternal, e.what(), error);
  } catch (...) {
    return report_thrown(Code::kInternal, "not known", error);
  }
}

/// Copies a caller's versioned struct into one of this library's size. Fields the caller does not know keep
/// their defaults; unknown trailing bytes must be zero.
Status read_struct(const void* from, const char* name, size_t min_size, size_t own_size, void* to);

/// Writes at most the caller's struct_size bytes of an out-struct; struct_size itself is kept.
Status write_struct(void* to, const char* name, size_t min_size, size_t own_size, const void* from);

/// The two-call string protocol of the *_json functions.
size_t give_text(const std::string& text, char* buf, size_t cap) noexcept;

/// dpi_batch -> Batch, after size and constant checks.
Status to_batch(const dpi_batch* in, Batch* out);
/// logits_len: as the caller said it, to be checked once the model may be asked for its heads.
Status to_control(const dpi_run_options* run, RunControl* out, size_t* logits_len);
Status check_out(const float* out, size_t out_len, int64_t rows, int64_t heads);
Status check_logits(const RunControl& control, size_t logits_len, int64_t rows, int64_t heads);

/// Where a predict's scores go and what governs it.
struct PredictCall {
  dpi_model* model;
  ContextPool* own;  // null: any context of the model
  float* out;
  size_t out_len;
  const dpi_run_options* run;
  Gate::Pass* pass = nullptr;  // left once a context is claimed: the model stays for that
};
/// Claims a context, checks the rest of the request against the model, scores it. Whatever fails is counted.
Status predict(const PredictCall& call, const Batch& batch);

/// The call without structs; lengths are those that the batch's checks do not see.
struct FlatCall {
  Batch batch;
  size_t dense_len = 0, offsets_len = 0, weights_len = 0;
  int32_t layout = 0;
  RunControl control;
  Gate::Pass* pass = nullptr;
};
Status predict_flat(Model& model, FlatCall& call, float* out, size_t out_len);
/// Checks the call's layout and lengths against the model, and completes its batch.
Status check_flat(const Model& model, FlatCall* call);

/// Keeps a model from being freed during a call that holds no context (never a predict: all visits write one
/// line). ok() is false when freeing began first; the model must then not be looked at.
class Visit {
 public:
  explicit Visit(const dpi_model* model) : visitors_(const_cast<dpi_model*>(model)->visitors) {
    ok_ = visitors_.fetch_add(1, std::memory_order_acq_rel) < dpi_model::kClosing;
  }
  ~Visit() {
    if (visitors_.fetch_sub(1, std::memory_order_acq_rel) == dpi_model::kClosing + 1) visitors_.notify_all();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool ok() const { return ok_; }
  Status status() const { return ok_ ? Status() : Status(Code::kClosed, "the model is being freed"); }

 private:
  std::atomic<int64_t>& visitors_;
  bool ok_;
};

}  // namespace dpi::capi
