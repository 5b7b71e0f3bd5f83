#include "backend/cuda/device/peer_ranges.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backend/abi/spread.hpp"
#include "backend/cuda/device/cuda_handles.hpp"

namespace dpi::backend {
namespace {

/// One range; gives back what it has got so far, in whatever state.
class Range {
 public:
  explicit Range(const Spread& spread) : spread_(spread) {}
  ~Range() {
    if (host_) layer::pinned_free(base_);
    if (host_ || base_ == nullptr) return;
    for (uint64_t p = 0; p < made_; ++p) layer::piece_drop(at(p), spread_.bytes_of(p));
    layer::range_free(base_, spread_.bytes);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  Status allocate(const dpi_range_desc& d, bool host);
  char* base() const { return static_cast<char*>(base_); }
  bool holds(const char* p) const { return !host_ && p >= base() && p < base() + spread_.bytes; }
  /// Bytes from p to the end of its piece.
  size_t rest_of_piece(const char* p) const {
    return spread_.unit - static_cast<uint64_t>(p - base()) % spread_.unit;
  }

 private:
  char* at(uint64_t piece) const { return base() + spread_.offset(piece); }

  Spread spread_;
  void* base_ = nullptr;
  bool host_ = false;
  uint64_t made_ = 0;  // pieces
};

Status Range::allocate(const dpi_range_desc& d, bool host) {
  const std::string what = "a range of " + std::to_string(spread_.bytes) + " bytes";
  if (host) {
    const int code = layer::pinned_alloc(spread_.bytes, &base_);
    host_ = code == 0;
    return host_ ? ok_status() : native_status(code, what + " in host memory");
  }
  if (const int code = layer::range_reserve(spread_.bytes, &base_); code != 0)
    return native_status(code, "addresses for " + what);
  for (; made_ < spread_.pieces(); ++made_) {
    const int32_t owner = d.owners[spread_.owner(made_)];
    layer::use(owner);
    if (const int code = layer::piece_make(at(made_), spread_.bytes_of(made_), owner); code != 0)
      return native_status(code, "the share of GPU " + std::to_string(owner) + " in " + what);
  }
  const std::set<int> readers(d.readers, d.readers + d.n_readers);
  const std::vector<int> all(readers.begin(), readers.end());
  const int code = layer::range_access(base_, spread_.bytes, all.data(), static_cast<int>(all.size()));
  return code == 0 ? ok_status() : native_status(code, "access to " + what);
}

/// A range, and what the device that took it was told of it.
struct Counted {
  std::unique_ptr<Range> range;
  int64_t bytes = 0;
  bool on_device = true;
};

/// Ranges of all devices. Load and release look here, calls do not.
struct Ranges {
  std::mutex mutex;
  std::map<char*, Counted> by_base;
};

Ranges& ranges() {
  static auto* const kRanges = new Ranges;  // models may go while the process ends
  return *kRanges;
}

/// The most bytes from p that lie in one piece; `most` where p is in no range.
size_t within_piece(const void* p, size_t most) {
  Ranges& all = ranges();
  const auto* address = static_cast<const char*>(p);
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto next = all.by_base.upper_bound(const_cast<char*>(address));
  if (next == all.by_base.begin()) return most;
  const Range& range = *std::prev(next)->second.range;
  return range.holds(address) ? std::min(most, range.rest_of_piece(address)) : most;
}

// ---- where a range can lie

/// The first of these devices that there is not, -1 = none.
int32_t absent(const int32_t* devices, int32_t n, int32_t there_are) {
  const auto* const at =
      std::find_if(devices, devices + n, [=](int32_t d) { return d < 0 || d >= there_are; });
  return at != devices + n ? *at : -1;
}

/// Why memory of the owners cannot be one range for the readers; "" = it can. granularity: of all owners.
std::string obstacle(const dpi_range_desc& d, uint64_t* granularity) {
  for (int32_t o = 0; o < d.n_owners; ++o) {
    size_t bytes = 0;
    if (layer::piece_granularity(d.owners[o], &bytes) != 0 || bytes == 0)
      return "GPU " + std::to_string(d.owners[o]) + " has no memory that can be mapped";
    *granularity = std::max<uint64_t>(*granularity, bytes);
    for (int32_t r = 0; r < d.n_readers; ++r) {
      if (!layer::can_reach(d.readers[r], d.owners[o]))
        return "GPU " + std::to_string(d.readers[r]) + " cannot reach memory of GPU " +
               std::to_string(d.owners[o]);
    }
  }
  return {};
}

int32_t cuda_range_plan(dpi_backend_device*, const dpi_range_desc* d, int32_t* kind, uint64_t* granularity,
                        char* why, size_t cap, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    std::string reason;
    const int32_t n = layer::device_count(&reason);
    *kind = DPI_RANGE_NONE;
    *granularity = 0;
    int32_t missing = absent(d->owners, d->n_owners, n);
    if (missing < 0) missing = absent(d->readers, d->n_readers, n);
    if (missing >= 0 && n != 1)
      return {Code::kNoDevice, "GPU " + std::to_string(missing) + " asked, there are " + std::to_string(n)};
    if (missing >= 0 || (d->n_owners == 1 && d->n_readers == 1 && d->owners[0] == d->readers[0])) {
      copy_text(missing >= 0 ? "there is one GPU" : "one GPU is named", why, cap);
      return ok_status();
    }
    const std::string stops = obstacle(*d, granularity);
    *kind = stops.empty() ? DPI_RANGE_PEERS : DPI_RANGE_HOST;
    *granularity = std::max(*granularity, Spread::kGranularity);
    copy_text(stops, why, cap);
    return ok_status();
  });
}

int32_t cuda_range_alloc(dpi_backend_device* device, const dpi_range_desc* d, int32_t kind, size_t bytes,
                         void** out, dpi_backend_error* err) {
  *out = nullptr;
  return guarded(err, [&]() -> Status {
    uint64_t granularity = Spread::kGranularity;
    if (kind == DPI_RANGE_PEERS) static_cast<void>(obstacle(*d, &granularity));
    auto range = std::make_unique<Range>(Spread(bytes, granularity, static_cast<uint64_t>(d->n_owners)));
    DPI_RETURN_IF_ERROR(range->allocate(*d, kind == DPI_RANGE_HOST));
    char* const base = range->base();
    Ranges& all = ranges();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const bool on_device = kind != DPI_RANGE_HOST;
    all.by_base.emplace(base, Counted{std::move(range), static_cast<int64_t>(bytes), on_device});
    device_of(device).count(static_cast<int64_t>(bytes), on_device);
    *out = base;
    return ok_status();
  });
}

void cuda_range_free(dpi_backend_device* device, void* p) {
  Counted gone;
  Ranges& all = ranges();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto it = all.by_base.find(static_cast<char*>(p));
  if (it == all.by_base.end()) return;
  gone = std::move(it->second);
  all.by_base.erase(it);
  device_of(device).count(-gone.bytes, gone.on_device);
}

}  // namespace

int copy_by_pieces(void* dst, const void* src, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    char* const to = static_cast<char*>(dst) + done;
    const char* const from = static_cast<const char*>(src) + done;
    const size_t now = within_piece(from, within_piece(to, bytes - done));
    if (const int code = layer::copy_now(to, from, now); code != 0) return code;
    done += now;
  }
  return 0;
}

void fill_range_functions(dpi_backend_api* api) {
  api->range_plan = cuda_range_plan;
  api->range_alloc = cuda_range_alloc;
  api->range_free = cuda_range_free;
}

}  // namespace dpi::backend
