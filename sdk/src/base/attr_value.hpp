// The value of an op's attribute, as the manifest gives it; the op's handler says which kind it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace dpi {

/// An object, or a list of something other than integers: no op takes one. Kept as JSON text, for the
/// refusal.
struct OtherJson {
  std::string text;
  bool operator==(const OtherJson&) const = default;
};

/// An integer is a number written without point and exponent; uint64_t holds only those beyond int64_t.
using AttrValue = std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string,
                               std::vector<int64_t>, OtherJson>;
using AttrMap = std::map<std::string, AttrValue, std::less<>>;

/// The value as JSON text.
std::string json_text(const AttrValue& value);

}  // namespace dpi
