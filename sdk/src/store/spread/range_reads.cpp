#include "store/spread/range_reads.hpp"

#include <algorithm>
#include <utility>

namespace dpi {

namespace {

/// The device's own share: the first that names it. So of several shares of one device all but one are looked
/// up as those of peers are.
int32_t own_share(const TableRange& range, int32_t device) {
  if (range.kind != DPI_RANGE_PEERS) return -1;
  const auto at = std::find(range.owners.begin(), range.owners.end(), device);
  return at != range.owners.end() ? static_cast<int32_t>(at - range.owners.begin()) : -1;
}

}  // namespace

Result<std::unique_ptr<RangeReads>> RangeReads::make(const Device& on, const TableRange& range,
                                                     const std::vector<StoreTable>& tables,
                                                     const ArenaMap& map,
                                                     const std::vector<const std::byte*>& bases,
                                                     const PeerCopyOptions& options) {
  std::unique_ptr<RangeReads> r(new RangeReads());
  r->range_ = range;
  r->own_ = own_share(range, on.index);
  r->range_of_.assign(tables.size(), -1);
  for (size_t b = 0; b < map.blocks.size(); ++b) {
    if (!map.blocks[b].in_range) continue;
    RangeTable all;
    for (size_t t = 0; t < tables.size(); ++t) {
      const ArenaMap::Table& at = map.tables[t];
      if (tables[t].tiered || tables[t].rows == 0 || at.block != static_cast<int32_t>(b)) continue;
      r->range_of_[t] = static_cast<int32_t>(r->ranges_.size());
      const int32_t listed = options.in_list.empty() ? -1 : options.in_list[t];
      if (all.in_list < 0) all.in_list = listed;
      if (at.offset != 0) continue;  // it rides
      all.table = static_cast<int32_t>(t);
      all.stride = at.stride;
      all.count = tables[t].rows;
      all.copyable = may_have_copies(tables[t], at);
    }
    all.rows = bases[b];
    all.bytes = map.blocks[b].bytes;
    r->ranges_.push_back(std::move(all));
  }
  r->gone_.assign(r->ranges_.size(), {});
  DPI_ASSIGN_OR_RETURN(r->copies_, PeerCopies::make(*on.api, on.device, range, r->own_, r->ranges_, options));
  return r;
}

const kernels::RowCache* RangeReads::cache(int32_t table) const {
  const int32_t r = range_of_[static_cast<size_t>(table)];
  return r < 0 ? nullptr : copies_->cache(static_cast<size_t>(r));
}

RangeReads::Place RangeReads::place_of(size_t table, int32_t row) const {
  if (is_own_row(range_, own_, ranges_[table], row)) return kOwn;
  return copies_->has(table, row) ? kCopied : kRemote;
}

std::optional<PeerStats> RangeReads::stats(int32_t table) const {
  const int32_t r = range_of_[static_cast<size_t>(table)];
  if (r < 0 || ranges_[static_cast<size_t>(r)].table != table) return {};
  const auto range = static_cast<size_t>(r);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::array<uint64_t, 3> sum = gone_[range];
  for (const Counter* c : counters_) {
    for (size_t p = 0; p < sum.size(); ++p) sum[p] += c->counts_[range].at[p].load(std::memory_order_relaxed);
  }
  return PeerStats{sum[kOwn], sum[kCopied], sum[kRemote], copies_->rows(range)};
}

RangeReads::Counter::Counter(RangeReads* of)
    : of_(of), counts_(std::make_unique<Counts[]>(of->ranges_.size())) {
  const std::lock_guard<std::mutex> lock(of_->mutex_);
  of_->counters_.push_back(this);
}

RangeReads::Counter::~Counter() {
  const std::lock_guard<std::mutex> lock(of_->mutex_);
  std::erase(of_->counters_, this);
  for (size_t r = 0; r < of_->ranges_.size(); ++r) {
    for (size_t p = 0; p < of_->gone_[r].size(); ++p) of_->gone_[r][p] += counts_[r].at[p];
  }
}

void RangeReads::Counter::count(const StoreRequest& request) {
  for (const StoreRequest::Lookup& l : request.lookups) {
    const int32_t range = of_->range_of_[static_cast<size_t>(l.table)];
    if (range < 0 || of_->ranges_[static_cast<size_t>(range)].table != l.table) continue;
    const bool bags = l.ids.offsets != nullptr;
    const int64_t n = bags ? l.ids.offsets[l.ids.rows] : l.ids.rows, stride = bags ? 1 : l.ids.stride;
    for (; next_ < n; next_ += kEach) {
      const Place place = of_->place_of(static_cast<size_t>(range), l.ids.ids[next_ * stride]);
      std::atomic<uint64_t>& count = counts_[static_cast<size_t>(range)].at[place];  // this reader's alone
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    next_ -= n;
  }
}

}  // namespace dpi
