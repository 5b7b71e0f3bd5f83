#include "plan/print/text.hpp"

#include "ops/table.hpp"

namespace dpi::plan {

const char* space_name(RowSpace space) {
  constexpr const char* kNames[] = {"const", "shared", "item"};
  return kNames[static_cast<int32_t>(space)];
}

std::string number_text(double x) { return ops::text_of(static_cast<float>(x)); }

std::string attrs_text(const PlanOp& op) { return form_of(op.kind).text({op.attrs, op, op.inputs}); }

}  // namespace dpi::plan
