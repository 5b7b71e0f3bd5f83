// Which ranges of a file are taken. Ranges that touch are kept as one, so a file whose structures lie side by
// side needs a few entries, however many structures it has.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace dpi::hdf5 {

class Claims {
 public:
  /// Takes [begin, begin + n), whose end must not overflow; false when any byte of it is taken already.
  bool take(uint64_t begin, uint64_t n) {
    if (n == 0) return true;
    uint64_t end = begin + n;
    auto next = ends_.lower_bound(begin);
    if (next != ends_.end() && next->first < end) return false;
    if (next != ends_.begin()) {
      const auto before = std::prev(next);
      if (before->second > begin) return false;
      if (before->second == begin) {
        begin = before->first;
        ends_.erase(before);
      }
    }
    if (next != ends_.end() && next->first == end) {
      end = next->second;
      ends_.erase(next);
    }
    ends_[begin] = end;
    return true;
  }

 private:
  std::map<uint64_t, uint64_t> ends_;  // begin -> end
};

}  // namespace dpi::hdf5
