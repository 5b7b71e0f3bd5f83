#include "store/resident/spare_rows.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dpi {

void SpareRows::add(Part part, std::vector<Part>* parts) {
  const auto same =
      std::find_if(parts->begin(), parts->end(), [&part](const Part& p) { return p.block == part.block; });
  if (same != parts->end())
    same->offset = std::min(same->offset, part.offset);
  else
    parts->push_back(std::move(part));
}

std::shared_ptr<SpareRows> SpareRows::make(int64_t rows, std::vector<Part> parts) {
  if (parts.empty()) return nullptr;
  int64_t spare = parts[0].block->spare();
  for (const Part& p : parts) spare = std::min(spare, p.block->spare());
  if (spare <= 0) return nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].block->take_spare()) continue;
    while (i-- > 0) parts[i].block->give_spare_back();
    return nullptr;
  }
  return std::shared_ptr<SpareRows>(new SpareRows(rows, spare, std::move(parts)));
}

SpareRows::SpareRows(int64_t rows, int64_t spare, std::vector<Part> parts)
    : rows_(rows), spare_(spare), parts_(std::move(parts)), users_(static_cast<size_t>(spare), 0) {}

SpareRows::~SpareRows() {
  for (const Part& p : parts_) p.block->give_spare_back();
}

std::shared_ptr<RowVersion> SpareRows::first() {
  return std::make_shared<RowVersion>(shared_from_this(), RowOverlay(), std::vector<MovedRow>());
}

int64_t SpareRows::free_rows() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::count(users_.begin(), users_.end(), 0);
}

uint64_t SpareRows::bytes() const {
  uint64_t bytes = 0;
  for (const Part& p : parts_) bytes += p.block->bytes();
  return bytes;
}

std::shared_ptr<RowVersion> SpareRows::next(const RowVersion& before, std::span<const int32_t> changed) {
  std::vector<MovedRow> fresh, all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t s = 0; s < users_.size() && fresh.size() < changed.size(); ++s) {
      if (users_[s] == 0)
        fresh.push_back({changed[fresh.size()], static_cast<int32_t>(rows_ + static_cast<int64_t>(s))});
    }
  }
  if (fresh.size() < changed.size()) return nullptr;
  const std::span<const MovedRow> old = before.overlay().moved();
  const auto by_row = [](const MovedRow& a, const MovedRow& b) { return a.row < b.row; };
  // Of a row that is in both, the first list's.
  std::set_union(fresh.begin(), fresh.end(), old.begin(), old.end(), std::back_inserter(all), by_row);
  return std::make_shared<RowVersion>(shared_from_this(), RowOverlay(std::move(all)), std::move(fresh));
}

/// Under the lock.
bool SpareRows::is_free_at_home(int32_t row) const {
  return std::all_of(versions_.begin(), versions_.end(),
                     [row](const RowVersion* v) { return v->overlay().has(row); });
}

Status SpareRows::merge(RowVersion& newest) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const RowOverlay& now = *newest.overlays_.back();
  if (now.empty()) return {};
  for (const Part& p : parts_)
    if (!p.as_loaded.expired()) return {};
  std::vector<MovedRow> stays;
  for (const MovedRow& m : now.moved()) {
    if (is_free_at_home(m.row))
      DPI_RETURN_IF_ERROR(bring_home(m));
    else
      stays.push_back(m);
  }
  if (stays.size() == now.moved().size()) return {};
  newest.overlays_.push_back(std::make_unique<const RowOverlay>(std::move(stays)));
  newest.now_.store(newest.overlays_.back().get(), std::memory_order_release);
  return {};
}

Status SpareRows::bring_home(const MovedRow& m) {
  for (const Part& p : parts_) {
    const auto at = [](int64_t offset, int64_t stride, int32_t row) {
      return static_cast<uint64_t>(offset + stride * row);
    };
    DPI_RETURN_IF_ERROR(p.block->copy_within(at(p.offset, p.stride, m.place), at(p.offset, p.stride, m.row),
                                             static_cast<size_t>(p.stride)));
    if (p.scale_offset < 0) continue;
    DPI_RETURN_IF_ERROR(p.block->copy_within(at(p.scale_offset, sizeof(float), m.place),
                                             at(p.scale_offset, sizeof(float), m.row), sizeof(float)));
  }
  return {};
}

void SpareRows::leave(RowVersion* version) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(versions_, version);
  for (const MovedRow& m : version->overlays_.front()->moved())
    --users_[static_cast<size_t>(m.place - rows_)];
}

RowVersion::RowVersion(std::shared_ptr<SpareRows> rows, RowOverlay overlay, std::vector<MovedRow> fresh)
    : rows_(std::move(rows)), fresh_(std::move(fresh)) {
  overlays_.push_back(std::make_unique<const RowOverlay>(std::move(overlay)));
  now_.store(overlays_.front().get(), std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(rows_->mutex_);
  rows_->versions_.push_back(this);
  for (const MovedRow& m : overlays_.front()->moved())
    ++rows_->users_[static_cast<size_t>(m.place - rows_->rows_)];
}

RowVersion::~RowVersion() { rows_->leave(this); }

}  // namespace dpi
