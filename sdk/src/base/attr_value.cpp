#include "base/attr_value.hpp"

#include "base/json_text.hpp"

namespace dpi {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

}  // namespace

std::string json_text(const AttrValue& value) {
  return std::visit(Overloaded{[](const std::vector<int64_t>& list) {
                                 JsonWriter w;
                                 w.begin_list();
                                 for (const int64_t v : list) w.value(v);
                                 w.end_list();
                                 return w.take();
                               },
                               [](const OtherJson& other) { return other.text; },
                               [](const auto& scalar) { return json_text(JsonScalar(scalar)); }},
                    value);
}

}  // namespace dpi
