// The backend `cpu`: vectorised kernels of the instruction set chosen when the device is opened, on the
// calling thread.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "backend/abi/backend_status.hpp"
#include "backend/abi/registry.hpp"
#include "backend/cpu/cpu_op.hpp"
#include "backend/host_device.hpp"
#include "base/at_load.hpp"
#include "base/log.hpp"
#include "kernels/cpu/tile_permission.hpp"
#include "ops/check_op.hpp"

namespace dpi::backend {

namespace {

namespace cpu = kernels::cpu;

struct CpuDevice : HostDevice {
  cpu::Isa isa = cpu::Isa::kScalar;
  cpu::Weights weights = cpu::Weights::kF32;
};

CpuDevice& device_of(dpi_backend_device* d) {
  return *static_cast<CpuDevice*>(reinterpret_cast<HostDevice*>(d));
}

/// kAmx where the kernel lets the process use it, else the next best, and the log says so.
cpu::Isa with_tiles(const dpi_backend_options& o, cpu::Weights weights, LogLevel level) {
  if (cpu::ask_for_tiles()) return cpu::Isa::kAmx;
  const cpu::Isa next = cpu::best_isa(weights);
  const char* const why = cpu::tiles_refusal();
  const std::string told = std::string("isa=amx is not used: ") + (why != nullptr ? why : "it was refused") +
                           "; " + cpu::isa_name(next) + " is used instead";
  if (o.log != nullptr) o.log(o.log_sink, static_cast<int32_t>(level), "device", told.c_str());
  return next;
}

Result<cpu::Isa> parse_isa(const dpi_backend_options& o, cpu::Weights weights) {
  const std::string text = o.isa != nullptr ? o.isa : "auto";
  const bool narrow = weights != cpu::Weights::kF32;
  if (text == "auto" || text.empty()) {
    const bool tiles = narrow && cpu::isa_supported(cpu::Isa::kAmx);
    return tiles ? with_tiles(o, weights, LogLevel::kInfo) : cpu::best_isa(weights);
  }
  for (const cpu::Isa isa : cpu::kIsas) {
    if (text != cpu::isa_name(isa)) continue;
    if (isa == cpu::Isa::kAmx && narrow && cpu::isa_supported(isa))
      return with_tiles(o, weights, LogLevel::kWarn);
    if (cpu::isa_supported(isa)) return isa;
    return unsupported("isa=" + text + ": this processor lacks it; isa=auto takes the best it has");
  }
  return invalid_argument(
      "isa='" + text +
      "' is none of auto, scalar, avx2, avx512, avx512_bf16, avx512_vnni, amx, neon, neon_dot, neon_mmla");
}

/// The type of packed weights for a precision that has passed check_precision.
cpu::Weights weights_of(int32_t precision) {
  if (precision == kPrecisionInt8) return cpu::Weights::kInt8;
  return precision == kPrecisionBf16 ? cpu::Weights::kBf16 : cpu::Weights::kF32;
}

Result<CpuDevice> make_device(const dpi_backend_options& o) {
  DPI_RETURN_IF_ERROR(check_precision("cpu", o, {kPrecisionBf16, kPrecisionInt8}));
  if (o.device_index > 0) {
    return Status(Code::kNoDevice, "cpu has one device, index " + std::to_string(o.device_index) + " asked");
  }
  CpuDevice device;
  device.weights = weights_of(o.precision);
  DPI_ASSIGN_OR_RETURN(device.isa, parse_isa(o, device.weights));
  device.memory = std::make_unique<HostMemory>(o);
  return device;
}

int32_t cpu_open(const dpi_backend_options* options, dpi_backend_device** out, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(CpuDevice device, make_device(*options));
    HostDevice* const opened = new CpuDevice(std::move(device));
    *out = reinterpret_cast<dpi_backend_device*>(opened);
    return ok_status();
  });
}

void cpu_close(dpi_backend_device* d) { delete &device_of(d); }

/// Why tile registers are not used, where the processor has them and the kernel refuses them.
std::string tiles_note(cpu::Isa isa) {
  if (isa == cpu::Isa::kAmx || !cpu::isa_supported(cpu::Isa::kAmx)) return "";
  const char* const why = cpu::tiles_refusal();
  return why == nullptr ? "" : std::string("; no amx: ") + why;
}

/// The set that fp32 layers of `isa` run by.
cpu::Isa base_of(cpu::Isa isa) {
  if (isa == cpu::Isa::kNeonDot || isa == cpu::Isa::kNeonMmla) return cpu::Isa::kNeon;
  return isa == cpu::Isa::kAmx || isa == cpu::Isa::kAvx512Bf16 || isa == cpu::Isa::kAvx512Vnni
             ? cpu::Isa::kAvx512
             : isa;
}

/// A note that isa=auto would take more than the device has, if it would.
std::string wider_note(const CpuDevice& d) {
  const cpu::Isa best = cpu::best_isa(d.weights);
  const bool less = d.weights == cpu::Weights::kF32 ? base_of(d.isa) != base_of(best) : d.isa < best;
  return less ? std::string("; isa=auto takes ") + cpu::isa_name(best) : "";
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

int32_t cpu_caps(dpi_backend_device* d, dpi_backend_caps* out, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    out->flags = DPI_BACKEND_HOST_MEMORY | DPI_BACKEND_ROWS;
    out->max_streams = 1;
    out->device_index = 0;
    out->alignment = kHostAlignment;
    const CpuDevice& device = device_of(d);
    copy_text(
        processor_name() + ", " + cpu::isa_name(device.isa) + tiles_note(device.isa) + wider_note(device),
        out->device_name, sizeof(out->device_name));
    fill_host_memory(out);
    return ok_status();
  });
}

int32_t cpu_op_prepare(dpi_backend_device* d, const dpi_op_desc* desc, dpi_backend_op** out, char* text,
                       size_t cap, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    auto op = std::make_unique<CpuOp>();
    DPI_ASSIGN_OR_RETURN(op->op, own_op(*desc));
    DPI_RETURN_IF_ERROR(check_op(op->op));
    DPI_RETURN_IF_ERROR(choose(*op, device_of(d).isa, device_of(d).weights));
    copy_text(op->report, text, cap);
    *out = reinterpret_cast<dpi_backend_op*>(op.release());
    return ok_status();
  });
}

void cpu_op_free(dpi_backend_device*, dpi_backend_op* op) { delete reinterpret_cast<CpuOp*>(op); }

size_t cpu_op_scratch_bytes(const dpi_backend_op* op, int64_t rows) {
  return scratch_bytes(*reinterpret_cast<const CpuOp*>(op), rows);
}

size_t cpu_op_bytes(const dpi_backend_op* op) {
  const CpuOp& o = *reinterpret_cast<const CpuOp*>(op);
  return o.op.param_bytes() + o.packed_bytes;
}

int32_t cpu_enqueue(dpi_backend_stream*, const dpi_backend_op* handle, const dpi_op_call* call,
                    dpi_backend_error* err) {
  const CpuOp& op = *reinterpret_cast<const CpuOp*>(handle);
  if (call->rows == 0) return 0;
  if (call->checked == 0) {
    const int32_t refused = guarded(err, [&] { return check_call(op.op, *call); });
    if (refused != 0) return refused;
  }
  op.run(op, *call);
  return 0;
}

int32_t cpu_op_parts(const dpi_backend_op* op) { return reinterpret_cast<const CpuOp*>(op)->parts; }

void cpu_run_part(const dpi_backend_op* handle, const dpi_op_call* call, int32_t part, int32_t parts) {
  const CpuOp& op = *reinterpret_cast<const CpuOp*>(handle);
  if (call->rows == 0) return;
  if (parts > 1) return op.run_part(op, *call, {part, parts});
  op.run(op, *call);
}

dpi_backend_api make_cpu_api() {
  dpi_backend_api api{};
  api.abi_version = DPI_BACKEND_ABI;
  api.struct_size = sizeof(api);
  api.name = "cpu";
  fill_host_members(&api);
  api.open = cpu_open;
  api.close = cpu_close;
  api.caps = cpu_caps;
  api.op_prepare = cpu_op_prepare;
  api.op_free = cpu_op_free;
  api.op_scratch_bytes = cpu_op_scratch_bytes;
  api.enqueue = cpu_enqueue;
  api.op_bytes = cpu_op_bytes;
  api.op_parts = cpu_op_parts;
  api.run_part = cpu_run_part;
  return api;
}

}  // namespace

const dpi_backend_api* cpu_backend() {
  static const dpi_backend_api kApi = make_cpu_api();
  return &kApi;
}

namespace {
const AtLoad g_cpu_api([] { cpu_backend(); });
}  // namespace

}  // namespace dpi::backend
