// Graphviz form of a plan: one cluster per stream, colours per branch, dashed edges where an event orders two
// streams.
#include <string>

#include "ops/table.hpp"
#include "plan/analysis/ir.hpp"
#include "plan/print/text.hpp"

namespace dpi {
namespace {

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string node(const Plan& p, size_t i) {
  constexpr const char* kColours[] = {"#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc",
                                      "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc"};
  const PlanOp& op = p.ops[i];
  const std::string label =
      std::to_string(i) + " " + op_name(op.kind) + " " + op.name + " / branch " + std::to_string(op.branch);
  return "    n" + std::to_string(i) + " [label=" + quoted(label) + ", fillcolor=\"" +
         kColours[static_cast<size_t>(op.branch) % 8] + "\"];\n";
}

}  // namespace

std::string dump_plan_dot(const Plan& p) {
  std::string out = "digraph " + quoted(p.name) +
                    " {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"Helvetica\"];\n";
  for (int32_t s = 0; s < p.n_streams; ++s) {
    out +=
        "  subgraph cluster_" + std::to_string(s) + " {\n    label=\"stream " + std::to_string(s) + "\";\n";
    for (size_t i = 0; i < p.ops.size(); ++i) {
      if (p.ops[i].stream == s) out += node(p, i);
    }
    out += "  }\n";
  }
  const plan::Dag dag = plan::dag_of(p);
  for (size_t i = 0; i < p.ops.size(); ++i) {
    for (int32_t j : dag.succs[i]) {
      const bool crosses = p.ops[static_cast<size_t>(j)].stream != p.ops[i].stream;
      out +=
          "  n" + std::to_string(i) + " -> n" + std::to_string(j) + (crosses ? " [style=dashed];\n" : ";\n");
    }
  }
  return out + "}\n";
}

}  // namespace dpi
