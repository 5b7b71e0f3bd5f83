// The parts of dpi_backend_api that every backend in host memory has in common: aligned memory, streams and
// events that need no work because the calling thread executes each op when it is enqueued. Used by `ref`;
// `cpu` may use what fits.
#pragma once

#include <exception>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"

namespace dpi::backend {

/// Alignment of alloc results: one cache line, one AVX-512 register.
constexpr uint32_t kHostAlignment = 64;

/// Precisions, numbered as in dpi_backend_options.
constexpr int32_t kPrecisionBf16 = 3, kPrecisionInt8 = 4;

/// Host memory computes in fp32, and in what `others` names: kUnsupported, with what to do, when the options
/// ask for another precision.
Status check_precision(const char* backend, const dpi_backend_options& options,
                       std::initializer_list<int32_t> others = {});

/// Fills err and returns the code; kOk clears the text.
int32_t report(const Status& status, dpi_backend_error* err) noexcept;
int32_t report(Code code, const char* text, dpi_backend_error* err) noexcept;

/// Runs `body` (returning Status): what every function of dpi_backend_api that may need memory does. Nothing
/// may leave the C interface as an exception: a plugin has a C++ runtime of its own.
template <class Body>
int32_t guarded(dpi_backend_error* err, Body&& body) noexcept {
  try {
    const Status s = body();
    return s.ok() ? 0 : report(s, err);
  } catch (const std::bad_alloc&) {
    return report(Code::kOutOfMemory, "out of memory", err);
  } catch (const std::exception& e) {
    return report(Code::kInternal, e.what(), err);
  } catch (...) {
    return report(Code::kInternal, "an exception that is not known", err);
  }
}

/// Copies `text` into buf, cut to cap - 1 characters. buf may be null.
void copy_text(std::string_view text, char* buf, size_t cap) noexcept;

/// Memory of one device: from the host program's hooks when there are some, else from the C library, or from
/// the kernel if a block is large.
class HostMemory {
 public:
  explicit HostMemory(const dpi_backend_options& o)
      : hooks_(o.memory), held_(o.held), held_self_(o.held_self) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// Rounds `bytes` up to a multiple of `alignment`.
  Status allocate(size_t bytes, size_t alignment, int32_t kind, void** out);
  void release(void* p, int32_t kind);

 private:
  void* take(size_t bytes, size_t alignment, int32_t kind);
  bool remember(void* p, size_t bytes);
  void give_back(void* p, size_t bytes, int32_t kind);
  void count(int64_t bytes) const {
    if (held_ != nullptr) held_(held_self_, bytes, 0);
  }

  const dpi_backend_memory* hooks_;
  void (*held_)(void* self, int64_t bytes, int32_t on_device);
  void* held_self_;
  std::mutex mutex_;                         // of bytes_; not held while a hook runs
  std::unordered_map<void*, size_t> bytes_;  // of mapped blocks, and of all from hooks
};

/// The base of every device in host memory: what dpi_backend_device points to.
struct HostDevice {
  std::unique_ptr<HostMemory> memory;
};

/// Sets the members of `api` that host memory decides: alloc, free, upload, download, copies, streams and
/// events. Capture and event_elapsed stay null.
void fill_host_members(dpi_backend_api* api);

/// memory_total and memory_free of this machine, in bytes.
void fill_host_memory(dpi_backend_caps* caps);

}  // namespace dpi::backend
