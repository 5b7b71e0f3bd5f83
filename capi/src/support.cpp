#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "handles.hpp"

namespace dpi::capi {

namespace {

/// No struct of any version comes near this; a larger size was never set.
constexpr uint32_t kMaxStruct = 4096;

}  // namespace

static_assert(kModelInfo10 <= sizeof(dpi_model_info) && kFeatureInfo10 <= sizeof(dpi_feature_info));
static_assert(kRunOptions10 <= sizeof(dpi_run_options) && kContextView10 <= sizeof(dpi_context_view));
static_assert(kMemoryHooks10 <= sizeof(dpi_memory_hooks));
static_assert(DPI_BATCH_1_0_SIZE == 136 && DPI_ERROR_1_0_SIZE <= sizeof(dpi_error));
static_assert(static_cast<int32_t>(Code::kInvalidArgument) == DPI_E_INVALID_ARGUMENT);
static_assert(static_cast<int32_t>(Code::kNotFound) == DPI_E_NOT_FOUND);
static_assert(static_cast<int32_t>(Code::kIo) == DPI_E_IO);
static_assert(static_cast<int32_t>(Code::kBadModel) == DPI_E_BAD_MODEL);
static_assert(static_cast<int32_t>(Code::kUnsupported) == DPI_E_UNSUPPORTED);
static_assert(static_cast<int32_t>(Code::kOutOfMemory) == DPI_E_OUT_OF_MEMORY);
static_assert(static_cast<int32_t>(Code::kDevice) == DPI_E_DEVICE);
static_assert(static_cast<int32_t>(Code::kNoDevice) == DPI_E_NO_DEVICE);
static_assert(static_cast<int32_t>(Code::kTimeout) == DPI_E_TIMEOUT);
static_assert(static_cast<int32_t>(Code::kCancelled) == DPI_E_CANCELLED);
static_assert(static_cast<int32_t>(Code::kQueueFull) == DPI_E_QUEUE_FULL);
static_assert(static_cast<int32_t>(Code::kClosed) == DPI_E_CLOSED);
static_assert(static_cast<int32_t>(Code::kForked) == DPI_E_FORKED);
static_assert(static_cast<int32_t>(Code::kVersion) == DPI_E_VERSION);
static_assert(static_cast<int32_t>(Code::kInternal) == DPI_E_INTERNAL);

namespace {

/// The fields of a dpi_error except its text.
struct Told {
  dpi_status code = DPI_OK;
  int64_t row = -1, feature = -1;
  int32_t native_code = 0;
};

dpi_status fill_error(const Told& told, std::string_view text, dpi_error* error) noexcept {
  if (error == nullptr) return told.code;
  const bool was_set = error->struct_size != 0 && error->struct_size <= kMaxStruct;
  const size_t size = was_set ? error->struct_size : DPI_ERROR_1_0_SIZE;
  if (size < kLeastError) return told.code;
  error->code = told.code;
  error->row = told.row;
  error->feature = told.feature;
  error->native_code = told.native_code;
  error->in_shared = text.starts_with("shared row ") ? 1 : 0;
  const size_t room = std::min(size - offsetof(dpi_error, message), sizeof error->message);
  copy_printable(text, error->message, room);
  if (size > sizeof *error)
    std::memset(reinterpret_cast<char*>(error) + sizeof *error, 0, size - sizeof *error);
  return told.code;
}

}  // namespace

dpi_status report(const Status& status, dpi_error* error) noexcept {
  return fill_error(
      Told{static_cast<dpi_status>(status.code()), status.row(), status.feature(), status.native_code()},
      status.message(), error);
}

dpi_status report_thrown(Code code, const char* text, dpi_error* error) noexcept {
  const bool memory = code == Code::kOutOfMemory;
  char whole[sizeof error->message];
  std::snprintf(whole, sizeof whole, "%s%s", memory ? "" : "unexpected exception: ", text);
  return fill_error(Told{static_cast<dpi_status>(code)}, whole, error);
}

namespace {

Status size_fault(const char* name, uint32_t size, size_t min_size) {
  return invalid_argument(std::string(name) + ".struct_size is " + std::to_string(size) +
                          ", expected at least " + std::to_string(min_size) + "; set it to sizeof(" + name +
                          ")");
}

Status check_size(const char* name, uint32_t size, size_t min_size) {
  if (size < min_size) return size_fault(name, size, min_size);
  if (size <= kMaxStruct) return {};
  return invalid_argument(std::string(name) + ".struct_size is " + std::to_string(size) +
                          ", it was never set; set it to sizeof(" + name + ")");
}

uint32_t struct_size_of(const void* p) {
  uint32_t size = 0;
  std::memcpy(&size, p, sizeof size);
  return size;
}

}  // namespace

Status read_struct(const void* from, const char* name, size_t min_size, size_t own_size, void* to) {
  const uint32_t size = struct_size_of(from);
  DPI_RETURN_IF_ERROR(check_size(name, size, min_size));
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (size_t i = own_size; i < size; ++i) {
    if (bytes[i] != 0) {
      return {Code::kVersion, std::string(name) + " has fields set that this library (" +
                                  std::to_string(dpi_version()) + ") does not know; update the library"};
    }
  }
  std::memcpy(to, from, std::min<size_t>(size, own_size));
  return {};
}

Status write_struct(void* to, const char* name, size_t min_size, size_t own_size, const void* from) {
  const uint32_t size = struct_size_of(to);
  DPI_RETURN_IF_ERROR(check_size(name, size, min_size));
  const size_t skip = sizeof(uint32_t);
  const size_t n = std::min<size_t>(size, own_size);
  std::memcpy(static_cast<char*>(to) + skip, static_cast<const char*>(from) + skip, n - skip);
  if (size > own_size) std::memset(static_cast<char*>(to) + own_size, 0, size - own_size);
  return {};
}

size_t give_text(const std::string& text, char* buf, size_t cap) noexcept {
  if (cap > 0 && buf != nullptr) {
    const size_t n = std::min(text.size(), cap - 1);
    std::memcpy(buf, text.data(), n);
    buf[n] = '\0';
  }
  return text.size() + 1;
}

Status to_batch(const dpi_batch* in, Batch* out) {
  if (in == nullptr) return invalid_argument("batch is null");
  dpi_batch b{};
  DPI_RETURN_IF_ERROR(read_struct(in, "dpi_batch", DPI_BATCH_1_0_SIZE, sizeof b, &b));
  if (b.flags != 0) return {Code::kVersion, "dpi_batch.flags has bits this library does not know"};
  if (b.layout != DPI_LAYOUT_ROW_MAJOR && b.layout != DPI_LAYOUT_SLOT_MAJOR) {
    return invalid_argument("dpi_batch.layout is " + std::to_string(b.layout) +
                            ", expected DPI_LAYOUT_ROW_MAJOR or _SLOT_MAJOR");
  }
  if (b.memory != DPI_MEM_HOST) {
    return invalid_argument("dpi_batch.memory is " + std::to_string(b.memory) + ", expected DPI_MEM_HOST");
  }
  out->item = {b.rows, b.dense, b.dense_stride, b.ids, b.offsets, b.weights, b.nnz};
  out->shared = {b.shared_rows,        b.shared_dense,   b.shared_dense_stride, b.shared_ids,
                 b.shared_bag_offsets, b.shared_weights, b.shared_nnz};
  out->shared_offsets = b.shared_offsets;
  out->slot_major = b.layout == DPI_LAYOUT_SLOT_MAJOR;
  return {};
}

Status check_out(const float* out, size_t out_len, int64_t rows, int64_t heads) {
  if (rows <= 0) return {};  // negative rows are refused with the batch
  const auto need = checked_mul(rows, heads);
  if (!need) return invalid_argument("rows x heads overflows");
  if (out == nullptr) return invalid_argument("out is null");
  if (out_len < static_cast<size_t>(*need)) {
    return invalid_argument("out_len is " + std::to_string(out_len) + ", expected at least rows x heads = " +
                            std::to_string(rows) + " x " + std::to_string(heads));
  }
  return {};
}

Status to_control(const dpi_run_options* run, RunControl* out, size_t* logits_len) {
  if (run == nullptr) return {};
  dpi_run_options r{};
  DPI_RETURN_IF_ERROR(read_struct(run, "dpi_run_options", kRunOptions10, sizeof r, &r));
  if (r.flags != 0) return {Code::kVersion, "dpi_run_options.flags has bits this library does not know"};
  out->deadline_ns = r.deadline_ns;
  out->cancel = r.cancel;
  out->logits = r.logits;
  out->version = r.version;
  *logits_len = r.logits_len;
  return {};
}

Status check_logits(const RunControl& control, size_t logits_len, int64_t rows, int64_t heads) {
  if (control.logits == nullptr || rows <= 0) return {};
  const auto need = checked_mul(rows, heads);
  if (need && logits_len >= static_cast<size_t>(*need)) return {};
  return invalid_argument("logits_len is " + std::to_string(logits_len) + ", expected at least rows x heads");
}

}  // namespace dpi::capi
