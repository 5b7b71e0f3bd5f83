// Values of users of earlier calls (option user_cache_bytes), in host memory that is taken when the model is
// loaded. A user is found by the bytes of the packed shared inputs: a hash says where to look, the bytes
// themselves are compared. Entries lie in sets of about eight; of a set the one that was used longest ago
// goes.
//
// Any number of threads may call. Nobody waits: a reader pins its entry, and a set whose entries are all
// pinned or being written takes nothing new. Hits of different users write no cache line in common.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/abi/backend_status.hpp"
#include "plan/plan.hpp"
#include "runtime/engine/user_part.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

struct UserCacheSizes {
  int64_t key_bytes = 0;    // room for the inputs of one user
  int64_t value_bytes = 0;  // what is kept of one user
  int64_t entries = 0;      // users

  uint64_t entry_bytes() const;  // of all that belongs to an entry
  uint64_t bytes() const { return static_cast<uint64_t>(entries) * entry_bytes(); }

  /// `bytes` hold so many entries.
  static UserCacheSizes make(const ResolveSchema& schema, const UserPart& part, uint64_t bytes);
};

/// The packed shared inputs of one user as bytes; nothing where they are longer than `key`.
std::span<const std::byte> user_key(const ResolveSchema& schema, const InputMap& map, const std::byte* block,
                                    int64_t user, std::span<std::byte> key);

class UserCache {
 public:
  /// The memory is the device's, which outlives this. All of it is written once, so that its pages are taken
  /// now and not by calls; `step` is asked between parts of it, and ends what it fails.
  static Result<std::unique_ptr<UserCache>> create(const dpi_backend_api& api, dpi_backend_device* device,
                                                   const UserCacheSizes& sizes,
                                                   const std::function<Status()>& step);
  ~UserCache();
  UserCache(const UserCache&) = delete;
  UserCache& operator=(const UserCache&) = delete;

  /// An entry's number, or none.
  static constexpr int64_t kNone = -1;

  /// The user's entry, pinned until release(); kNone where there is none.
  int64_t find(std::span<const std::byte> key);
  void release(int64_t entry);

  /// An entry that the caller alone may write until publish() or abandon(); kNone where somebody writes the
  /// same user's, or all entries of the set are in use.
  int64_t claim(std::span<const std::byte> key);
  void publish(int64_t entry);
  void abandon(int64_t entry);

  /// Kept values of a pinned or claimed entry: sizes().value_bytes.
  std::byte* values(int64_t entry) const { return data_ + entry * stride_ + key_room_; }
  const UserCacheSizes& sizes() const { return sizes_; }

 private:
  static constexpr int32_t kEmpty = 0, kWriting = -1, kReady = 1;  // kReady + n: read by n callers
  static constexpr int64_t kWays = 8;
  struct alignas(64) Head {
    std::atomic<int32_t> state{kEmpty};
    std::atomic<uint32_t> key_bytes{0};
    std::atomic<uint64_t> hash{0};
    std::atomic<uint64_t> used_ns{0};
  };
  friend struct UserCacheSizes;

  UserCache(const dpi_backend_api& api, dpi_backend_device* device, const UserCacheSizes& sizes);
  struct Set {
    int64_t first = 0, end = 0;
  };
  Set set_of(uint64_t hash) const;
  std::byte* key(int64_t entry) const { return data_ + entry * stride_; }
  bool pin(int64_t entry);

  const dpi_backend_api& api_;
  dpi_backend_device* const device_;
  const UserCacheSizes sizes_;
  const int64_t key_room_, stride_;
  void* block_ = nullptr;
  Head* heads_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace dpi
