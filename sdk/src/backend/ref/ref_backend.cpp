// The backend `ref`: executes every op with the reference kernels, in the calling thread, one after the
// other.
#include <exception>
#include <new>

#include "backend/abi/registry.hpp"
#include "backend/bind.hpp"
#include "backend/check_op.hpp"
#include "backend/host_device.hpp"

namespace dpi::backend {
namespace {

using kernels::OpKind;

struct RefDevice {
  dpi_backend_options options;
};

struct RefOp {
  OwnedOp op;
};

Status check_options(const dpi_backend_options& o) {
  if (o.precision != 0)
    return unsupported("ref computes in fp32 only, precision " + std::to_string(o.precision) + " asked");
  if (o.device_index > 0)
    return {Code::kNoDevice, "ref has one device, index " + std::to_string(o.device_index) + " asked"};
  return ok_status();
}

int32_t ref_open(const dpi_backend_options* options, dpi_backend_device** out, dpi_backend_error* err) {
  if (const Status s = check_options(*options); !s.ok()) return report(s, err);
  auto* device = new (std::nothrow) RefDevice{*options};
  if (device == nullptr) return report({Code::kOutOfMemory, "no memory for a device"}, err);
  *out = reinterpret_cast<dpi_backend_device*>(device);
  return 0;
}

void ref_close(dpi_backend_device* device) { delete reinterpret_cast<RefDevice*>(device); }

int32_t ref_caps(dpi_backend_device*, dpi_backend_caps* out, dpi_backend_error*) {
  out->flags = DPI_BACKEND_HOST_MEMORY;
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
  try {
    RefOp* op = nullptr;
    if (const Status s = prepare(*desc, &op); !s.ok()) {
      copy_text("refused: ref: " + s.message(), text, cap);
      return report(s, err);
    }
    copy_text("chosen: ref", text, cap);
    *out = reinterpret_cast<dpi_backend_op*>(op);
    return 0;
  } catch (const std::bad_alloc&) {
    return report({Code::kOutOfMemory, "no memory to prepare an op"}, err);
  } catch (const std::exception& e) {
    return report(internal_error(e.what()), err);
  }
}

void ref_op_free(dpi_backend_device*, dpi_backend_op* op) { delete reinterpret_cast<RefOp*>(op); }

size_t ref_op_scratch_bytes(const dpi_backend_op* handle, int64_t) {
  const OwnedOp& op = reinterpret_cast<const RefOp*>(handle)->op;
  if (op.kind != OpKind::kRecurrent) return 0;
  return 7 * static_cast<size_t>(op.output(0).dims.at(-1)) * sizeof(double);
}

// One line per kind. The kernels neither allocate nor throw.
void run(const OwnedOp& op, const dpi_op_call& call) {
  namespace ref = kernels::ref;
  switch (op.kind) {
    case OpKind::kEmbed:
      return ref::embed(embed_args(op, call));
    case OpKind::kMask:
      return ref::mask(mask_args(op, call));
    case OpKind::kLinear:
      return ref::linear(linear_args(op, call));
    case OpKind::kMatMul:
      return ref::matmul(matmul_args(op, call));
    case OpKind::kBinary:
      return ref::binary(binary_args(op, call));
    case OpKind::kUnary:
      return ref::unary(unary_args(op, call));
    case OpKind::kLayerNorm:
      return ref::layer_norm(layer_norm_args(op, call));
    case OpKind::kSoftmax:
      return ref::softmax(softmax_args(op, call));
    case OpKind::kReduce:
      return ref::reduce(reduce_args(op, call));
    case OpKind::kConcat:
      return ref::concat(concat_args(op, call));
    case OpKind::kView:
      return ref::view(view_args(op, call));
    case OpKind::kRecurrent:
      return ref::recurrent(recurrent_args(op, call));
    case OpKind::kBroadcastRows:
      return ref::broadcast_rows(broadcast_rows_args(op, call));
    case OpKind::kMultiLookup:
      return ref::multi_lookup(multi_lookup_args(op, call));
    case OpKind::kDense:
      return ref::dense(dense_args(op, call));
    case OpKind::kElementwise:
      return ref::elementwise(elementwise_args(op, call));
    case OpKind::kCrossV1:
      return ref::cross_v1(cross_v1_args(op, call));
    case OpKind::kCrossV1Closed:
      return ref::cross_v1_closed(cross_v1_closed_args(op, call));
    case OpKind::kFm:
      return ref::fm(fm_args(op, call));
    case OpKind::kTail:
      return ref::tail(tail_args(op, call));
    default:
      return;  // refused by own_op
  }
}

int32_t ref_enqueue(dpi_backend_stream*, const dpi_backend_op* handle, const dpi_op_call* call,
                    dpi_backend_error* err) {
  const OwnedOp& op = reinterpret_cast<const RefOp*>(handle)->op;
  if (call->rows == 0) return 0;
  if (const Status s = check_call(op, *call); !s.ok()) return report(s, err);
  run(op, *call);
  return 0;
}

dpi_backend_api make_api() {
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
  fill_host_members(&api);
  return api;
}

}  // namespace

const dpi_backend_api* ref_backend() {
  static const dpi_backend_api kApi = make_api();
  return &kApi;
}

}  // namespace dpi::backend
