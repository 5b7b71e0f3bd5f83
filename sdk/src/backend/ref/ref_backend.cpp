// The backend `ref`: executes every op with the reference kernels, in the calling thread, one after the
// other.
#include <memory>

#include "backend/abi/registry.hpp"
#include "backend/host_device.hpp"
#include "base/at_load.hpp"
#include "ops/check_op.hpp"
#include "ops/owned_op.hpp"
#include "ops/table.hpp"

namespace dpi::backend {
namespace {

struct RefOp {
  OwnedOp op;
};

Status check_options(const dpi_backend_options& o) {
  DPI_RETURN_IF_ERROR(check_precision("ref", o));
  if (o.device_index > 0)
    return {Code::kNoDevice, "ref has one device, index " + std::to_string(o.device_index) + " asked"};
  return ok_status();
}

int32_t ref_open(const dpi_backend_options* options, dpi_backend_device** out, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    DPI_RETURN_IF_ERROR(check_options(*options));
    auto device = std::make_unique<HostDevice>();
    device->memory = std::make_unique<HostMemory>(*options);
    *out = reinterpret_cast<dpi_backend_device*>(device.release());
    return ok_status();
  });
}

void ref_close(dpi_backend_device* device) { delete reinterpret_cast<HostDevice*>(device); }

int32_t ref_caps(dpi_backend_device*, dpi_backend_caps* out, dpi_backend_error*) {
  out->flags = DPI_BACKEND_HOST_MEMORY | DPI_BACKEND_ROWS;
  out->max_streams = 1;
  out->device_index = 0;
  out->alignment = kHostAlignment;
  copy_text("reference, plain loops in double", out->device_name, sizeof(out->device_name));
  fill_host_memory(out);
  return 0;
}

Status prepare(const dpi_op_desc& desc, RefOp** out) {
  DPI_ASSIGN_OR_RETURN(OwnedOp op, own_op(desc));
  DPI_RETURN_IF_ERROR(check_op(op));
  *out = new RefOp{std::move(op)};
  return ok_status();
}

int32_t ref_op_prepare(dpi_backend_device*, const dpi_op_desc* desc, dpi_backend_op** out, char* text,
                       size_t cap, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    RefOp* op = nullptr;
    if (Status s = prepare(*desc, &op); !s.ok()) {
      copy_text("refused: ref: " + s.message(), text, cap);
      return s;
    }
    copy_text("chosen: ref", text, cap);
    *out = reinterpret_cast<dpi_backend_op*>(op);
    return ok_status();
  });
}

void ref_op_free(dpi_backend_device*, dpi_backend_op* op) { delete reinterpret_cast<RefOp*>(op); }

size_t ref_op_scratch_bytes(const dpi_backend_op* handle, int64_t) {
  const OwnedOp& op = reinterpret_cast<const RefOp*>(handle)->op;
  if (op.kind != OpKind::kRecurrent) return 0;
  return 7 * static_cast<size_t>(op.output(0).dims.at(-1)) * sizeof(double);
}

size_t ref_op_bytes(const dpi_backend_op* op) { return reinterpret_cast<const RefOp*>(op)->op.param_bytes(); }

int32_t ref_enqueue(dpi_backend_stream*, const dpi_backend_op* handle, const dpi_op_call* call,
                    dpi_backend_error* err) {
  const OwnedOp& op = reinterpret_cast<const RefOp*>(handle)->op;
  if (call->rows == 0) return 0;
  return guarded(err, [&]() -> Status {
    DPI_RETURN_IF_ERROR(check_call(op, *call));
    form_of(op.kind).ref(op, *call);
    return ok_status();
  });
}

dpi_backend_api make_ref_api() {
  dpi_backend_api api{};
  api.abi_version = DPI_BACKEND_ABI;
  api.struct_size = sizeof(api);
  api.name = "ref";
  api.open = ref_open;
  api.close = ref_close;
  api.caps = ref_caps;
  api.op_prepare = ref_op_prepare;
  api.op_free = ref_op_free;
  api.op_scratch_bytes = ref_op_scratch_bytes;
  api.enqueue = ref_enqueue;
  api.op_bytes = ref_op_bytes;
  fill_host_members(&api);
  return api;
}

}  // namespace

const dpi_backend_api* ref_backend() {
  static const dpi_backend_api kApi = make_ref_api();
  return &kApi;
}

namespace {
const AtLoad g_ref_api([] { ref_backend(); });
}  // namespace

}  // namespace dpi::backend
