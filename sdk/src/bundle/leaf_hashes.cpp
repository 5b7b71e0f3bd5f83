#include "bundle/leaf_hashes.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "bundle/byte_source.hpp"

namespace dpi {
namespace {

constexpr size_t kLeaf = TreeHash::kLeafBytes;
constexpr int32_t kMostHashers = 8;  // as ExtentReader
constexpr size_t kLeavesAtOnce = 4;  // of a thread, between two looks whether to go on

/// Are the bytes [begin, end) of a data set those of the base, at the same place?
bool is_unchanged(const RowMap& map, uint64_t row_bytes, uint64_t begin, uint64_t end) {
  const auto first = static_cast<int64_t>(begin / row_bytes);
  const auto last = static_cast<int64_t>((end + row_bytes - 1) / row_bytes);
  const RowMap::Run run = map.at(first);
  return run.from == RowMap::From::kBase && run.first == first && run.rows >= last - first;
}

}  // namespace

uint64_t LeafHashes::Set::bytes(size_t leaf) const {
  return std::min<uint64_t>(kLeaf, info->extent.length - leaf * kLeaf);
}

LeafHashes::LeafHashes(std::shared_ptr<Bundle> bundle) : bundle_(std::move(bundle)) {
  if (!have_content_hash()) return;
  for (const DataSetInfo& info : bundle_->data_sets()) {
    const auto n = static_cast<size_t>((info.extent.length + kLeaf - 1) / kLeaf);
    sets_.push_back({&info, std::vector<ContentHash>(n), std::vector<bool>(n, false)});
  }
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(kLeaf);
}

void LeafHashes::move_to(std::shared_ptr<Bundle> bundle) {
  bundle_ = std::move(bundle);
  for (size_t s = 0; s < sets_.size(); ++s) sets_[s].info = &bundle_->data_sets()[s];
}

const LeafHashes::Set* LeafHashes::find(std::string_view path) const {
  const auto at = std::lower_bound(sets_.begin(), sets_.end(), path,
                                   [](const Set& s, std::string_view p) { return s.info->path < p; });
  return at != sets_.end() && at->info->path == path ? &*at : nullptr;
}

std::optional<ContentHash> LeafHashes::leaf(const Set& set, size_t k) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return set.made[k] ? std::optional(set.leaves[k]) : std::nullopt;
}

void LeafHashes::put(Set& set, size_t k, const ContentHash& hash) {
  const std::lock_guard<std::mutex> lock(mutex_);
  set.leaves[k] = hash;
  set.made[k] = true;
}

Status LeafHashes::hash(const Set& set, size_t k, std::byte* buffer, ContentHash* out) const {
  const auto n = static_cast<size_t>(set.bytes(k));
  DPI_RETURN_IF_ERROR(bundle_->bytes().read(set.info->extent.offset + k * kLeaf, buffer, n));
  *out = leaf_hash({buffer, n});
  return {};
}

uint64_t LeafHashes::make_next() noexcept {
  for (; next_set_ < sets_.size(); ++next_set_, next_leaf_ = 0) {
    Set& set = sets_[next_set_];
    for (; next_leaf_ < set.leaves.size(); ++next_leaf_) {
      if (leaf(set, next_leaf_)) continue;
      ContentHash found;
      if (!hash(set, next_leaf_, buffer_.get(), &found).ok()) {
        next_set_ = sets_.size();  // whoever needs them reads them, and says what is wrong
        break;
      }
      put(set, next_leaf_, found);
      return set.bytes(next_leaf_++);
    }
    if (next_set_ == sets_.size()) break;
  }
  buffer_.reset();
  return 0;
}

uint64_t LeafHashes::unmade_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t bytes = 0;
  for (const Set& set : sets_) {
    for (size_t k = 0; k < set.made.size(); ++k) bytes += set.made[k] ? 0 : set.bytes(k);
  }
  return bytes;
}

/// Takes over the hashes of leaves that are the base's and returns the other leaves. A null map: none is the
/// base's.
std::vector<size_t> LeafHashes::take_over(Set& set, const LeafHashes& base, const RowMap* map) {
  std::vector<size_t> others;
  const Set* const before = base.find(set.info->path);
  const uint64_t row_bytes =
      map == nullptr ? 1 : set.info->extent.length / static_cast<uint64_t>(set.info->shape[0]);
  for (size_t k = 0; k < set.leaves.size(); ++k) {
    const uint64_t begin = k * kLeaf;
    const bool same = map != nullptr && before != nullptr && k < before->leaves.size() &&
                      before->bytes(k) == set.bytes(k) &&
                      is_unchanged(*map, row_bytes, begin, begin + set.bytes(k));
    const std::optional<ContentHash> known = same ? base.leaf(*before, k) : std::nullopt;
    if (known)
      put(set, k, *known);
    else
      others.push_back(k);
  }
  return others;
}

/// Some leaves of a set, by several threads.
struct LeafHashes::Work {
  LeafHashes& all;
  Set& set;
  std::span<const size_t> leaves;
  std::vector<std::unique_ptr<std::byte[]>> buffers = {};  // by share
  std::atomic<size_t> next{0};
  std::mutex mutex = {};
  Status status = {};

  static void share(void* self, int32_t index) { static_cast<Work*>(self)->run(static_cast<size_t>(index)); }
  void run(size_t index) {
    for (size_t i = next++; i < leaves.size(); i = next++) {
      ContentHash found;
      Status read = all.hash(set, leaves[i], buffers[index].get(), &found);
      if (read.ok()) {
        all.put(set, leaves[i], found);
        continue;
      }
      const std::lock_guard<std::mutex> lock(mutex);
      status = std::move(read);
    }
  }
};

Status LeafHashes::make(Set& set, std::span<const size_t> leaves, const How& how) {
  const int32_t most = how.workers.pool == nullptr ? 1 : std::clamp(how.workers.threads, 1, kMostHashers);
  const auto shares = static_cast<int32_t>(std::min(leaves.size(), static_cast<size_t>(most)));
  Work work{*this, set, leaves};
  for (int32_t i = 0; i < shares; ++i)
    work.buffers.push_back(std::make_unique_for_overwrite<std::byte[]>(kLeaf));
  for (size_t done = 0; done < leaves.size(); done += work.leaves.size()) {
    work.leaves = leaves.subspan(done, std::min(leaves.size() - done, kLeavesAtOnce * work.buffers.size()));
    work.next = 0;
    if (shares == 1)
      work.run(0);
    else
      how.workers.pool->run(shares, &Work::share, &work);
    DPI_RETURN_IF_ERROR(std::move(work.status));
    uint64_t bytes = 0;
    for (const size_t k : work.leaves) bytes += set.bytes(k);
    DPI_RETURN_IF_ERROR(how.go_on(bytes));
  }
  return {};
}

Status LeafHashes::check(const LeafHashes& base, const DataMaps& changed, const How& how) {
  for (Set& set : sets_) {
    const DataSetInfo& info = *set.info;
    if (set.leaves.empty()) continue;
    const auto change = changed.find(info.path);
    if (change == changed.end()) {  // the base's, as a whole: patched() has compared what both say of it
      const Set* const before = base.find(info.path);
      for (size_t k = 0; before != nullptr && k < set.leaves.size(); ++k) {
        if (const auto known = base.leaf(*before, k)) put(set, k, *known);
      }
      continue;
    }
    const std::string where = bundle_->name() + ":" + info.path;
    Status made = make(set, take_over(set, base, change->second.get()), how);
    if (!made.ok()) return std::move(made).within(where);
    const ContentHash found = data_hash(set.leaves, info.extent.length);
    if (found == info.extent.hash) continue;
    return bad_model(where + ": the delta's result does not match its hash: it is " + hex_bytes(found) +
                     ", the new bundle's user block says " + hex_bytes(info.extent.hash));
  }
  return {};
}

}  // namespace dpi
