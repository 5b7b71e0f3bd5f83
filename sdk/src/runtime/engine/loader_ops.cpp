// Ops and constants of the backend.
#include "runtime/engine/engine_loader.hpp"

#include "runtime/engine/host_flights.hpp"
#include "runtime/engine/op_description.hpp"

namespace dpi {

Status EngineLoader::upload_constants() {
  engine_.const_data_.assign(engine_.plan_.params.size(), nullptr);
  for (const PlanValue& v : engine_.plan_.values) {
    if (v.storage != Storage::kConst || v.param < 0 || engine_.const_data_[v.param] != nullptr) continue;
    const auto& data = engine_.plan_.params[v.param].data;
    void* p = nullptr;
    dpi_backend_error err{};
    const size_t bytes = std::max<size_t>(1, data.size()) * sizeof(float);
    const_bytes_ += bytes;
    DPI_RETURN_IF_ERROR(backend_status(
        engine_.api().alloc(engine_.device(), bytes, DPI_MEMORY_PARAM, &p, &err), err, v.name));
    engine_.const_data_[v.param] = static_cast<float*>(p);
    DPI_RETURN_IF_ERROR(backend_status(
        engine_.api().upload(engine_.device(), p, data.data(), data.size() * sizeof(float), &err), err,
        v.name));
  }
  return {};
}

Status EngineLoader::prepare_ops() {
  engine_.ops_.assign(engine_.plan_.ops.size(), nullptr);
  engine_.reports_.resize(engine_.plan_.ops.size());
  const RowStride stride = [this](const PlanValue& v) { return engine_.row_stride(v); };
  for (size_t i = 0; i < engine_.plan_.ops.size(); ++i) {
    OpDescription d;
    describe_op(engine_.plan_, engine_.plan_.ops[i], stride, engine_.options_.max_rows, &d);
    dpi_backend_error err{};
    char report[1024] = "";
    const int32_t code =
        engine_.api().op_prepare(engine_.device(), &d.desc, &engine_.ops_[i], report, sizeof report, &err);
    DPI_RETURN_IF_ERROR(backend_status(code, err, "op '" + engine_.plan_.ops[i].name + "'"));
    engine_.reports_[i] = report;
  }
  if (engine_.host_memory()) cut_ops();
  return {};
}

void EngineLoader::cut_ops() {
  std::vector<OpParts> parts(engine_.ops_.size());
  for (size_t i = 0; i < engine_.ops_.size() && engine_.api().op_parts != nullptr; ++i)
    parts[i] = {engine_.api().op_parts(engine_.ops_[i]),
                engine_.api().op_scratch_bytes(engine_.ops_[i], 1) > 0};
  WorkCuts cuts = work_cuts(engine_.plan_, parts);
  engine_.set_work_rows(false, cuts.asleep);
  engine_.set_work_rows(true, cuts.awake);
  engine_.op_cuts_ = std::move(cuts.ops);
}

/// A plan that no small batch takes runs op by op: small_batch_report says why.
Status EngineLoader::prepare_small_batch() {
  if (engine_.api().small_batch_prepare == nullptr) return {};
  const SmallBatchDescription whole(
      engine_.plan_, [this](const PlanValue& v) { return engine_.row_stride(v); }, engine_.options_.max_rows);
  char report[1024] = "";
  dpi_backend_error err{};
  int32_t in_place = 0;
  const int32_t code = engine_.api().small_batch_prepare(
      engine_.device(), &whole.desc(), &engine_.small_batch_, &engine_.small_batch_max_rows_, &in_place,
      report, sizeof report, &err);
  engine_.small_batch_report_ = report;
  engine_.small_batch_in_place_ = in_place != 0;
  if (code == 0) return {};
  engine_.small_batch_ = nullptr;
  if (engine_.small_batch_report_.empty()) engine_.small_batch_report_ = err.message;
  if (code == static_cast<int32_t>(Code::kUnsupported)) return {};
  return backend_status(code, err, "small batch");
}

/// The backend keeps what it needs of the weights: before tables come the plan's own go.
void EngineLoader::drop_params() {
  for (PlanParam& p : engine_.plan_.params) {
    engine_.weight_bytes_ += p.data.size() * sizeof(float);
    std::vector<float>().swap(p.data);
  }
}

/// Weights as the backend's ops keep them.
uint64_t EngineLoader::packed_bytes() const {
  const auto packed = [this](const dpi_backend_op* op) -> uint64_t {
    return op != nullptr && engine_.api().op_bytes != nullptr ? engine_.api().op_bytes(op) : 0;
  };
  uint64_t n = packed(engine_.small_batch_);
  for (const dpi_backend_op* op : engine_.ops_) n += packed(op);
  return n;
}

}  // namespace dpi
