// Which rows a value has: one row for the whole model, a row per shared (user) row of the request, or a row
// per item.
#pragma once

#include <cstdint>

namespace dpi {

/// Ordered: an op has the largest space of its inputs.
enum class RowSpace : int32_t { kConstant = 0, kShared = 1, kItem = 2 };

constexpr const char* name_of(RowSpace space) {
  constexpr const char* kNames[] = {"constant", "shared", "item"};
  return kNames[static_cast<int>(space)];
}

/// The spaces that hold rows of a request, in the order of the packed input.
inline constexpr RowSpace kRequestSpaces[] = {RowSpace::kItem, RowSpace::kShared};

/// One T for the item rows of a request and one for its shared rows.
template <class T>
struct PerSpace {
  T item{};
  T shared{};

  T& operator[](RowSpace space) { return space == RowSpace::kShared ? shared : item; }
  const T& operator[](RowSpace space) const { return space == RowSpace::kShared ? shared : item; }
};

}  // namespace dpi
