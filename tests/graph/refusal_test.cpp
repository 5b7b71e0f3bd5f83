// Each refusal of build_graph: its code, and a text that names the op and what was expected.
#include <doctest/doctest.h>

#include "fixture.hpp"

namespace dpi::test::refusal_test {
namespace {

using dpi::Code;

struct Refusal {
  const char* name;
  const char* ops;  // after the inputs below; the head reads "n"
  Code code;
  const char* text;
};

const char* const kBefore = R"({"features": [
  {"name": "c", "kind": "categorical", "vocab_size": 10}, {"name": "s", "kind": "sequence", "vocab_size": 10, "max_len": 4},
  {"name": "w", "kind": "sequence", "vocab_size": 10, "max_len": 4, "weighted": true},
  {"name": "u", "kind": "sequence", "vocab_size": 10}, {"name": "n", "kind": "numeric"}, {"name": "d", "kind": "dense", "dim": 6}],
 "tables": [{"name": "t", "rows": 10, "dim": 4}, {"name": "small", "rows": 9, "dim": 4}],
 "heads": [{"name": "h", "value": "n"}],
 "ops": [{"name": "c", "op": "Input", "attrs": {"feature": "c"}}, {"name": "s", "op": "Input", "attrs": {"feature": "s"}},
  {"name": "w", "op": "Input", "attrs": {"feature": "w"}}, {"name": "u", "op": "Input", "attrs": {"feature": "u"}},
  {"name": "n", "op": "Input", "attrs": {"feature": "n"}}, {"name": "d", "op": "Input", "attrs": {"feature": "d"}},
  {"name": "x", "op": "View", "in": ["d"], "attrs": {"kind": "reshape", "dims": [2, 3]}},
  {"name": "e", "op": "Embed", "in": ["s"], "attrs": {"table": "t", "pooling": "none"}},
  {"name": "m", "op": "Mask", "in": ["s"], "attrs": {"rule": "id"}}, )";

MapParams params() {
  return MapParams({{"v3", {3}},
                    {"v4", {4}},
                    {"w26", {2, 6}},
                    {"w25", {2, 5}},
                    {"w246", {2, 4, 6}},
                    {"zero", {0, 6}},
                    {"deep", {1, 1, 1, 1, 1, 1}},
                    {"huge", {4611686018427387904, 4611686018427387904}},
                    {"big", {8192, 8192}},
                    {"w124", {12, 4}},
                    {"scalar", {}}});
}

void check(const Refusal& r) {
  CAPTURE(r.name);
  MapParams source = params();
  const auto graph = dpi::build_graph(manifest_of(kBefore + std::string(r.ops) + "]}"), source);
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.status().code() == r.code);
  const std::string& message = graph.status().message();
  CAPTURE(message);
  CHECK(message.find(r.text) != std::string::npos);
  CHECK(message.find("op '") != std::string::npos);
  CHECK(source.reads == 0);  // nothing is read before everything is checked
}

const Refusal kStructure[] = {
    {"unknown op", R"({"name": "y", "op": "Dropout", "in": ["n"]})", Code::kUnsupported,
     "op 'y' (Dropout): this op is not known"},
    {"unknown version", R"({"name": "y", "op": "Linear", "v": 2, "in": ["n"]})", Code::kUnsupported,
     "op 'y' (Linear): version 2 is not known, expected 1"},
    {"duplicate name", R"({"name": "n", "op": "Unary", "in": ["n"], "attrs": {"kind": "relu"}})",
     Code::kBadModel, "op 'n' (Unary): the name is used"},
    {"missing input", R"({"name": "y", "op": "Unary", "in": ["nowhere"], "attrs": {"kind": "relu"}})",
     Code::kBadModel, "op 'y' (Unary): input 'nowhere' does not exist"},
    {"forward reference",
     R"({"name": "y", "op": "Unary", "in": ["z"], "attrs": {"kind": "relu"}},
        {"name": "z", "op": "Unary", "in": ["n"], "attrs": {"kind": "relu"}})",
     Code::kBadModel, "op 'y' (Unary): input 'z' is defined later, expected topological order"},
    {"cycle of two",
     R"({"name": "y", "op": "Unary", "in": ["z"], "attrs": {"kind": "relu"}},
        {"name": "z", "op": "Unary", "in": ["y"], "attrs": {"kind": "relu"}})",
     Code::kBadModel, "op 'y' (Unary): the graph has a cycle: 'y' -> 'z' -> 'y'"},
    {"cycle of one", R"({"name": "y", "op": "Unary", "in": ["y"], "attrs": {"kind": "relu"}})",
     Code::kBadModel, "the graph has a cycle: 'y' -> 'y'"},
    {"cycle of three",
     R"({"name": "y", "op": "Binary", "in": ["n", "b"], "attrs": {"kind": "add"}},
        {"name": "a", "op": "Unary", "in": ["y"], "attrs": {"kind": "relu"}},
        {"name": "b", "op": "Binary", "in": ["n", "a"], "attrs": {"kind": "add"}})",
     Code::kBadModel, "'y' -> 'a' -> 'b' -> 'y'"},
    {"too few inputs", R"({"name": "y", "op": "Binary", "in": ["n"], "attrs": {"kind": "add"}})",
     Code::kBadModel, "op 'y' (Binary): 1 inputs, expected 2"},
    {"too many inputs", R"({"name": "y", "op": "Softmax", "in": ["x", "x", "x"]})", Code::kBadModel,
     "3 inputs, expected 1 to 2"},
    {"no input", R"({"name": "y", "op": "Concat", "in": []})", Code::kBadModel,
     "0 inputs, expected 1 to 65536"},
    {"unknown attribute", R"({"name": "y", "op": "Concat", "in": ["n"], "attrs": {"dim": 1}})",
     Code::kUnsupported, "op 'y' (Concat): attribute 'dim' is not known"},
    {"unknown role",
     R"({"name": "y", "op": "Linear", "in": ["d"], "params": {"weight": "w26", "gate": "w26"}})",
     Code::kUnsupported, "parameter 'gate' is not known"},
    {"missing role", R"({"name": "y", "op": "Linear", "in": ["d"]})", Code::kBadModel,
     "parameter 'weight' is missing"},
    {"missing data set", R"({"name": "y", "op": "Linear", "in": ["d"], "params": {"weight": "gone"}})",
     Code::kBadModel, "parameter weight ('gone'): /params/gone does not exist"},
    {"parameter without elements",
     R"({"name": "y", "op": "Linear", "in": ["d"], "params": {"weight": "zero"}})", Code::kBadModel,
     "is [0, 6], expected 1 to 5 dims of at least 1"},
    {"parameter of six dims", R"({"name": "y", "op": "Const", "params": {"value": "deep"}})", Code::kBadModel,
     "expected 1 to 5 dims"},
    {"scalar parameter", R"({"name": "y", "op": "Const", "params": {"value": "scalar"}})", Code::kBadModel,
     "is [], expected 1 to 5 dims"},
    {"parameter whose size overflows", R"({"name": "y", "op": "Const", "params": {"value": "huge"}})",
     Code::kBadModel, "too large"},
    {"value of 2^26 elements", R"({"name": "y", "op": "Const", "params": {"value": "big"}})", Code::kBadModel,
     "more than 2^24 elements per row"},
    {"value whose size overflows",
     R"({"name": "y", "op": "View", "in": ["n"], "attrs": {"kind": "expand", "dims": [4611686018427387904, 4611686018427387904]}})",
     Code::kBadModel, "more than 2^24 elements per row"},
};

const Refusal kTypes[] = {
    {"choice of another type", R"({"name": "y", "op": "Unary", "in": ["n"], "attrs": {"kind": 3}})",
     Code::kBadModel, "attribute 'kind' is 3, expected a text"},
    {"missing attribute", R"({"name": "y", "op": "Unary", "in": ["n"]})", Code::kBadModel,
     "attribute 'kind' is missing"},
    {"unknown choice", R"({"name": "y", "op": "Binary", "in": ["n", "n"], "attrs": {"kind": "mod"}})",
     Code::kUnsupported,
     "kind is 'mod', expected one of add, sub, mul, div, max, min, lt, le, gt, ge, eq, ne, atan2"},
    {"integer as float", R"({"name": "y", "op": "Concat", "in": ["n"], "attrs": {"axis": 0.0}})",
     Code::kBadModel, "attribute 'axis' is 0.0, expected an integer"},
    {"integer too large",
     R"({"name": "y", "op": "Concat", "in": ["n"], "attrs": {"axis": 18446744073709551615}})",
     Code::kBadModel, "expected an integer"},
    {"number as text", R"({"name": "y", "op": "LayerNorm", "in": ["d"], "attrs": {"eps": "1"}})",
     Code::kBadModel, "attribute 'eps' is \"1\", expected a finite number"},
    {"number beyond float", R"({"name": "y", "op": "LayerNorm", "in": ["d"], "attrs": {"eps": 1e300}})",
     Code::kBadModel, "expected a finite number"},
    {"flag as number", R"({"name": "y", "op": "MatMul", "in": ["x", "x"], "attrs": {"trans_a": 1}})",
     Code::kBadModel, "attribute 'trans_a' is 1, expected true or false"},
    {"list of other things",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "transpose", "perm": [1, "0"]}})",
     Code::kBadModel, "attribute 'perm' is not a list of integers"},
    {"axis outside", R"({"name": "y", "op": "Concat", "in": ["x"], "attrs": {"axis": 2}})", Code::kBadModel,
     "axis 2 is outside a value of dims [2, 3]"},
    {"axis below", R"({"name": "y", "op": "Concat", "in": ["x"], "attrs": {"axis": -3}})", Code::kBadModel,
     "axis -3 is outside"},
};

const Refusal kSources[] = {
    {"unknown feature", R"({"name": "y", "op": "Input", "attrs": {"feature": "zip"}})", Code::kBadModel,
     "feature 'zip' is not in the schema"},
    {"feature of another type", R"({"name": "y", "op": "Input", "attrs": {"feature": 1}})", Code::kBadModel,
     "expected a text"},
    {"no feature", R"({"name": "y", "op": "Input"})", Code::kBadModel, "attribute 'feature' is missing"},
    {"unknown table", R"({"name": "y", "op": "Embed", "in": ["c"], "attrs": {"table": "zip"}})",
     Code::kBadModel, "table 'zip' does not exist"},
    {"table too small", R"({"name": "y", "op": "Embed", "in": ["c"], "attrs": {"table": "small"}})",
     Code::kBadModel, "feature 'c' has vocab_size 10, table 'small' has 9 rows"},
    {"embed of floats", R"({"name": "y", "op": "Embed", "in": ["n"], "attrs": {"table": "t"}})",
     Code::kBadModel, "input 'n' holds floats [1], expected ids"},
    {"floats of ids", R"({"name": "y", "op": "Unary", "in": ["c"], "attrs": {"kind": "relu"}})",
     Code::kBadModel, "input 'c' holds ids, expected floats"},
    {"single of a sequence", R"({"name": "y", "op": "Embed", "in": ["s"], "attrs": {"table": "t"}})",
     Code::kBadModel, "pooling 'single' needs a categorical feature, 's' is a sequence"},
    {"sum of a categorical",
     R"({"name": "y", "op": "Embed", "in": ["c"], "attrs": {"table": "t", "pooling": "sum"}})",
     Code::kBadModel, "pooling 'sum' needs a sequence feature"},
    {"none without max_len",
     R"({"name": "y", "op": "Embed", "in": ["u"], "attrs": {"table": "t", "pooling": "none"}})",
     Code::kBadModel, "pooling 'none' needs max_len > 0 on feature 'u'"},
    {"mask none without max_len",
     R"({"name": "y", "op": "Embed", "in": ["u"], "attrs": {"table": "t", "pooling": "sum", "mask": "none"}})",
     Code::kBadModel, "mask 'none' needs max_len > 0"},
    {"max of nonzero",
     R"({"name": "y", "op": "Embed", "in": ["s"], "attrs": {"table": "t", "pooling": "max", "mask": "nonzero"}})",
     Code::kBadModel, "mask 'nonzero' goes with pooling sum or mean"},
    {"max of weighted",
     R"({"name": "y", "op": "Embed", "in": ["w"], "attrs": {"table": "t", "pooling": "max"}})",
     Code::kBadModel, "pooling 'max' with the weighted feature 'w'"},
    {"weighted padding",
     R"({"name": "y", "op": "Embed", "in": ["w"], "attrs": {"table": "t", "pooling": "sum", "mask": "none"}})",
     Code::kBadModel, "mask 'none' with the weighted feature 'w'"},
    {"mask of a categorical", R"({"name": "y", "op": "Mask", "in": ["c"], "attrs": {"rule": "id"}})",
     Code::kBadModel, "feature 'c' is not a sequence with max_len > 0"},
    {"mask of an unlimited sequence",
     R"({"name": "y", "op": "Mask", "in": ["u"], "attrs": {"rule": "length"}})", Code::kBadModel,
     "feature 'u' is not a sequence with max_len > 0"},
    {"mask by rows of a vector", R"({"name": "y", "op": "Mask", "in": ["d"], "attrs": {"rule": "nonzero"}})",
     Code::kBadModel, "x is [6], rule 'nonzero' expects [T, D]"},
};

const Refusal kShapes[] = {
    {"linear width", R"({"name": "y", "op": "Linear", "in": ["d"], "params": {"weight": "w25"}})",
     Code::kBadModel, "weight is [2, 5], expected [.., 6] for x [6]"},
    {"linear rank", R"({"name": "y", "op": "Linear", "in": ["d"], "params": {"weight": "w246"}})",
     Code::kBadModel, "weight is [2, 4, 6], expected [out, in]"},
    {"linear bias",
     R"({"name": "y", "op": "Linear", "in": ["d"], "params": {"weight": "w26", "bias": "v3"}})",
     Code::kBadModel, "bias is [3], expected [2]"},
    {"linear no groups",
     R"({"name": "y", "op": "Linear", "in": ["d"], "attrs": {"groups": 0}, "params": {"weight": "w26"}})",
     Code::kBadModel, "groups is 0"},
    {"linear groups",
     R"({"name": "y", "op": "Linear", "in": ["x"], "attrs": {"groups": 3}, "params": {"weight": "w246"}})",
     Code::kBadModel, "weight is [2, 4, 6], expected [3, out, in]"},
    {"linear groups of x",
     R"({"name": "y", "op": "Linear", "in": ["x"], "attrs": {"groups": 2}, "params": {"weight": "w246"}})",
     Code::kBadModel, "x is [2, 3], expected [.., 2 or 1, 6]"},
    {"linear groups by field",
     R"({"name": "y", "op": "Linear", "in": ["x"], "attrs": {"groups": 2, "axis": "field"}, "params": {"weight": "w246"}})",
     Code::kBadModel, "axis 'field' takes no groups"},
    {"linear field",
     R"({"name": "y", "op": "Linear", "in": ["x"], "attrs": {"axis": "field"}, "params": {"weight": "w25"}})",
     Code::kBadModel, "weight is [2, 5], expected [.., 2]"},
    {"linear field of a vector",
     R"({"name": "y", "op": "Linear", "in": ["d"], "attrs": {"axis": "field"}, "params": {"weight": "w26"}})",
     Code::kBadModel, "for x [6] with axis 'field'"},
    {"matmul of vectors", R"({"name": "y", "op": "MatMul", "in": ["d", "x"]})", Code::kBadModel,
     "expected at least 2 dims each"},
    {"matmul inner", R"({"name": "y", "op": "MatMul", "in": ["x", "x"]})", Code::kBadModel,
     "inner sizes are 3 and 2"},
    {"more than there are", R"({"name": "y", "op": "TopK", "in": ["x"], "attrs": {"k": 4}})", Code::kBadModel,
     "k is 4, expected 1 to 3, the entries of axis 1"},
    {"none of them", R"({"name": "y", "op": "TopK", "in": ["x"], "attrs": {"k": 0, "axis": 0}})",
     Code::kBadModel, "k is 0, expected 1 to 2, the entries of axis 0"},
    {"gather of another rank", R"({"name": "y", "op": "Gather", "in": ["x", "d"]})", Code::kBadModel,
     "x is [2, 3], index is [6], expected as many dims, which broadcast but for axis 1"},
    {"gather beside the axis", R"({"name": "y", "op": "Gather", "in": ["x", "e"]})", Code::kBadModel,
     "x is [2, 3], index is [4, 4], expected as many dims, which broadcast but for axis 1"},
    {"attention of a vector", R"({"name": "y", "op": "Attention", "in": ["d", "x", "x"]})", Code::kBadModel,
     "q is [6], expected [T, heads x dim]"},
    {"attention of two widths", R"({"name": "y", "op": "Attention", "in": ["e", "x", "x"]})", Code::kBadModel,
     "k is [2, 3], q is [4, 4]: expected as many columns"},
    {"attention heads", R"({"name": "y", "op": "Attention", "in": ["x", "x", "x"], "attrs": {"heads": 2}})",
     Code::kBadModel, "q is [2, 3], not a multiple of 2 heads"},
    {"attention of many heads",
     R"({"name": "y", "op": "Attention", "in": ["x", "x", "x"], "attrs": {"heads": 17}})", Code::kBadModel,
     "heads is 17, expected 1 to 16"},
    {"attention without its mask",
     R"({"name": "y", "op": "Attention", "in": ["x", "x", "x"], "attrs": {"mask": "keys"}})", Code::kBadModel,
     "3 inputs, mask and bias say 4"},
    {"attention mask",
     R"({"name": "y", "op": "Attention", "in": ["x", "x", "x", "d"], "attrs": {"mask": "keys"}})",
     Code::kBadModel, "mask is [6], expected [2]"},
    {"attention bias",
     R"({"name": "y", "op": "Attention", "in": ["x", "x", "x", "d"], "attrs": {"bias": "relative", "heads": 3}})",
     Code::kBadModel, "bias is [6], expected [3] or [3, 3]"},
    {"attention form",
     R"({"name": "y", "op": "Attention", "in": ["x", "x", "x"], "attrs": {"form": "relu"}})",
     Code::kUnsupported, "form is 'relu', expected one of softmax, silu"},
    {"attention divisor",
     R"({"name": "y", "op": "Attention", "in": ["x", "x", "x"], "attrs": {"form": "silu", "divisor": 0}})",
     Code::kBadModel, "divisor is 0, expected a number above 0"},
    {"softmax divisor", R"({"name": "y", "op": "Attention", "in": ["x", "x", "x"], "attrs": {"divisor": 2}})",
     Code::kUnsupported, "divisor is for form silu"},
    {"attention candidates",
     R"({"name": "y", "op": "Attention", "in": ["x", "x", "x"], "attrs": {"candidates": 3}})",
     Code::kBadModel, "candidates is 3, expected 0 to 2"},
    {"where dims", R"({"name": "y", "op": "Where", "in": ["n", "d", "x"]})", Code::kBadModel,
     "cond is [1], x is [6], y is [2, 3], expected dims that broadcast"},
    {"where cond", R"({"name": "y", "op": "Where", "in": ["d", "n", "x"]})", Code::kBadModel,
     "cond is [6], x is [1], y is [2, 3], expected dims that broadcast"},
    {"where of ids", R"({"name": "y", "op": "Where", "in": ["c", "n", "n"]})", Code::kBadModel,
     "input 'c' holds ids, expected floats"},
    {"binary dims", R"({"name": "y", "op": "Binary", "in": ["d", "x"], "attrs": {"kind": "add"}})",
     Code::kBadModel, "x is [6], y is [2, 3], expected dims that broadcast"},
    {"unary scalar", R"({"name": "y", "op": "Unary", "in": ["d"], "attrs": {"kind": "leaky"}})",
     Code::kBadModel, "attribute 'a' is missing"},
    {"unary surplus scalar",
     R"({"name": "y", "op": "Unary", "in": ["d"], "attrs": {"kind": "relu", "a": 1}})", Code::kUnsupported,
     "attribute 'a' is not known for kind 'relu'"},
    {"unary clamp",
     R"({"name": "y", "op": "Unary", "in": ["d"], "attrs": {"kind": "clamp", "a": 1, "b": 0}})",
     Code::kBadModel, "clamp from 1 to 0 is empty"},
    {"unary channels",
     R"({"name": "y", "op": "Unary", "in": ["d"], "attrs": {"kind": "prelu"}, "params": {"slope": "v3"}})",
     Code::kBadModel, "slope is [3], expected [6]"},
    {"unary half of affine",
     R"({"name": "y", "op": "Unary", "in": ["x"], "attrs": {"kind": "affine"}, "params": {"scale": "v3"}})",
     Code::kBadModel, "parameter 'shift' is missing for kind 'affine'"},
    {"unary surplus params",
     R"({"name": "y", "op": "Unary", "in": ["x"], "attrs": {"kind": "tanh"}, "params": {"scale": "v3"}})",
     Code::kUnsupported, "parameter 'scale' is not known for kind 'tanh'"},
    {"layer norm gamma", R"({"name": "y", "op": "LayerNorm", "in": ["x"], "params": {"gamma": "v4"}})",
     Code::kBadModel, "gamma is [4], expected [3]"},
    {"layer norm eps", R"({"name": "y", "op": "LayerNorm", "in": ["x"], "attrs": {"eps": -1}})",
     Code::kBadModel, "eps is -1"},
    {"softmax mask", R"({"name": "y", "op": "Softmax", "in": ["x", "m"], "attrs": {"mask_mode": "add"}})",
     Code::kBadModel, "mask is [4], expected dims that broadcast to x [2, 3]"},
    {"softmax mask unused", R"({"name": "y", "op": "Softmax", "in": ["e", "m"]})", Code::kBadModel,
     "a mask with mask_mode 'none'"},
    {"softmax mask absent", R"({"name": "y", "op": "Softmax", "in": ["e"], "attrs": {"mask_mode": "add"}})",
     Code::kBadModel, "mask_mode without a mask input"},
    {"reduce to nothing",
     R"({"name": "y", "op": "Reduce", "in": ["d"], "attrs": {"kind": "sum", "axis": 0}})", Code::kBadModel,
     "a value of one dim needs keepdim"},
    {"reduce mask", R"({"name": "y", "op": "Reduce", "in": ["e", "m"], "attrs": {"kind": "sum", "axis": 1}})",
     Code::kBadModel, "mask is [4], expected [4, 4]"},
    {"concat ranks", R"({"name": "y", "op": "Concat", "in": ["x", "d"]})", Code::kBadModel,
     "input 1 ('d') is [6], input 0 is [2, 3]: only axis 1 may differ"},
    {"concat dims", R"({"name": "y", "op": "Concat", "in": ["x", "e"]})", Code::kBadModel,
     "only axis 1 may differ"},
};

const Refusal kViews[] = {
    {"view reshape", R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "reshape", "dims": [4]}})",
     Code::kBadModel, "x [2, 3] cannot become [4]"},
    {"view negative",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "reshape", "dims": [-1]}})",
     Code::kBadModel, "dims is [-1], expected 1 to 5 extents"},
    {"view of six dims",
     R"({"name": "y", "op": "View", "in": ["n"], "attrs": {"kind": "reshape", "dims": [1,1,1,1,1,1]}})",
     Code::kBadModel, "expected 1 to 5 extents"},
    {"view foreign key",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "reshape", "dims": [6], "axis": 0}})",
     Code::kUnsupported, "attribute 'axis' is not known for kind 'reshape'"},
    {"view perm",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "transpose", "perm": [0, 0]}})",
     Code::kBadModel, "perm is [0, 0], expected a permutation"},
    {"view perm rank",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "transpose", "perm": [0, 1, 2]}})",
     Code::kBadModel, "expected a permutation"},
    {"view slice",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "slice", "axis": 1, "begin": 1, "end": 4}})",
     Code::kBadModel, "slice [1, 4) is not inside axis 1 of x [2, 3]"},
    {"view empty slice",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "slice", "axis": 1, "begin": 1, "end": 1}})",
     Code::kBadModel, "is not inside axis 1"},
    {"view index",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "index_select", "axis": 0, "indices": [0, 2]}})",
     Code::kBadModel, "index 2 is outside axis 0"},
    {"view no index",
     R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "index_select", "axis": 0, "indices": []}})",
     Code::kBadModel, "indices is empty"},
    {"view expand", R"({"name": "y", "op": "View", "in": ["x"], "attrs": {"kind": "expand", "dims": [3]}})",
     Code::kBadModel, "x [2, 3] does not expand to [3]"},
};

const Refusal kRecurrent[] = {
    {"recurrent inputs",
     R"({"name": "y", "op": "Recurrent", "in": ["e", "m"], "attrs": {"kind": "agru", "reset": "after", "output": "last"},
         "params": {"w_input": "w124", "w_hidden": "w124"}})",
     Code::kBadModel, "2 inputs, this kind takes 3"},
    {"recurrent x",
     R"({"name": "y", "op": "Recurrent", "in": ["d", "m"], "attrs": {"kind": "gru", "reset": "after", "output": "last"},
         "params": {"w_input": "w124", "w_hidden": "w124"}})",
     Code::kBadModel, "x is [6], expected [T, i]"},
    {"recurrent mask",
     R"({"name": "y", "op": "Recurrent", "in": ["e", "d"], "attrs": {"kind": "gru", "reset": "after", "output": "last"},
         "params": {"w_input": "w124", "w_hidden": "w124"}})",
     Code::kBadModel, "mask is [6], expected [4]"},
    {"recurrent hidden",
     R"({"name": "y", "op": "Recurrent", "in": ["e", "m"], "attrs": {"kind": "gru", "reset": "after", "output": "last"},
         "params": {"w_input": "w124", "w_hidden": "w26"}})",
     Code::kBadModel, "w_hidden is [2, 6], expected [3 m, m]"},
    {"recurrent bias",
     R"({"name": "y", "op": "Recurrent", "in": ["e", "m"], "attrs": {"kind": "gru", "reset": "after", "output": "last"},
         "params": {"w_input": "w124", "w_hidden": "w124", "b_hidden": "v4"}})",
     Code::kBadModel, "b_hidden is [4], expected [12]"},
};

}  // namespace

TEST_CASE("refused: structure") {
  for (const Refusal& r : kStructure) check(r);
}
TEST_CASE("refused: types of attributes") {
  for (const Refusal& r : kTypes) check(r);
}
TEST_CASE("refused: inputs, tables, masks") {
  for (const Refusal& r : kSources) check(r);
}
TEST_CASE("refused: shapes") {
  for (const Refusal& r : kShapes) check(r);
}
TEST_CASE("refused: views") {
  for (const Refusal& r : kViews) check(r);
}
TEST_CASE("refused: recurrent") {
  for (const Refusal& r : kRecurrent) check(r);
}

}  // namespace dpi::test::refusal_test
