// Is memory flat? Samples of the resident set, and how much the straight line through them rises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpi::soak {

/// Of this process, in bytes.
uint64_t resident_bytes();

class MemoryWatch {
 public:
  /// What the line may rise from the end of the warm-up, a third of the samples, to the last sample. A leak
  /// of one bundle's manifest per thousand actions passes it within a run of 30 minutes.
  static constexpr double kMostRise = 24.0 * (1 << 20);

  void sample() { samples_.push_back(static_cast<double>(resident_bytes())); }
  size_t samples() const { return samples_.size(); }
  /// Rise of the least-squares line over the last two thirds, in bytes.
  double rise() const;
  double first() const { return samples_.empty() ? 0 : samples_[samples_.size() / 3]; }
  double last() const { return samples_.empty() ? 0 : samples_.back(); }

 private:
  std::vector<double> samples_;
};

}  // namespace dpi::soak
