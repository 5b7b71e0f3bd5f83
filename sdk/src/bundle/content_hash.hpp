// The cryptographic hash of a bundle's bytes (FORMAT.md part 1): BLAKE2b-256 over leaves of 1 MiB, so that
// several threads share the work, and over the list of their hashes. Against people; XXH3 is against damage.
// Leaves, lists and user blocks are told apart by BLAKE2b's personalisation.
//
//   DPI_ASSIGN_OR_RETURN(TreeHash hash, TreeHash::create(TreeHash::kData));
//   hash.add(bytes);  // as often as there are blocks
//   ContentHash h = hash.finish();
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "base/thread_pool.hpp"

namespace dpi {

using ContentHash = std::array<std::byte, 32>;

/// Who helps with reading and hashing: `threads` threads of `pool`, the caller counted. Null = the caller
/// alone.
struct HashWorkers {
  ThreadPool* pool = nullptr;
  int32_t threads = 1;
};

/// Has this build libsodium? Nothing here works without it.
bool have_content_hash();

/// The hash of one leaf, and of a data set of `bytes` bytes that has these leaves.
ContentHash leaf_hash(std::span<const std::byte> leaf);
ContentHash data_hash(std::span<const ContentHash> leaves, uint64_t bytes);

class TreeHash {
 public:
  static constexpr size_t kLeafBytes = size_t{1} << 20;
  enum Domain { kData, kMetadata };

  /// The part of the work that any thread may do beforehand: the leaves that begin among some bytes.
  class Leaves {
   public:
    Leaves();  // throws bad_alloc
    ~Leaves();
    Leaves(const Leaves&) = delete;
    Leaves& operator=(const Leaves&) = delete;

    /// at: where `bytes` stand in all that is hashed. Throws bad_alloc.
    void make(uint64_t at, std::span<const std::byte> bytes);

   private:
    friend class TreeHash;
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  /// kUnsupported when the build has no libsodium. Throws bad_alloc.
  static Result<TreeHash> create(Domain domain);
  TreeHash(TreeHash&&) noexcept;
  TreeHash& operator=(TreeHash&&) noexcept;
  ~TreeHash();

  /// The next bytes. Throws bad_alloc.
  void add(std::span<const std::byte> bytes);
  /// The same of bytes that `leaves` were made of, at the place where they stand.
  void join(const Leaves& leaves, std::span<const std::byte> bytes);
  ContentHash finish();

 private:
  struct Impl;
  explicit TreeHash(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dpi
