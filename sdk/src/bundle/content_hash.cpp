#include "bundle/content_hash.hpp"

#ifdef DPI_WITH_SODIUM
#include <algorithm>
#include <vector>

#include "bundle/sodium_hash.hpp"
#endif

namespace dpi {

#ifdef DPI_WITH_SODIUM

bool have_content_hash() { return true; }

namespace {

Blake2b new_leaf() { return Blake2b("DPI 2 leaf"); }

}  // namespace

ContentHash leaf_hash(std::span<const std::byte> leaf) {
  Blake2b hash = new_leaf();
  hash.add(leaf);
  return hash.finish();
}

ContentHash data_hash(std::span<const ContentHash> leaves, uint64_t bytes) {
  Blake2b root("DPI 2 data");
  root.add(std::as_bytes(leaves));
  root.add(std::as_bytes(std::span(&bytes, 1)));
  return root.finish();
}

struct TreeHash::Leaves::Impl {
  size_t before = 0;               // bytes of the leaf that began before these bytes
  std::vector<ContentHash> whole;  // of the leaves that begin and end among them
  Blake2b open;                    // the leaf that begins among them and does not end
  size_t in_open = 0;
};

void TreeHash::Leaves::make(uint64_t at, std::span<const std::byte> bytes) {
  impl_->before = std::min<uint64_t>(bytes.size(), (kLeafBytes - at % kLeafBytes) % kLeafBytes);
  bytes = bytes.subspan(impl_->before);
  impl_->whole.clear();
  for (; bytes.size() >= kLeafBytes; bytes = bytes.subspan(kLeafBytes)) {
    impl_->whole.push_back(leaf_hash(bytes.first(kLeafBytes)));
  }
  impl_->in_open = bytes.size();
  if (bytes.empty()) return;
  impl_->open = new_leaf();
  impl_->open.add(bytes);
}

struct TreeHash::Impl {
  explicit Impl(Domain domain) : root(domain == kData ? "DPI 2 data" : "DPI 2 metadata") {}

  void join(const Leaves::Impl& leaves, std::span<const std::byte> bytes) {
    if (leaves.before > 0) {
      open.add(bytes.first(leaves.before));
      in_open += leaves.before;
    }
    if (in_open == kLeafBytes) close_leaf();
    for (const ContentHash& hash : leaves.whole) root.add(hash);
    if (leaves.in_open > 0) {
      open = leaves.open;
      in_open = leaves.in_open;
    }
    total += bytes.size();
  }

  void close_leaf() {
    root.add(open.finish());
    in_open = 0;
  }

  ContentHash finish() {
    if (in_open > 0) close_leaf();
    root.add(std::as_bytes(std::span(&total, 1)));
    return root.finish();
  }

  Blake2b root;
  Blake2b open;  // the leaf that has begun
  size_t in_open = 0;
  uint64_t total = 0;
  Leaves own;  // of add
};

Result<TreeHash> TreeHash::create(Domain domain) {
  DPI_RETURN_IF_ERROR(start_sodium());
  return TreeHash(std::make_unique<Impl>(domain));
}
void TreeHash::join(const Leaves& leaves, std::span<const std::byte> bytes) {
  impl_->join(*leaves.impl_, bytes);
}
void TreeHash::add(std::span<const std::byte> bytes) {
  impl_->own.make(impl_->total, bytes);
  impl_->join(*impl_->own.impl_, bytes);
}
ContentHash TreeHash::finish() { return impl_->finish(); }

#else

bool have_content_hash() { return false; }
ContentHash leaf_hash(std::span<const std::byte>) { return {}; }
ContentHash data_hash(std::span<const ContentHash>, uint64_t) { return {}; }

struct TreeHash::Impl {};
struct TreeHash::Leaves::Impl {};

void TreeHash::Leaves::make(uint64_t, std::span<const std::byte>) {}

Result<TreeHash> TreeHash::create(Domain) {
  return unsupported("this build has no libsodium, so it can check no hash and no signature");
}
void TreeHash::join(const Leaves&, std::span<const std::byte>) {}
void TreeHash::add(std::span<const std::byte>) {}
ContentHash TreeHash::finish() { return {}; }

#endif

TreeHash::Leaves::Leaves() : impl_(std::make_unique<Impl>()) {}
TreeHash::Leaves::~Leaves() = default;

TreeHash::TreeHash(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TreeHash::TreeHash(TreeHash&&) noexcept = default;
TreeHash& TreeHash::operator=(TreeHash&&) noexcept = default;
TreeHash::~TreeHash() = default;

}  // namespace dpi
