// The hashes of the leaves of a bundle's data sets (FORMAT.md part 1), kept with a version that serves: of
// the next one, those of leaves that a delta left as they are need not be made again. So what a delta makes
// is compared with the hashes of the version that it says it makes, without reading all of it.
//
//   auto leaves = std::make_shared<LeafHashes>(bundle);   // none is made
//   while (leaves->make_next() > 0) {}                    // in the background
//   next->check(*leaves, changes, how);                   // next: of what a delta makes of the bundle
//
// Who calls it: runtime/endpoint. make_next by one thread at a time; everything else by any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/content_hash.hpp"
#include "bundle/patch.hpp"

namespace dpi {

class LeafHashes {
 public:
  struct How {
    HashWorkers workers{};
    std::function<Status(uint64_t bytes)> go_on;  // hears of what was read, and may end it
  };

  /// Throws bad_alloc. 32 bytes for each MiB of data, and a MiB until all are made.
  explicit LeafHashes(std::shared_ptr<Bundle> bundle);

  /// Reads one leaf more. How many bytes that was; 0: all are made, or the file cannot be read. Allocates
  /// nothing.
  uint64_t make_next() noexcept;
  /// Bytes of leaves that are not made yet.
  uint64_t unmade_bytes() const;

  /// Makes those of every data set that a delta changed; `base`: of the bundle that it starts from. kBadModel
  /// names a data set that is not what its user block says.
  Status check(const LeafHashes& base, const DataMaps& changed, const How& how);
  /// The same bytes, elsewhere.
  void move_to(std::shared_ptr<Bundle> bundle);

 private:
  struct Set {
    const DataSetInfo* info = nullptr;  // of the bundle
    std::vector<ContentHash> leaves;
    std::vector<bool> made;

    uint64_t bytes(size_t leaf) const;
  };
  struct Work;

  const Set* find(std::string_view path) const;
  std::optional<ContentHash> leaf(const Set& set, size_t k) const;
  void put(Set& set, size_t k, const ContentHash& hash);
  Status hash(const Set& set, size_t k, std::byte* buffer, ContentHash* out) const;
  std::vector<size_t> take_over(Set& set, const LeafHashes& base, const RowMap* map);
  Status make(Set& set, std::span<const size_t> leaves, const How& how);

  std::shared_ptr<Bundle> bundle_;
  std::vector<Set> sets_;  // by path
  std::unique_ptr<std::byte[]> buffer_;
  size_t next_set_ = 0, next_leaf_ = 0;  // of make_next

  mutable std::mutex mutex_;  // of `leaves` and `made` of all sets
};

}  // namespace dpi
