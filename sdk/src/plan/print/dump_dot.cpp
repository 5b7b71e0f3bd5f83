// Graphviz form of a plan: one cluster per stream, colours per branch, dashed edges where an event orders two
// streams. Ops that are alike in every respect that the picture shows (the lookups of forty fields) are one
// box.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/printable.hpp"
#include "ops/table.hpp"
#include "plan/analysis/ir.hpp"
#include "plan/print/text.hpp"

namespace dpi {
namespace {

using plan::dims_text;

constexpr size_t kGroupFrom = 4;  // fewer are drawn one by one
constexpr int kRounds = 64;       // after which ops that could still be told apart count as alike

/// Escapes a string for a label.
std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : printable(s)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}
std::string quoted(const std::string& s) { return "\"" + escaped(s) + "\""; }

std::string shape(const Plan& p, int32_t v) {
  const PlanValue& value = plan::value_of(p, v);
  std::string s = value.is_bags ? "ids" : dims_text(value.dims);
  if (value.space == RowSpace::kShared) s += " shared";
  if (value.space == RowSpace::kConstant) s += " constant";
  return s;
}

/// "[16]", "26 x [16]", "[4], 3 x [16]".
std::string shapes(const Plan& p, const std::vector<int32_t>& values) {
  std::string s;
  for (size_t i = 0; i < values.size();) {
    if (values[i] < 0) {
      ++i;
      continue;
    }
    const std::string one = shape(p, values[i]);
    size_t n = 0;
    for (; i < values.size() && (values[i] < 0 || shape(p, values[i]) == one); ++i)
      n += values[i] >= 0 ? 1 : 0;
    s += (s.empty() ? "" : ", ") + (n > 1 ? std::to_string(n) + " x " : "") + one;
  }
  return s;
}

/// "C1", "C1 .. C26 (26)".
std::string ends(const std::vector<std::string>& names) {
  if (names.size() < 4) {
    std::string s;
    for (const std::string& n : names) s += (s.empty() ? "" : ", ") + n;
    return s;
  }
  return names.front() + " .. " + names.back() + " (" + std::to_string(names.size()) + ")";
}

std::string weights(const Plan& p, const PlanOp& op) {
  std::string s;
  for (const int32_t w : op.params) {
    if (w >= 0) s += (s.empty() ? "" : ", ") + dims_text(plan::param_of(p, w).dims);
  }
  return s;
}

/// One sweep: an op's class becomes that of what it was and of its neighbours, those before it in the sweep
/// told apart already. The number of classes.
size_t tell_apart(const std::vector<std::vector<int32_t>>& neighbours, bool backwards,
                  std::vector<int32_t>* of) {
  std::map<std::pair<int32_t, std::set<int32_t>>, int32_t> seen;
  const size_t n = of->size();
  const auto known = static_cast<int32_t>(n);  // classes of this sweep are numbered behind all of the last
  for (size_t k = 0; k < n; ++k) {
    const size_t i = backwards ? n - 1 - k : k;
    std::set<int32_t> beside;
    for (const int32_t j : neighbours[i]) beside.insert((*of)[static_cast<size_t>(j)]);
    const auto fresh = known + static_cast<int32_t>(seen.size());
    (*of)[i] = seen.emplace(std::pair((*of)[i], std::move(beside)), fresh).first->second;
  }
  for (int32_t& c : *of) c -= known;
  return seen.size();
}

/// The class of each op: ops of one class are drawn as one box. Starts from each op's own attributes and goes
/// on telling ops apart by the classes before and after them, until none are left to tell apart. Each sweep
/// uses its own results, forward along the issue order and back, so a long chain takes one, not one per op.
std::vector<int32_t> classes(const Plan& p, const plan::Dag& dag) {
  const size_t n = p.ops.size();
  std::vector<int32_t> of(n, 0);
  std::map<std::string, int32_t> kinds;
  for (size_t i = 0; i < n; ++i) {
    const PlanOp& op = p.ops[i];
    std::string what = std::string(op_name(op.kind)) + "/" + plan::attrs_text(op) + "/" +
                       std::to_string(op.stream) + "/" + std::to_string(op.inputs.size());
    for (const int32_t v : op.outputs) what += v < 0 ? "-" : "/" + std::to_string(p.values[v].dims.rank);
    of[i] = kinds.emplace(std::move(what), static_cast<int32_t>(kinds.size())).first->second;
  }
  size_t count = kinds.size();
  for (int round = 0; round < kRounds; ++round) {
    tell_apart(dag.preds, false, &of);
    const size_t before = std::exchange(count, tell_apart(dag.succs, true, &of));
    if (count == before) break;
  }
  return of;
}

/// The boxes, each a list of ops in issue order.
struct Boxes {
  std::vector<std::vector<size_t>> ops;
  std::vector<size_t> of;  // the box of each op
};

Boxes boxes_of(const Plan& p, const plan::Dag& dag) {
  const std::vector<int32_t> alike = classes(p, dag);
  std::map<int32_t, size_t> size, box;
  for (const int32_t c : alike) ++size[c];
  Boxes b;
  for (size_t i = 0; i < p.ops.size(); ++i) {
    const bool grouped = size[alike[i]] >= kGroupFrom;
    const size_t at = grouped && box.contains(alike[i]) ? box[alike[i]] : b.ops.size();
    if (at == b.ops.size()) b.ops.emplace_back();
    if (grouped) box[alike[i]] = at;
    b.ops[at].push_back(i);
    b.of.push_back(at);
  }
  return b;
}

/// The lines that all ops of a box have in common, or the first and the last of them.
template <class Text>
std::string common(const std::vector<size_t>& ops, Text text) {
  std::vector<std::string> all;
  for (const size_t i : ops) all.push_back(text(i));
  std::sort(all.begin(), all.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return all.front() == all.back() ? all.front() : all.front() + " .. " + all.back();
}

std::string label(const Plan& p, const std::vector<size_t>& ops) {
  const PlanOp& first = p.ops[ops.front()];
  std::vector<std::string> names, features;
  for (const size_t i : ops) {
    names.push_back(p.ops[i].name);
    for (const int32_t v : p.ops[i].inputs) {
      if (v >= 0 && plan::value_of(p, v).feature >= 0)
        features.push_back(p.features[static_cast<size_t>(plan::value_of(p, v).feature)].name);
    }
  }
  const std::string n = ops.size() == 1 ? "" : std::to_string(ops.size()) + " x ";
  std::string s = escaped(n + op_name(first.kind) + "  " + ends(names)) + "\\n";
  s += escaped(common(ops, [&](size_t i) { return shapes(p, p.ops[i].inputs); }) + " -> " +
               common(ops, [&](size_t i) { return shapes(p, p.ops[i].outputs); })) +
       "\\n";
  if (const std::string does = plan::attrs_text(first); !does.empty()) s += escaped(does) + "\\n";
  const std::string w = common(ops, [&](size_t i) { return weights(p, p.ops[i]); });
  if (!w.empty()) s += escaped("weights " + w) + "\\n";
  if (!features.empty()) s += escaped("reads " + ends(features)) + "\\n";
  const std::string last = ops.size() == 1 ? "" : " .. " + std::to_string(ops.back());
  return s + "op " + std::to_string(ops.front()) + last +
         (ops.size() == 1 ? ", branch " + std::to_string(first.branch) : "");
}

std::string node(const Plan& p, const Boxes& boxes, size_t b) {
  constexpr const char* kColours[] = {"#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc",
                                      "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc"};
  const PlanOp& op = p.ops[boxes.ops[b].front()];
  return "    n" + std::to_string(b) + " [label=\"" + label(p, boxes.ops[b]) + "\", fillcolor=\"" +
         kColours[static_cast<size_t>(op.branch) % 8] + "\"];\n";
}

std::string edges(const Plan& p, const plan::Dag& dag, const Boxes& boxes) {
  std::string out;
  std::set<std::pair<size_t, size_t>> drawn;
  for (size_t i = 0; i < p.ops.size(); ++i) {
    for (const int32_t j : dag.succs[i]) {
      const size_t from = boxes.of[i], to = boxes.of[static_cast<size_t>(j)];
      if (!drawn.emplace(from, to).second) continue;
      const bool crosses = p.ops[static_cast<size_t>(j)].stream != p.ops[i].stream;
      out += "  n" + std::to_string(from) + " -> n" + std::to_string(to) +
             (crosses ? " [style=dashed];\n" : ";\n");
    }
  }
  return out;
}

/// The heads as ellipses behind the ops that write them.
std::string heads(const Plan& p, const Boxes& boxes) {
  std::string out;
  for (size_t h = 0; h < p.heads.size(); ++h) {
    const std::string name = "h" + std::to_string(h);
    out +=
        "  " + name + " [label=" + quoted("head " + p.heads[h].name) + ", shape=ellipse, fillcolor=white];\n";
    for (size_t i = 0; i < p.ops.size(); ++i) {
      const auto& made = p.ops[i].outputs;
      if (std::find(made.begin(), made.end(), p.heads[h].value) != made.end())
        out += "  n" + std::to_string(boxes.of[i]) + " -> " + name + ";\n";
    }
  }
  return out;
}

}  // namespace

std::string dump_plan_dot(const Plan& p) {
  std::string out =
      "digraph " + quoted(p.name) +
      " {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=10];\n";
  const plan::Dag dag = plan::dag_of(p);
  const Boxes boxes = boxes_of(p, dag);
  for (int32_t s = 0; s < p.n_streams; ++s) {
    out +=
        "  subgraph cluster_" + std::to_string(s) + " {\n    label=\"stream " + std::to_string(s) + "\";\n";
    for (size_t b = 0; b < boxes.ops.size(); ++b) {
      if (p.ops[boxes.ops[b].front()].stream == s) out += node(p, boxes, b);
    }
    out += "  }\n";
  }
  return out + edges(p, dag, boxes) + heads(p, boxes) + "}\n";
}

}  // namespace dpi
