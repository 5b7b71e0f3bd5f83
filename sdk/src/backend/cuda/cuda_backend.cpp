// The backend `cuda` (and, over the emulated device layer, `cuda_emu`): dpi_backend_api over kernels/cuda and
// the device layer. Built into a plugin of its own, which exports the two functions at the end.
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "backend/cuda/device/cuda_handles.hpp"
#include "backend/cuda/device/peer_ranges.hpp"
#include "backend/cuda/small_batch/small_batch_op.hpp"
#include "kernels/cuda/small_batch/launch.hpp"
#include "ops/check_op.hpp"

namespace dpi::backend {
namespace {

constexpr uint32_t kAlignment = 256;  // of cudaMalloc
constexpr int32_t kStreams = 4;
constexpr const char* kTuneAgain = "; measure on this machine again, or set option tuning=off";

// ---- device

CudaOptions options_of(const dpi_backend_options& o) {
  CudaOptions c;
  c.precision = o.precision;
  c.strict = o.strict != 0;
  if (o.lookup != nullptr) c.lookup = o.lookup;
  if (o.fetch != nullptr) c.fetch_in_place = std::string_view(o.fetch) == "in_place";
  if (o.tuning != nullptr) c.tuning = o.tuning;
  return c;
}

/// Refuses options that nobody has measured yet, except in builds with DPI_MEASURE.
Status check_measured(const CudaOptions& o) {
  const auto refuse = [](const char* option) {
    return unsupported(std::string(option) +
                       " is for measurements and not in this build: configure it with -DDPI_MEASURE=ON");
  };
  if (o.lookup == "input_first" && !kernels::cuda::has_input_first())
    return refuse("debug.lookup=input_first");
  if (o.fetch_in_place && !kernels::cuda::small_batch::has_fetch_in_place())
    return refuse("debug.fetch=in_place");
  return ok_status();
}

Status open_device(const dpi_backend_options& o, CudaDevice** out) {
  std::string why;
  const int n = layer::device_count(&why);
  if (n == 0) return {Code::kNoDevice, why};
  const int index = o.device_index < 0 ? 0 : o.device_index;
  if (index >= n)
    return {Code::kNoDevice, "GPU " + std::to_string(index) + " asked, there are " + std::to_string(n)};
  if (const int code = layer::use(index); code != 0) return native_status(code, "opening the GPU");
  DPI_RETURN_IF_ERROR(check_kernels());
  CudaOptions options = options_of(o);
  DPI_RETURN_IF_ERROR(check_measured(options));
  DPI_ASSIGN_OR_RETURN(options.gemm,
                       open_gemm_device(index, options.precision, options.strict, options.tuning));
  auto device = std::make_unique<CudaDevice>();
  device->index = index;
  device->debug = o.debug != 0;
  device->options = std::move(options);
  device->log = o.log;
  device->log_sink = o.log_sink;
  device->held = o.held;
  device->held_self = o.held_self;
  if (const std::string& note = device->options.gemm->tuning_note; !note.empty())
    device->warn("tuning", note + kTuneAgain);
  *out = device.release();
  return ok_status();
}

int32_t cuda_open(const dpi_backend_options* o, dpi_backend_device** out, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    CudaDevice* device = nullptr;
    DPI_RETURN_IF_ERROR(open_device(*o, &device));
    *out = reinterpret_cast<dpi_backend_device*>(device);
    return ok_status();
  });
}

void cuda_close(dpi_backend_device* d) { delete &device_of(d); }

int32_t cuda_caps(dpi_backend_device* d, dpi_backend_caps* out, dpi_backend_error* err) {
  layer::use(device_of(d).index);
  layer::Properties p;
  if (const int code = layer::properties(device_of(d).index, &p); code != 0)
    return done(code, "properties of the GPU", err);
  out->flags = DPI_BACKEND_CAPTURE | DPI_BACKEND_FETCH | DPI_BACKEND_HALF | DPI_BACKEND_ROWS;
  out->max_streams = kStreams;
  out->device_index = device_of(d).index;
  out->memory_total = p.memory_total;
  out->memory_free = p.memory_free;
  out->alignment = kAlignment;
  copy_text(p.name, out->device_name, sizeof(out->device_name));
  return 0;
}

void give_back(void* p, int32_t kind) {
  kind == DPI_MEMORY_STAGING ? layer::pinned_free(p) : layer::device_free(p);
}

int32_t remember(CudaDevice& device, void* p, size_t bytes, int32_t kind, dpi_backend_error* err) {
  const int32_t code = guarded(err, [&] {
    const std::lock_guard<std::mutex> lock(device.blocks_mutex);
    device.blocks[p] = bytes;
    return ok_status();
  });
  if (code == 0) device.count(static_cast<int64_t>(bytes), kind != DPI_MEMORY_STAGING);
  return code;
}

int32_t cuda_alloc(dpi_backend_device* d, size_t bytes, int32_t kind, void** out, dpi_backend_error* err) {
  *out = nullptr;
  layer::use(device_of(d).index);
  const size_t n = bytes > 0 ? bytes : 1;
  const int code = kind == DPI_MEMORY_STAGING ? layer::pinned_alloc(n, out) : layer::device_alloc(n, out);
  if (code == 0) {
    const int32_t kept = remember(device_of(d), *out, n, kind, err);
    if (kept != 0) give_back(std::exchange(*out, nullptr), kind);
    return kept;
  }
  *out = nullptr;
  return guarded(err, [&] { return native_status(code, "allocating " + std::to_string(bytes) + " bytes"); });
}

void cuda_free(dpi_backend_device* d, void* p, int32_t kind) {
  if (p == nullptr) return;
  CudaDevice& device = device_of(d);
  layer::use(device.index);
  size_t bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(device.blocks_mutex);
    const auto it = device.blocks.find(p);
    if (it != device.blocks.end()) {
      bytes = it->second;
      device.blocks.erase(it);
    }
  }
  device.count(-static_cast<int64_t>(bytes), kind != DPI_MEMORY_STAGING);
  give_back(p, kind);
}

int32_t cuda_copy(dpi_backend_device* d, void* dst, const void* src, size_t bytes, dpi_backend_error* err) {
  if (bytes == 0) return 0;
  layer::use(device_of(d).index);
  return done(copy_by_pieces(dst, src, bytes), "copy", err);
}

// ---- ops

// A line of the tuning table that fits an op and cannot be followed: the op's report has it as "tuning: ...".
void log_ignored_lines(const CudaDevice& device, const dpi_op_desc& op, const std::string& report) {
  constexpr std::string_view kKey = "tuning: ";
  const size_t at = report.find(kKey);
  if (at == std::string::npos || !device.options.gemm->tuning_note.empty()) return;
  const std::string what = report.substr(at + kKey.size(), report.find(';', at) - at - kKey.size());
  device.warn("tuning", std::string("op '") + op.name + "': a line of the tuning table is ignored: " + what +
                            kTuneAgain);
}

int32_t cuda_op_prepare(dpi_backend_device* d, const dpi_op_desc* desc, dpi_backend_op** out, char* text,
                        size_t cap, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    layer::use(device_of(d).index);
    auto op = std::make_unique<CudaOp>();
    op->device = device_of(d).index;
    std::string chosen;
    if (Status s = prepare_cuda_op(*desc, device_of(d).options, &device_of(d).beyond_half, op.get(), &chosen);
        !s.ok()) {
      copy_text("refused: " + std::string(layer::plugin_name()) + ": " + s.message(), text, cap);
      return s;
    }
    copy_text("chosen: " + chosen, text, cap);
    log_ignored_lines(device_of(d), *desc, chosen);
    *out = reinterpret_cast<dpi_backend_op*>(op.release());
    return ok_status();
  });
}

void cuda_op_free(dpi_backend_device*, dpi_backend_op* op) { delete reinterpret_cast<CudaOp*>(op); }

size_t cuda_op_scratch_bytes(const dpi_backend_op* op, int64_t rows) {
  return cuda_scratch_bytes(*reinterpret_cast<const CudaOp*>(op), rows);
}

size_t cuda_op_bytes(const dpi_backend_op* handle) {
  const CudaOp& op = *reinterpret_cast<const CudaOp*>(handle);
  return op.weight_bytes + (op.gemm != nullptr ? op.gemm->weight_bytes() : 0);
}

int32_t cuda_enqueue(dpi_backend_stream* s, const dpi_backend_op* handle, const dpi_op_call* call,
                     dpi_backend_error* err) {
  const CudaOp& op = *reinterpret_cast<const CudaOp*>(handle);
  if (call->rows == 0) return 0;
  return guarded(err, [&]() -> Status {
    if (call->checked == 0) DPI_RETURN_IF_ERROR(check_call(op.op, *call));
    layer::use(handle_of(s).device);
    const int code = start_cuda_op(op, *call, handle_of(s).native);
    return code == 0 ? ok_status() : native_status(code, "op '" + op.op.name + "'");
  });
}

void fill_api(dpi_backend_api* api) {
  *api = {};
  api->abi_version = DPI_BACKEND_ABI;
  api->struct_size = sizeof(*api);
  api->name = layer::plugin_name();
  api->open = cuda_open;
  api->close = cuda_close;
  api->caps = cuda_caps;
  api->alloc = cuda_alloc;
  api->free = cuda_free;
  api->upload = cuda_copy;
  api->download = cuda_copy;
  api->op_prepare = cuda_op_prepare;
  api->op_free = cuda_op_free;
  api->op_scratch_bytes = cuda_op_scratch_bytes;
  api->enqueue = cuda_enqueue;
  api->op_bytes = cuda_op_bytes;
  fill_range_functions(api);
  fill_stream_functions(api);
  small_batch::fill_small_batch_functions(api);
}

}  // namespace
}  // namespace dpi::backend

extern "C" __attribute__((visibility("default"))) const char* dpi_backend_layout_v1() {
  return DPI_BACKEND_LAYOUT;
}

extern "C" __attribute__((visibility("default"))) int32_t dpi_backend_init_v1(uint32_t core_abi,
                                                                              dpi_backend_api* out) {
  if (core_abi != DPI_BACKEND_ABI) {
    out->abi_version = DPI_BACKEND_ABI;
    return static_cast<int32_t>(dpi::Code::kUnsupported);
  }
  dpi::backend::fill_api(out);
  return 0;
}

extern "C" __attribute__((visibility("default"))) int32_t dpi_backend_score_v1(char* why, size_t cap) {
  try {
    std::string reason;
    if (dpi::backend::layer::device_count(&reason) > 0) return 100;
    dpi::backend::copy_text(reason, why, cap);
  } catch (const std::exception&) {
    if (cap > 0) why[0] = '\0';
  }
  return 0;
}
