// What build_graph promises beyond shapes: row spaces, one BroadcastRows per shared value, parameters read
// once, heads.
#include <doctest/doctest.h>

#include <algorithm>

#include "fixture.hpp"

namespace dpi::test::build_test {
namespace {

using dpi::Code;
using dpi::Graph;
using dpi::OpKind;
using dpi::RowSpace;

const char* const kTwoSpaces = R"({"features": [
  {"name": "u", "kind": "dense", "dim": 3, "space": "shared"}, {"name": "i", "kind": "dense", "dim": 3},
  {"name": "b", "kind": "sequence", "vocab_size": 4, "space": "shared"}],
 "tables": [{"name": "t", "rows": 4, "dim": 3}],
 "ops": [{"name": "u", "op": "Input", "attrs": {"feature": "u"}}, {"name": "i", "op": "Input", "attrs": {"feature": "i"}},
  {"name": "k", "op": "Const", "params": {"value": "k"}},
  {"name": "uk", "op": "Binary", "in": ["u", "k"], "attrs": {"kind": "mul"}},
  {"name": "kk", "op": "Binary", "in": ["k", "k"], "attrs": {"kind": "mul"}},
  {"name": "a", "op": "Binary", "in": ["uk", "i"], "attrs": {"kind": "add"}},
  {"name": "b", "op": "Binary", "in": ["i", "uk"], "attrs": {"kind": "sub"}},
  {"name": "c", "op": "Concat", "in": ["uk", "a", "k", "uk"]},
  {"name": "s", "op": "Reduce", "in": ["c"], "attrs": {"kind": "sum", "axis": 0, "keepdim": true}},
  {"name": "us", "op": "Reduce", "in": ["uk"], "attrs": {"kind": "sum", "axis": 0, "keepdim": true}},
  {"name": "ks", "op": "Reduce", "in": ["kk"], "attrs": {"kind": "sum", "axis": 0, "keepdim": true}}],
 "heads": [)";

Graph build_ok(const std::string& heads) {
  MapParams params({{"k", {3}}});
  auto graph = dpi::build_graph(manifest_of(kTwoSpaces + heads + "]}"), params);
  REQUIRE_MESSAGE(graph.ok(), graph.status().message());
  CHECK(params.reads == 1);
  return std::move(graph).value();
}

const dpi::GraphValue& value(const Graph& g, const std::string& name) {
  const auto it =
      std::find_if(g.values.begin(), g.values.end(), [&](const auto& v) { return v.name == name; });
  REQUIRE(it != g.values.end());
  return *it;
}

dpi::Status refused_heads(const std::string& heads) {
  MapParams params({{"k", {3}}});
  auto graph = dpi::build_graph(manifest_of(kTwoSpaces + heads + "]}"), params);
  REQUIRE_FALSE(graph.ok());
  CHECK(params.reads == 0);
  return std::move(graph).status();
}

}  // namespace

TEST_CASE("an op has the largest space of its inputs, and constants stay as they are") {
  const Graph g = build_ok(R"({"name": "h", "value": "s"})");
  CHECK(value(g, "u").space == RowSpace::kShared);
  CHECK(value(g, "k").space == RowSpace::kConstant);
  CHECK(value(g, "kk").space == RowSpace::kConstant);
  CHECK(value(g, "uk").space == RowSpace::kShared);
  CHECK(value(g, "a").space == RowSpace::kItem);
  for (const auto& node : g.nodes) {
    for (const int32_t v : node.inputs) {
      const RowSpace in = g.values[v].space, out = g.values[node.output].space;
      CHECK((in == out || in == RowSpace::kConstant || node.kind == OpKind::kBroadcastRows));
    }
  }
}

TEST_CASE("one BroadcastRows per shared value, before its first use") {
  const Graph g = build_ok(R"({"name": "h", "value": "s"})");
  const auto is_broadcast = [](const auto& n) { return n.kind == OpKind::kBroadcastRows; };
  CHECK(std::count_if(g.nodes.begin(), g.nodes.end(), is_broadcast) == 1);
  std::vector<bool> produced(g.values.size(), false);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const int32_t v : g.nodes[n].inputs) CHECK(produced[v]);
    produced[g.nodes[n].output] = true;
    CHECK(g.values[g.nodes[n].output].producer == static_cast<int32_t>(n));
  }
}

TEST_CASE("heads are item values of one float") {
  const Graph g = build_ok(R"({"name": "h", "value": "us", "logit": "us"}, {"name": "k", "value": "ks"})");
  CHECK(g.values[g.heads[0].value].space == RowSpace::kItem);
  CHECK(g.heads[0].logit == g.heads[0].value);
  CHECK(g.values[g.heads[1].value].space == RowSpace::kItem);
  CHECK(g.nodes[g.values[g.heads[1].value].producer].kind == OpKind::kBroadcastRows);
}

TEST_CASE("heads that do not fit are refused by name") {
  CHECK(refused_heads("").message().find("no heads") != std::string::npos);
  const auto missing = refused_heads(R"({"name": "h", "value": "zip"})");
  CHECK(missing.code() == Code::kBadModel);
  CHECK(missing.message() == "head 'h': value 'zip' is not an op");
  CHECK(refused_heads(R"({"name": "h", "value": "a"})").message() ==
        "head 'h': value 'a' is [3], expected one float per row");
  CHECK(refused_heads(R"({"name": "h", "value": "s", "logit": "c"})").message() ==
        "head 'h': logit 'c' is [12], expected one float per row");
  CHECK(refused_heads(R"({"name": "h", "value": "s"}, {"name": "h", "value": "s"})").message() ==
        "head 'h' is defined twice");
}

TEST_CASE("a head of ids is refused") {
  MapParams params({});
  const auto graph =
      dpi::build_graph(manifest_of(R"({"features": [{"name": "c", "kind": "categorical", "vocab_size": 2}],
        "ops": [{"name": "c", "op": "Input", "attrs": {"feature": "c"}}], "heads": [{"name": "h", "value": "c"}]})"),
                       params);
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.status().message() == "head 'h': value 'c' holds ids, expected one float per row");
}

TEST_CASE("parameters are read once, whole, and with the length of their shape") {
  const Graph g = build_ok(R"({"name": "h", "value": "s"})");
  REQUIRE(g.params.size() == 1);
  CHECK(g.params[0].data == std::vector<float>{0, 1, 2});
  MapParams params({{"k", {3}}});
  params.lie = 1;
  const auto lied =
      dpi::build_graph(manifest_of(std::string(kTwoSpaces) + R"({"name": "h", "value": "s"}]})"), params);
  REQUIRE_FALSE(lied.ok());
  CHECK(lied.status().message() == "parameter 'k': read 4 floats, expected [3]");
}

TEST_CASE("a feature with a pad id gives it to Embed and Mask") {
  MapParams params({});
  const auto g = dpi::build_graph(
      manifest_of(
          R"({"features": [{"name": "s", "kind": "sequence", "vocab_size": 9, "max_len": 3, "pad_id": 7, "pad_side": "pre"}],
        "tables": [{"name": "t", "rows": 9, "dim": 1}],
        "ops": [{"name": "s", "op": "Input", "attrs": {"feature": "s"}},
                {"name": "m", "op": "Mask", "in": ["s"], "attrs": {"rule": "id"}},
                {"name": "e", "op": "Embed", "in": ["s"], "attrs": {"table": "t", "pooling": "sum", "mask": "id"}}],
        "heads": [{"name": "h", "value": "e"}]})"),
      params);
  REQUIRE_MESSAGE(g.ok(), g.status().message());
  const auto& mask = std::get<dpi::kernels::MaskAttrs>(g->nodes[1].attrs);
  const auto& embed = std::get<dpi::kernels::EmbedAttrs>(g->nodes[2].attrs);
  CHECK(mask.pad_id == 7);
  CHECK(mask.max_len == 3);
  CHECK(mask.pad_side == dpi::kernels::PadSide::kPre);
  CHECK(embed.pad_id == 7);
  CHECK(embed.max_len == 3);
  CHECK(embed.pad_side == dpi::kernels::PadSide::kPre);
}

TEST_CASE("a long row of ops with a far cycle is explained without recursion") {
  std::string ops;
  for (int i = 0; i < 20000; ++i) {
    const std::string in = i == 0 ? "o19999" : "o" + std::to_string(i - 1);
    ops += std::string(i == 0 ? "" : ",") + R"({"name": "o)" + std::to_string(i) +
           R"(", "op": "Unary", "in": [")" + in + R"("], "attrs": {"kind": "relu"}})";
  }
  MapParams params({});
  const auto graph = dpi::build_graph(
      manifest_of(R"({"ops": [)" + ops + R"(], "heads": [{"name": "h", "value": "o0"}]})"), params);
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.status().message().find("the graph has a cycle") != std::string::npos);
}

}  // namespace dpi::test::build_test
