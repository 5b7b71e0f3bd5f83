#include "store/tiered/shard.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace dpi::tiered {

namespace {

constexpr int32_t kHandBuckets = 4;  // about 15 rows, of which the coldest may go
constexpr int kNoHeat = 256;         // hotter than all
constexpr int32_t kEvictAtOnce = 16;
constexpr size_t kEvictBatch = 64;  // under one bump

}  // namespace

Shard::Shard(const Shape& shape, Directory* directory, Epochs* epochs, CopiedPlaces* copied)
    : shape_(shape),
      directory_(directory),
      epochs_(epochs),
      copied_(copied),
      first_(shape.index * shape.places),
      keep_free_(std::min(shape.places / 8, std::max(shape.places / 32, kEvictAtOnce))),
      pool_(first_, shape.places),
      admission_(shape.places),
      probation_(std::max(1, shape.places / 16)),
      absent_(std::max(1, shape.remembered)),
      fetches_(static_cast<size_t>(shape.fetches)),
      chains_(std::bit_ceil(static_cast<size_t>(shape.fetches)), -1) {
  for (int32_t f = 0; f < shape.fetches; ++f)
    fetches_[static_cast<size_t>(f)].next = f + 1 < shape.fetches ? f + 1 : -1;
  unlinked_.reserve(kEvictBatch);
}

uint64_t Shard::bytes_of_fetches(const Shape& shape) {
  const auto fetches = static_cast<size_t>(shape.fetches);
  return sizeof(Shard) + fetches * sizeof(Fetch) + std::bit_ceil(fetches) * sizeof(int32_t) +
         kEvictBatch * sizeof(int32_t);
}

HashedKey Shard::hashed(const LinkedKey& k) const {
  const TableCode table = directory_->table(k.code);
  return {table, directory_->hash(table, k.key), k.key};
}

int32_t Shard::fetch_of(const HashedKey& k) {
  for (int32_t f = chain(k.hash); f >= 0; f = fetches_[static_cast<size_t>(f)].next) {
    const HashedKey& other = fetches_[static_cast<size_t>(f)].key;
    if (other.key == k.key && other.table.code == k.table.code) return f;
  }
  return -1;
}

bool Shard::take_place(PlaceStack* held, int32_t* place) {
  if (held != nullptr && held->count > 0) {
    *place = held->at[--held->count];
    return true;
  }
  if (pool_.n_free() == 0) pool_.recycle(epochs_->oldest());
  return pool_.take(place);
}

int32_t Shard::spare() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pool_.n_free() - keep_free_;
}

Shard::Claimed Shard::claim(const HashedKey& k, bool wait, PlaceStack* held, uint64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  forget_old(now_ns);
  const int32_t there = directory_->find(k.table, k.hash, k.key);
  if (there != Directory::kMissing) return {Claim::kPlace, there, -1};
  int32_t f = fetch_of(k);
  if (f >= 0) {
    if (wait) ++fetches_[static_cast<size_t>(f)].holds;
    return {Claim::kJoined, Directory::kMissing, f};
  }
  if (spare_fetch_ < 0) return {Claim::kFull, Directory::kMissing, -1};
  int32_t place = -1;
  if (!take_place(held, &place)) {
    keep_some_free();
    return {Claim::kNoPlace, Directory::kMissing, -1};
  }
  f = spare_fetch_;
  Fetch& fetch = fetches_[static_cast<size_t>(f)];
  spare_fetch_ = fetch.next;
  fetch = {k, place, chain(k.hash), wait ? 2 : 1, false, nullptr};  // one hold is the fetch's own
  chain(k.hash) = f;
  ++fetching_;
  return {Claim::kStarted, place, f};
}

/// Takes the fetch out of its chain: who looks from now on finds the row.
void Shard::land(int32_t fetch) {
  Fetch& mine = fetches_[static_cast<size_t>(fetch)];
  int32_t* link = &chain(mine.key.hash);
  while (*link != fetch) link = &fetches_[static_cast<size_t>(*link)].next;
  *link = mine.next;
  mine.landed = true;
  --fetching_;
  release(fetch);
}

void Shard::release(int32_t fetch) {
  Fetch& f = fetches_[static_cast<size_t>(fetch)];
  if (--f.holds > 0) return;
  f.failure.reset();
  f.next = std::exchange(spare_fetch_, fetch);
}

void Shard::publish(int32_t fetch, bool found, uint64_t now_ns, std::optional<uint8_t> heat) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Fetch& f = fetches_[static_cast<size_t>(fetch)];
  if (!heat) admission_.missed(f.key.hash);
  if (found) {
    link(f.key, f.place, heat);
  } else {
    pool_.give(f.place);
    f.place = Directory::kAbsent;
    remember_absent(f.key, now_ns);
  }
  land(fetch);
  keep_some_free();
}

void Shard::fail(int32_t fetch, std::shared_ptr<const Status> why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Fetch& f = fetches_[static_cast<size_t>(fetch)];
  pool_.give(f.place);
  f.place = Directory::kMissing;
  f.failure = std::move(why);
  land(fetch);
}

std::optional<Shard::Landed> Shard::poll(int32_t fetch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Fetch& f = fetches_[static_cast<size_t>(fetch)];
  if (!f.landed) return std::nullopt;
  Landed landed{f.place, f.failure};
  release(fetch);
  return landed;
}

bool Shard::is_wanted(int32_t fetch) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fetches_[static_cast<size_t>(fetch)].holds > 1;  // one is the fetch's own
}

void Shard::drop(int32_t fetch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  release(fetch);
}

void Shard::link(const HashedKey& k, int32_t place, std::optional<uint8_t> heat) {
  if (!directory_->insert(k.table, k.hash, k.key, place)) {
    // Two buckets and the stash are full of keys that collide: the coldest of the buckets goes.
    LinkedKey victim;
    int least = kNoHeat;
    directory_->near(k.hash, [&](uint32_t code, int64_t key, int32_t at) {
      const int other = at == Directory::kAbsent ? -1 : admission_.heat(at - first_);
      if (other < least) least = other, victim = {code, key, 0};
    });
    unlink(victim);
    directory_->insert(k.table, k.hash, k.key, place);
    retire_unlinked();
  }
  ++linked_;
  if (copied_ != nullptr) copied_->link(place, heat.value_or(0));
  admission_.admit(k.hash, place - first_, heat.value_or(0));
  if (heat) return;
  if (probation_.full()) probation_.pop();
  probation_.push({k.table.code, k.key, 0});
}

void Shard::remember_absent(const HashedKey& k, uint64_t now_ns) {
  if (shape_.absent_age_ns == 0) return;
  if (absent_.full()) forget_oldest();
  if (directory_->insert(k.table, k.hash, k.key, Directory::kAbsent))
    absent_.push({k.table.code, k.key, now_ns});
}

void Shard::forget_oldest() {
  const HashedKey k = hashed(absent_.front());
  absent_.pop();
  // Gone already where colliding keys needed the cell; its row may have come since.
  if (directory_->find(k.table, k.hash, k.key) == Directory::kAbsent)
    directory_->erase(k.table, k.hash, k.key);
}

void Shard::forget_old(uint64_t now_ns) {
  while (!absent_.empty() && now_ns - absent_.front().since_ns >= shape_.absent_age_ns) forget_oldest();
}

void Shard::expire(uint64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  forget_old(now_ns);
}

/// Takes a key out of the directory; its place waits in unlinked_ for the bump.
void Shard::unlink(const LinkedKey& victim) {
  const HashedKey k = hashed(victim);
  const int32_t place = directory_->erase(k.table, k.hash, k.key);
  if (place < 0) return;
  admission_.evicted(k.hash, place - first_);
  --linked_;
  if (copied_ == nullptr || copied_->unlink(place)) {
    unlinked_.push_back(place);
  } else {
    ++leaving_;
  }
}

void Shard::left(const int32_t* places, int32_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t epoch = epochs_->bump();
  for (int32_t i = 0; i < n; ++i) pool_.retire(places[i], epoch);
  leaving_ -= n;
}

void Shard::forget_table(uint32_t code) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const TableCode table = directory_->table(code);
  for (int64_t b = 0; b < directory_->buckets(); ++b) {
    int64_t keys[Directory::kKeysPerBucket];
    int n = 0;
    directory_->entries(shape_.index, b, [&](uint32_t of, int64_t key, int32_t) {
      if (of == code) keys[n++] = key;
    });
    for (int i = 0; i < n; ++i) {
      const HashedKey k{table, directory_->hash(table, keys[i]), keys[i]};
      if (directory_->find(k.table, k.hash, k.key) == Directory::kAbsent) {
        directory_->erase(k.table, k.hash, k.key);
      } else {
        unlink({code, keys[i], 0});
      }
      if (unlinked_.size() == kEvictBatch) retire_unlinked();
    }
  }
  retire_unlinked();
  pool_.recycle(epochs_->oldest());
}

void Shard::list_warm(uint32_t code, std::vector<WarmKey>* to) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (int64_t b = 0; b < directory_->buckets(); ++b) {
    directory_->entries(shape_.index, b, [&](uint32_t of, int64_t key, int32_t place) {
      if (of == code && place >= first_) to->push_back({key, admission_.heat(place - first_)});
    });
  }
}

/// The colder of who has been on probation longest and the coldest at the hand.
bool Shard::pick(LinkedKey* victim) {
  LinkedKey newcomer;
  int newcomers = kNoHeat;
  const int least = coldest_at_hand(victim);
  if (end_probation(&newcomer, &newcomers) && newcomers <= least) *victim = newcomer;
  return std::min(newcomers, least) < kNoHeat;
}

/// Takes the oldest from the ring that is still here. False while few are on probation.
bool Shard::end_probation(LinkedKey* of, int* heat) {
  while (probation_.size() * 2 >= probation_.capacity() && !probation_.empty()) {
    *of = probation_.front();
    probation_.pop();
    const HashedKey k = hashed(*of);
    const int32_t place = directory_->find(k.table, k.hash, k.key);
    if (place < 0) continue;
    *heat = admission_.heat(place - first_);
    return true;
  }
  return false;
}

/// kNoHeat: no row is linked.
int Shard::coldest_at_hand(LinkedKey* coldest) {
  const int64_t n = directory_->buckets();
  int least = kNoHeat;
  for (int64_t seen = 0; seen < n && (seen < kHandBuckets || least == kNoHeat); ++seen) {
    directory_->entries(shape_.index, hand_, [&](uint32_t code, int64_t key, int32_t place) {
      if (place < 0) return;
      const int heat = admission_.heat(place - first_);
      if (heat < least) least = heat, *coldest = {code, key, 0};
    });
    hand_ = (hand_ + 1) % n;
  }
  return least;
}

void Shard::evict(int32_t count) {
  LinkedKey victim;
  for (int32_t i = 0; i < count && pick(&victim); ++i) {
    unlink(victim);
    if (unlinked_.size() == kEvictBatch) retire_unlinked();
  }
  retire_unlinked();
}

void Shard::retire_unlinked() {
  if (unlinked_.empty()) return;
  const uint64_t epoch = epochs_->bump();
  for (const int32_t place : unlinked_) pool_.retire(place, epoch);
  unlinked_.clear();
}

/// Evicts ahead of need, because what is evicted now can be used only when today's readers have left.
void Shard::keep_some_free() {
  const int32_t missing = keep_free_ - pool_.n_free() - n_waiting();
  if (missing <= 0) return;
  evict(std::max(missing, std::min(kEvictAtOnce, keep_free_)));
  pool_.recycle(epochs_->oldest());
}

bool Shard::hold(int32_t count, PlaceStack* to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto take = [&] {
    pool_.recycle(epochs_->oldest());
    while (to->count < count && pool_.take(&to->at[to->count])) ++to->count;
  };
  take();
  evict(count - to->count - n_waiting());
  take();
  return to->count == count;
}

void Shard::give_back(PlaceStack* places) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (places->count > 0) pool_.give(places->at[--places->count]);
}

Shard::Fill Shard::fill() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int32_t warm = 0;
  for (int32_t p = 0; p < shape_.places; ++p) warm += admission_.heat(p) > 0 ? 1 : 0;
  return {linked_, pool_.n_free(), n_waiting(), static_cast<int32_t>(absent_.size()), fetching_, warm};
}

}  // namespace dpi::tiered
