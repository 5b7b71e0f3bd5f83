#include "runtime/engine/user_cache.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/clock.hpp"

namespace dpi {

namespace {

constexpr int64_t kLine = 64;

// A bag without a max_len: longer ones are computed every time.
constexpr int64_t kMostOfABag = 4096;

// More bytes than a machine has, whose sums do not wrap.
constexpr uint64_t kMostBytes = uint64_t{1} << 56;

constexpr size_t kStep = size_t{64} << 20;  // of memory that is written at load

int64_t whole_lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

int64_t row_bytes(int32_t columns) { return int64_t{columns} * 4; }

/// Appends, as long as there is room.
class KeyWriter {
 public:
  explicit KeyWriter(std::span<std::byte> to) : to_(to) {}

  void add(const void* from, int64_t bytes) {
    const auto n = static_cast<size_t>(bytes);
    fits_ = fits_ && n <= to_.size() - at_;
    if (!fits_ || n == 0) return;
    std::memcpy(to_.data() + at_, from, n);
    at_ += n;
  }
  std::span<const std::byte> take() const { return to_.first(fits_ ? at_ : 0); }

 private:
  std::span<std::byte> to_;
  size_t at_ = 0;
  bool fits_ = true;
};

}  // namespace

uint64_t UserCacheSizes::entry_bytes() const {
  return sizeof(UserCache::Head) + static_cast<uint64_t>(whole_lines(key_bytes) + whole_lines(value_bytes));
}

UserCacheSizes UserCacheSizes::make(const ResolveSchema& schema, const UserPart& part, uint64_t bytes) {
  UserCacheSizes s;
  if (!part.any() || bytes == 0) return s;
  s.key_bytes = row_bytes(schema.n_ids.shared) + row_bytes(schema.n_floats.shared);
  for (const int32_t i : schema.sequences) {
    const ResolveSchema::Feature& f = schema.features[static_cast<size_t>(i)];
    if (f.spec.space != RowSpace::kShared) continue;
    const int64_t most = f.max_bag > 0 ? f.max_bag : kMostOfABag;
    s.key_bytes += 4 + most * (f.spec.weighted ? 8 : 4);
  }
  s.value_bytes = part.bytes;
  s.entries = static_cast<int64_t>(std::min(bytes, kMostBytes) / s.entry_bytes());
  return s;
}

std::span<const std::byte> user_key(const ResolveSchema& schema, const InputMap& map, const std::byte* block,
                                    int64_t user, std::span<std::byte> key) {
  KeyWriter out(key);
  const int64_t ids = row_bytes(schema.n_ids.shared), floats = row_bytes(schema.n_floats.shared);
  out.add(block + map.ids.shared + user * ids, ids);
  out.add(block + map.dense.shared + user * floats, floats);
  for (size_t k = 0; k < schema.sequences.size(); ++k) {
    const FeatureSpec& f = schema.features[static_cast<size_t>(schema.sequences[k])].spec;
    if (f.space != RowSpace::kShared) continue;
    const InputMap::Sequence& s = map.sequences[k];
    const auto* offsets = reinterpret_cast<const int32_t*>(block + s.offsets) + user;
    const int32_t n = offsets[1] - offsets[0];
    out.add(&n, sizeof n);
    out.add(block + s.ids + int64_t{offsets[0]} * 4, int64_t{n} * 4);
    if (f.weighted) out.add(block + s.weights + int64_t{offsets[0]} * 4, int64_t{n} * 4);
  }
  return out.take();
}

UserCache::UserCache(const dpi_backend_api& api, dpi_backend_device* device, const UserCacheSizes& sizes)
    : api_(api),
      device_(device),
      sizes_(sizes),
      key_room_(whole_lines(sizes.key_bytes)),
      stride_(key_room_ + whole_lines(sizes.value_bytes)) {}

Result<std::unique_ptr<UserCache>> UserCache::create(const dpi_backend_api& api, dpi_backend_device* device,
                                                     const UserCacheSizes& sizes,
                                                     const std::function<Status()>& step) {
  std::unique_ptr<UserCache> c(new UserCache(api, device, sizes));
  dpi_backend_error err{};
  const int32_t code = api.alloc(device, sizes.bytes(), DPI_MEMORY_ARENA, &c->block_, &err);
  DPI_RETURN_IF_ERROR(backend_status(code, err, "option user_cache_bytes"));
  for (uint64_t at = 0; at < sizes.bytes(); at += kStep) {
    DPI_RETURN_IF_ERROR(step());
    std::memset(static_cast<std::byte*>(c->block_) + at, 0, std::min<uint64_t>(kStep, sizes.bytes() - at));
  }
  c->heads_ = static_cast<Head*>(c->block_);
  for (int64_t i = 0; i < sizes.entries; ++i) new (c->heads_ + i) Head();
  c->data_ = static_cast<std::byte*>(c->block_) + sizes.entries * static_cast<int64_t>(sizeof(Head));
  return c;
}

UserCache::~UserCache() {
  if (block_ != nullptr) api_.free(device_, block_, DPI_MEMORY_ARENA);
}

UserCache::Set UserCache::set_of(uint64_t hash) const {
  const int64_t sets = std::max<int64_t>(1, sizes_.entries / kWays);
  const auto set = static_cast<int64_t>(hash % static_cast<uint64_t>(sets));
  const int64_t each = sizes_.entries / sets, more = sizes_.entries % sets;  // the first `more` have one more
  const int64_t first = set * each + std::min(set, more);
  return {first, first + each + (set < more ? 1 : 0)};
}

bool UserCache::pin(int64_t entry) {
  std::atomic<int32_t>& state = heads_[entry].state;
  int32_t now = state.load(std::memory_order_relaxed);
  while (now >= kReady)
    if (state.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  return false;
}

void UserCache::release(int64_t entry) { heads_[entry].state.fetch_sub(1, std::memory_order_release); }

int64_t UserCache::find(std::span<const std::byte> key_of) {
  const uint64_t hash = XXH3_64bits(key_of.data(), key_of.size());
  const Set set = set_of(hash);
  for (int64_t i = set.first; i < set.end; ++i) {
    Head& head = heads_[i];
    if (head.hash.load(std::memory_order_relaxed) != hash || !pin(i)) continue;
    if (head.key_bytes.load(std::memory_order_relaxed) == key_of.size() &&
        std::memcmp(key(i), key_of.data(), key_of.size()) == 0) {
      head.used_ns.store(monotonic_ns(), std::memory_order_relaxed);
      return i;
    }
    release(i);
  }
  return kNone;
}

int64_t UserCache::claim(std::span<const std::byte> key_of) {
  const uint64_t hash = XXH3_64bits(key_of.data(), key_of.size());
  const Set set = set_of(hash);
  int64_t oldest = kNone;
  int32_t seen = kEmpty;
  uint64_t least = 0;
  for (int64_t i = set.first; i < set.end; ++i) {
    const int32_t state = heads_[i].state.load(std::memory_order_relaxed);
    if (state == kWriting && heads_[i].hash.load(std::memory_order_relaxed) == hash) return kNone;
    if (state != kEmpty && state != kReady) continue;
    const uint64_t used = state == kEmpty ? 0 : heads_[i].used_ns.load(std::memory_order_relaxed);
    if (oldest != kNone && used >= least) continue;
    oldest = i, seen = state, least = used;
  }
  if (oldest == kNone) return kNone;
  Head& head = heads_[oldest];
  if (!head.state.compare_exchange_strong(seen, kWriting, std::memory_order_acquire,
                                          std::memory_order_relaxed))
    return kNone;
  head.hash.store(hash, std::memory_order_relaxed);
  head.key_bytes.store(static_cast<uint32_t>(key_of.size()), std::memory_order_relaxed);
  head.used_ns.store(monotonic_ns(), std::memory_order_relaxed);
  std::memcpy(key(oldest), key_of.data(), key_of.size());
  return oldest;
}

void UserCache::publish(int64_t entry) { heads_[entry].state.store(kReady, std::memory_order_release); }

void UserCache::abandon(int64_t entry) { heads_[entry].state.store(kEmpty, std::memory_order_release); }

}  // namespace dpi
