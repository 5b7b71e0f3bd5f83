// Zipf traffic through one shard, without rows, threads or clocks: which keys stay, and nothing else. Same
// numbers on every run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "store/tiered/shard.hpp"

namespace dpi::test {

struct TrafficShape {
  int32_t places = 4096;
  int64_t keys = 40960;
  double alpha = 1.05;
};

class ZipfTraffic {
 public:
  explicit ZipfTraffic(const TrafficShape& shape)
      : shape_(shape),
        directory_shape_(tiered::directory_shape(1, shape.places, 1, 1, 3).value()),
        memory_(tiered::Directory::bytes(directory_shape_) + 64),
        directory_(make_directory()),
        shard_(shard_shape(), &directory_, &epochs_),
        up_to_(static_cast<size_t>(shape.keys)),
        key_of_(static_cast<size_t>(shape.keys)) {
    double sum = 0;
    for (size_t rank = 0; rank < up_to_.size(); ++rank)
      up_to_[rank] = sum += std::pow(static_cast<double>(rank + 1), -shape.alpha);
    for (double& share : up_to_) share /= sum;
    std::iota(key_of_.begin(), key_of_.end(), int64_t{0});
    shift();
  }

  /// The share of lookups that the hottest keys of all have, one per place.
  double best() const { return up_to_[static_cast<size_t>(shape_.places - 1)]; }
  /// Other keys are hot from now on.
  void shift() { std::shuffle(key_of_.begin(), key_of_.end(), random_); }

  /// Keys of any heat, as first rows are.
  void load_first() {
    for (int64_t key = 0; key < shape_.places; ++key) load(key, 0);
  }
  /// The hottest, as warm as Prefill makes them.
  void load_hottest() {
    for (size_t rank = 0; rank < static_cast<size_t>(shape_.places); ++rank) {
      const double share = up_to_[rank] - (rank > 0 ? up_to_[rank - 1] : 0);
      const double heat = std::round(share * shape_.places * tiered::kHeatOfShare);
      load(key_of_[rank], static_cast<uint8_t>(std::clamp(heat, 1.0, 255.0)));
    }
  }

  /// The hit rate of so many lookups a place, as a part of best().
  double run(double lookups_a_place) {
    const auto n = static_cast<int64_t>(lookups_a_place * shape_.places);
    int64_t hits = 0;
    for (int64_t i = 0; i < n; ++i) hits += look(draw());
    return static_cast<double>(hits) / static_cast<double>(n) / best();
  }
  /// So many keys a place that nobody has asked for, nor will again.
  void scan(double keys_a_place) {
    for (auto n = static_cast<int64_t>(keys_a_place * shape_.places); n > 0; --n) look(next_cold_++);
  }

 private:
  tiered::Directory make_directory() {
    void* at = memory_.data();
    size_t space = memory_.size();
    const uint64_t bytes = tiered::Directory::bytes(directory_shape_);
    return {directory_shape_, std::align(64, bytes, at, space)};
  }
  tiered::Shard::Shape shard_shape() const {
    tiered::Shard::Shape s;
    s.places = shape_.places;
    return s;
  }
  tiered::HashedKey hashed(int64_t key) const {
    const tiered::TableCode table = directory_.table(1);
    return {table, directory_.hash(table, key), key};
  }
  int64_t draw() {
    const double u = std::uniform_real_distribution<double>(0, 1)(random_);
    const auto rank = std::lower_bound(up_to_.begin(), up_to_.end() - 1, u) - up_to_.begin();
    return key_of_[static_cast<size_t>(rank)];
  }
  void load(int64_t key, uint8_t heat) {
    if (shard_.spare() <= 0) return;
    const auto claimed = shard_.claim(hashed(key), false, nullptr, 0);
    shard_.publish(claimed.fetch, true, 0, heat);
  }
  /// As a reader and its fetch do.
  bool look(int64_t key) {
    const tiered::HashedKey k = hashed(key);
    const int32_t place = directory_.find(k.table, k.hash, k.key);
    if (place >= 0) {
      if (n_hits_++ % tiered::kSampledOneIn == 0) shard_.warm(place);
      return true;
    }
    auto claimed = shard_.claim(k, false, nullptr, 0);
    while (claimed.what == tiered::Shard::Claim::kNoPlace) claimed = shard_.claim(k, false, nullptr, 0);
    shard_.publish(claimed.fetch, true, 0);
    return false;
  }

  const TrafficShape shape_;
  const tiered::DirectoryShape directory_shape_;
  std::vector<std::byte> memory_;
  tiered::Directory directory_;
  tiered::Epochs epochs_;
  tiered::Shard shard_;
  std::mt19937_64 random_{5};
  std::vector<double> up_to_;  // per rank: the share of it and all hotter ones
  std::vector<int64_t> key_of_;
  int64_t next_cold_ = int64_t{1} << 40;
  uint64_t n_hits_ = 0;
};

}  // namespace dpi::test
