// The primitives of the op table as JSON, for check_documents.py: name, inputs, attribute keys, roles.
#include <cstdio>
#include <string>

#include "ops/table.hpp"

namespace {

std::string list(const dpi::Names& names) {
  std::string s = "[";
  for (const std::string_view name : names) {
    s += (s.size() > 1 ? ", \"" : "\"") + std::string(name) + "\"";
  }
  return s + "]";
}

}  // namespace

int main() {
  const char* between = "{\n";
  for (const dpi::OpForm& f : dpi::op_forms()) {
    if (f.infer == nullptr) continue;
    std::printf("%s\"%s\": {\"inputs\": [%d, %d], \"keys\": %s, \"roles\": %s}", between,
                dpi::op_name(f.kind), f.min_inputs, f.max_inputs, list(f.keys).c_str(),
                list(f.roles).c_str());
    between = ",\n";
  }
  std::printf("\n}\n");
  return 0;
}
