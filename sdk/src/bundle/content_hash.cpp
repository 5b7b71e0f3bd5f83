#include "bundle/content_hash.hpp"

#ifdef DPI_WITH_SODIUM
#include <algorithm>
#include <vector>

#include "bundle/sodium_hash.hpp"
#endif

namespace dpi {

#ifdef DPI_WITH_SODIUM

bool have_content_hash() { return true; }

/// Bytes are cut where leaves end. The pieces of one round belong to different leaves, so any thread may take
/// any of them; the first goes on with the leaf that the round before left open.
struct TreeHash::Impl {
  static constexpr size_t kRound = 32;  // pieces hashed side by side
  struct Piece {
    std::span<const std::byte> bytes;
    bool begins = false, ends = false;
    Blake2b state;
    ContentHash hash{};
  };

  Impl(Domain domain, const HashWorkers& w)
      : workers(w), root(domain == kData ? "DPI 2 data" : "DPI 2 metadata"), pieces(kRound) {}

  static void hash_piece(Piece& p) {
    if (p.begins) p.state = Blake2b("DPI 2 leaf");
    p.state.add(p.bytes);
    if (p.ends) p.hash = p.state.finish();
  }

  static void share(void* self, int32_t index) {
    auto& impl = *static_cast<Impl*>(self);
    const auto step = static_cast<size_t>(impl.shares);
    for (size_t i = static_cast<size_t>(index); i < impl.used; i += step) hash_piece(impl.pieces[i]);
  }

  void round() {
    const int32_t threads = workers.pool == nullptr ? 1 : workers.threads;
    shares = std::clamp(threads, 1, static_cast<int32_t>(used));
    if (shares == 1) {
      share(this, 0);
    } else {
      workers.pool->run(shares, &share, this);
    }
    for (size_t i = 0; i < used; ++i) {
      if (pieces[i].ends) root.add(pieces[i].hash);
    }
    if (in_leaf > 0) pieces[0].state = pieces[used - 1].state;
    used = 0;
  }

  void add(std::span<const std::byte> bytes) {
    total += bytes.size();
    while (!bytes.empty()) {
      const size_t n = std::min(bytes.size(), kLeafBytes - in_leaf);
      Piece& p = pieces[used++];
      p.bytes = bytes.first(n);
      p.begins = in_leaf == 0;
      p.ends = in_leaf + n == kLeafBytes;
      in_leaf = p.ends ? 0 : in_leaf + n;
      bytes = bytes.subspan(n);
      if (used == kRound || bytes.empty()) round();
    }
  }

  ContentHash finish() {
    if (in_leaf > 0) root.add(pieces[0].state.finish());
    root.add(std::as_bytes(std::span(&total, 1)));
    return root.finish();
  }

  HashWorkers workers;
  Blake2b root;
  std::vector<Piece> pieces;  // [0]'s state is the open leaf's between rounds
  size_t used = 0;            // pieces of this round
  int32_t shares = 1;
  size_t in_leaf = 0;  // bytes of the open leaf
  uint64_t total = 0;
};

Result<TreeHash> TreeHash::create(Domain domain, const HashWorkers& workers) {
  DPI_RETURN_IF_ERROR(start_sodium());
  return TreeHash(std::make_unique<Impl>(domain, workers));
}
void TreeHash::add(std::span<const std::byte> bytes) { impl_->add(bytes); }
ContentHash TreeHash::finish() { return impl_->finish(); }

#else

bool have_content_hash() { return false; }

struct TreeHash::Impl {};

Result<TreeHash> TreeHash::create(Domain, const HashWorkers&) {
  return unsupported("this build has no libsodium, so it can check no hash and no signature");
}
void TreeHash::add(std::span<const std::byte>) {}
ContentHash TreeHash::finish() { return {}; }

#endif

TreeHash::TreeHash(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TreeHash::TreeHash(TreeHash&&) noexcept = default;
TreeHash& TreeHash::operator=(TreeHash&&) noexcept = default;
TreeHash::~TreeHash() = default;

}  // namespace dpi
