#include "support/recorded.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "backend/abi/registry.hpp"
#include "ops/table.hpp"
#include "support/device.hpp"
#include "support/full.hpp"
#include "support/near.hpp"
#include "support/op_harness.hpp"
#include "support/sanitizer.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {
namespace {

using nlohmann::json;
using namespace kernels;

struct Recording {
  json cases;
  std::vector<char> words;
};

Recording load() {
  const std::string folder = source_dir() + "/tests/kernels/op_vectors/";
  std::ifstream index(folder + "vectors.json"), words(folder + "vectors.bin", std::ios::binary);
  if (!index || !words) throw std::runtime_error(folder + ": vectors.json or vectors.bin is missing");
  return {json::parse(index), {std::istreambuf_iterator<char>(words), std::istreambuf_iterator<char>()}};
}

const Recording& recording() {
  static const Recording kRecording = load();
  return kRecording;
}

// The elements of [first word, number of elements].
template <class T>
std::vector<T> elements(const json& where) {
  const size_t first = where.at(0).get<size_t>() * 4;
  std::vector<T> v(where.at(1).get<size_t>());
  if (first + v.size() * sizeof(T) > recording().words.size())
    throw std::runtime_error("vectors.bin is too short");
  if (!v.empty()) std::memcpy(v.data(), recording().words.data() + first, v.size() * sizeof(T));
  return v;
}

Dims dims_from(const json& list) {
  Dims d;
  for (const json& n : list) d.d[d.rank++] = n.get<int64_t>();
  return d;
}

template <class E>
E as(const json& j, const char* key) {
  return static_cast<E>(j.at(key).get<int32_t>());
}

EmbedAttrs embed_from(const json& j) {
  return {as<Pooling>(j, "pooling"),
          as<MaskRule>(j, "mask"),
          as<PadSide>(j, "pad_side"),
          j.at("pad_id"),
          j.at("max_len"),
          j.at("eps"),
          j.at("empty")};
}

UnaryAttrs unary_from(const json& j) { return {as<UnaryKind>(j, "kind"), j.at("a"), j.at("b")}; }

ElementwiseAttrs elementwise_from(const json& j, size_t n_inputs) {
  ElementwiseAttrs a;
  a.n_inputs = static_cast<int32_t>(n_inputs);
  for (const json& s : j.at("steps")) {
    ElementwiseStep& step = a.steps[a.n_steps++];
    step.kind = as<StepKind>(s, "step");
    if (step.kind == StepKind::kBinary) step.binary = as<BinaryKind>(s, "kind");
    if (step.kind == StepKind::kUnary) step.unary = unary_from(s);
    step.x = s.at("x");
    step.y = s.at("y");
    step.z = s.at("z");
    step.param = s.at("param");
    step.n_params = s.at("n_params");
  }
  return a;
}

MultiLookupAttrs lookup_from(const json& j, OpCase* c) {
  for (const json& f : j.at("fields")) {
    c->fields.push_back(
        {embed_from(f.at("embed")), f.at("input"), f.at("table"), f.at("out_col"), f.at("fm") != 0});
  }
  for (const json& f : j.at("scalars")) {
    c->scalars.push_back(
        {embed_from(f.at("embed")), f.at("input"), f.at("table"), f.at("first_channel"), f.at("count")});
  }
  for (const json& f : j.at("numerics")) {
    c->numerics.push_back(
        {f.at("input"), f.at("out_col"), f.at("dim"), f.at("vec"), f.at("coef"), f.at("fm") != 0});
  }
  MultiLookupAttrs a;
  a.n_channels = j.at("n_channels");
  a.fm_channel = j.at("fm_channel");
  a.fm_dim = j.at("fm_dim");
  return a;
}

ViewAttrs view_from(const json& j, OpCase* c) {
  c->indices = j.at("indices").get<std::vector<int64_t>>();
  return {
      as<ViewKind>(j, "kind"), j.at("axis"), j.at("begin"), j.at("end"), dims_from(j.at("dims")), nullptr, 0};
}

DenseAttrs dense_from(const json& j, OpCase* c) {
  for (const json& s : j.at("segments")) c->segments.push_back({unary_from(s), s.at("begin"), s.at("end")});
  return {};
}

CoActionAttrs co_action_from(const json& j) {
  CoActionAttrs a;
  for (const json& l : j.at("levels")) {
    a.levels[a.n_levels++] = {l.at("inputs"), l.at("outputs"), l.at("weight"),
                              l.at("bias"),   l.at("out_col"), unary_from(l.at("act"))};
  }
  a.orders = j.at("orders");
  a.joined = j.at("joined");
  a.weight_step = j.at("weight_step");
  a.out_step = j.at("out_step");
  a.feed_col = j.at("feed_col");
  a.feed_dim = j.at("feed_dim");
  a.mean = j.at("mean");
  a.mask = as<MaskRule>(j, "mask");
  a.pad_id = j.at("pad_id");
  a.max_len = j.at("max_len");
  a.mapped = j.at("mapped");
  return a;
}

HeadLayout layout_from(const json& j) { return {j.at(0), j.at(1), j.at(2)}; }

AttentionAttrs attention_from(const json& j) {
  AttentionAttrs a;
  a.heads = j.at("heads");
  a.queries = j.at("queries");
  a.keys = j.at("keys");
  a.dim = j.at("dim");
  a.value_dim = j.at("value_dim");
  a.q = layout_from(j.at("q"));
  a.k = layout_from(j.at("k"));
  a.v = layout_from(j.at("v"));
  a.y = layout_from(j.at("y"));
  a.scale = j.at("scale");
  a.mask_mode = as<SoftmaxMask>(j, "mask_mode");
  a.value = j.at("value");
  a.mask_head = j.at("mask_head");
  a.mask_query = j.at("mask_query");
  a.counted = j.at("counted");
  a.streamed = j.value("streamed", 0);
  if (a.streamed == 0) return a;
  a.form = as<kernels::AttentionForm>(j, "form");
  a.divisor = j.at("divisor");
  a.causal = j.at("causal");
  a.candidates = j.at("candidates");
  a.mean_of_none = j.at("mean_of_none");
  a.biased = j.at("biased");
  a.bias = layout_from(j.at("bias"));
  a.prefix = j.value("prefix", 0);
  a.before = j.value("before", 0);
  return a;
}

using ReadAttrs = OpAttrs (*)(const json& j, OpCase* c);

// What op_vectors/record_ops.py writes for each op.
const std::map<OpKind, ReadAttrs> kReaders = {
    {OpKind::kEmbed, [](const json& j, OpCase*) -> OpAttrs { return embed_from(j); }},
    {OpKind::kMask,
     [](const json& j, OpCase*) -> OpAttrs {
       return MaskAttrs{as<MaskRule>(j, "rule"), as<PadSide>(j, "pad_side"), j.at("pad_id"), j.at("max_len")};
     }},
    {OpKind::kLinear,
     [](const json& j, OpCase*) -> OpAttrs {
       return LinearAttrs{j.at("groups"), as<LinearAxis>(j, "axis")};
     }},
    {OpKind::kMatMul,
     [](const json& j, OpCase*) -> OpAttrs {
       return MatMulAttrs{j.at("trans_a"), j.at("trans_b"), j.at("alpha"),
                          static_cast<MatMulPart>(j.value("part", 0))};
     }},
    {OpKind::kBinary,
     [](const json& j, OpCase*) -> OpAttrs { return BinaryAttrs{as<BinaryKind>(j, "kind")}; }},
    {OpKind::kUnary, [](const json& j, OpCase*) -> OpAttrs { return unary_from(j); }},
    {OpKind::kLayerNorm, [](const json& j, OpCase*) -> OpAttrs { return LayerNormAttrs{j.at("eps")}; }},
    {OpKind::kSoftmax,
     [](const json& j, OpCase*) -> OpAttrs {
       return SoftmaxAttrs{j.at("axis"), as<SoftmaxMask>(j, "mask_mode"), j.at("value")};
     }},
    {OpKind::kReduce,
     [](const json& j, OpCase*) -> OpAttrs {
       return ReduceAttrs{as<ReduceKind>(j, "kind"), j.at("axis"), j.at("keepdim"), j.at("eps"),
                          j.at("empty")};
     }},
    {OpKind::kConcat, [](const json& j, OpCase*) -> OpAttrs { return ConcatAttrs{j.at("axis")}; }},
    {OpKind::kView, [](const json& j, OpCase* c) -> OpAttrs { return view_from(j, c); }},
    {OpKind::kRecurrent,
     [](const json& j, OpCase*) -> OpAttrs {
       return RecurrentAttrs{as<RecurrentKind>(j, "kind"), as<ResetGate>(j, "reset"),
                             as<RecurrentOutput>(j, "output")};
     }},
    {OpKind::kBroadcastRows, [](const json&, OpCase*) -> OpAttrs { return std::monostate{}; }},
    {OpKind::kMultiLookup, [](const json& j, OpCase* c) -> OpAttrs { return lookup_from(j, c); }},
    {OpKind::kDense, [](const json& j, OpCase* c) -> OpAttrs { return dense_from(j, c); }},
    {OpKind::kElementwise,
     [](const json& j, OpCase* c) -> OpAttrs { return elementwise_from(j, c->inputs.size()); }},
    {OpKind::kCrossV1, [](const json& j, OpCase*) -> OpAttrs { return CrossV1Attrs{j.at("layers")}; }},
    {OpKind::kCrossV1Closed, [](const json& j, OpCase*) -> OpAttrs { return CrossV1Attrs{j.at("layers")}; }},
    {OpKind::kFm, [](const json& j, OpCase*) -> OpAttrs { return FmAttrs{j.at("fields"), j.at("dim")}; }},
    {OpKind::kTail, [](const json& j, OpCase*) -> OpAttrs { return TailAttrs{unary_from(j), j.at("bias")}; }},
    {OpKind::kTopK,
     [](const json& j, OpCase*) -> OpAttrs { return TopKAttrs{j.at("axis"), j.at("largest"), j.at("k")}; }},
    {OpKind::kGather, [](const json& j, OpCase*) -> OpAttrs { return GatherAttrs{j.at("axis")}; }},
    {OpKind::kWhere, [](const json&, OpCase*) -> OpAttrs { return std::monostate{}; }},
    {OpKind::kCin, [](const json& j, OpCase*) -> OpAttrs { return CinAttrs{unary_from(j.at("act"))}; }},
    {OpKind::kCoAction, [](const json& j, OpCase*) -> OpAttrs { return co_action_from(j); }},
    {OpKind::kAttention, [](const json& j, OpCase*) -> OpAttrs { return attention_from(j); }},
};

OpAttrs attrs_from(const json& j, OpCase* c) {
  const auto it = kReaders.find(c->kind);
  if (it == kReaders.end())
    throw std::runtime_error(std::string("recorded.cpp does not read the attributes of ") + op_name(c->kind));
  return it->second(j, c);
}

CaseValue value_from(const json& j, int64_t rows) {
  CaseValue v;
  if (j.is_null()) return v;
  v.present = true;
  v.rows = rows;
  if (j.contains("ids")) {
    v.is_bags = true;
    v.ids = elements<int32_t>(j.at("ids"));
    if (j.contains("offsets")) v.offsets = elements<int32_t>(j.at("offsets"));
    if (j.contains("weights")) v.weights = elements<float>(j.at("weights"));
    return v;
  }
  v.dims = dims_from(j.at("dims"));
  v.constant = j.contains("constant");
  v.data = elements<float>(j.at("data"));
  v.rows = v.constant ? 1 : static_cast<int64_t>(v.data.size()) / v.dims.size();
  return v;
}

CaseTable table_from(const json& j) {
  CaseTable t{j.at("rows"), j.at("dim"), as<DType>(j, "dtype"), {}, {}, false};
  json bytes = j.at("data");
  bytes[1] = bytes[1].get<int64_t>() * dtype_bytes(t.dtype);
  t.bytes = elements<uint8_t>(bytes);
  if (j.contains("scale")) t.scale = elements<float>(j.at("scale"));
  return t;
}

OpKind kind_from(const std::string& name) {
  for (const OpForm& form : op_forms()) {
    if (name == form.name) return form.kind;
  }
  throw std::runtime_error("vectors.json: unknown op " + name);
}

OpCase case_from(const json& j) {
  OpCase c;
  c.name = j.at("name");
  c.kind = kind_from(j.at("op"));
  c.rows = j.at("rows");
  for (const json& v : j.at("inputs")) c.inputs.push_back(value_from(v, c.rows));
  for (const json& v : j.at("outputs")) c.outputs.push_back(value_from(v, c.rows));
  for (const json& p : j.value("params", json::array())) {
    c.params.emplace_back();
    if (!p.is_null()) c.params.back() = {true, dims_from(p.at("dims")), elements<float>(p.at("data"))};
  }
  for (const json& t : j.value("tables", json::array())) c.tables.push_back(table_from(t));
  if (j.contains("row_map")) c.row_map = elements<int32_t>(j.at("row_map"));
  c.attrs = attrs_from(j.at("attrs"), &c);
  const auto* embed = std::get_if<EmbedAttrs>(&c.attrs);
  if (embed != nullptr && embed->mask == MaskRule::kNonzero) c.tables[0].needs_nonzero = true;
  return c;
}

void check_case(const backend::OpenedBackend& b, const OpCase& c) {
  for (const Placement& placement : placements_of(c)) {
    INFO(c.name << " " << std::string(placement.name));
    const auto got = run_case(*b.api, b.device, c, placement);
    REQUIRE_MESSAGE(got.ok(), got.status().message());
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const Difference d = compare(got.value()[i], c.outputs[i].data);
      CHECK_MESSAGE(d.within(tolerance_of(device())), "output " << i << ": " << d.text());
    }
  }
}

// "cpu:avx2" is the device cpu with the option isa = avx2. Nothing when this machine lacks it; the program
// then ends as skipped.
std::optional<backend::OpenedBackend> open_for_test(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string isa = colon == std::string::npos ? "auto" : name.substr(colon + 1);
  backend::BackendRequest request;
  request.device = name.substr(0, colon);
  request.options.device_index = -1;
  request.options.isa = isa.c_str();
  auto opened = backend::open_backend(request);
  if (opened.ok()) return std::move(opened).value();
  const Code code = opened.status().code();
  const bool absent = code == Code::kNoDevice || (code == Code::kUnsupported && isa != "auto");
  REQUIRE_MESSAGE(absent, opened.status().message());
  skip_program(opened.status().message());
  return std::nullopt;
}

// Rows of `v` in cyclic order, up to `rows` of them.
void repeat_value(CaseValue* v, int64_t rows) {
  if (!v->present || v->constant || v->rows == 0) return;
  const CaseValue from = *v;
  v->rows = rows;
  v->data.clear();
  v->ids.clear();
  v->weights.clear();
  if (!from.offsets.empty()) v->offsets.assign(1, 0);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r % from.rows;
    const int64_t n = from.is_bags ? 0 : from.dims.size();
    v->data.insert(v->data.end(), from.data.begin() + at * n, from.data.begin() + (at + 1) * n);
    if (!from.is_bags) continue;
    const auto row = static_cast<size_t>(at);
    const int64_t begin = from.offsets.empty() ? at : from.offsets[row];
    const int64_t end = from.offsets.empty() ? at + 1 : from.offsets[row + 1];
    v->ids.insert(v->ids.end(), from.ids.begin() + begin, from.ids.begin() + end);
    if (!from.weights.empty())
      v->weights.insert(v->weights.end(), from.weights.begin() + begin, from.weights.begin() + end);
    if (!from.offsets.empty()) v->offsets.push_back(static_cast<int32_t>(v->ids.size()));
  }
}

// Whether an input has rows of its own, which the map names.
bool is_mapped(const OpCase& c, size_t input) {
  if (c.row_map.empty()) return false;
  return c.kind == OpKind::kBroadcastRows || c.inputs[input].is_bags ||
         (c.kind == OpKind::kDense && input == 3) || (c.kind == OpKind::kLinear && input == 2) ||
         (c.kind == OpKind::kAttention && input >= 5);
}

// What the map names keeps its few rows: the map grows.
void repeat_rows(OpCase* c, int64_t rows) {
  for (size_t i = 0; i < c->inputs.size(); ++i) {
    if (!is_mapped(*c, i)) repeat_value(&c->inputs[i], rows);
  }
  const std::vector<int32_t> map = c->row_map;
  for (size_t r = map.size(); !map.empty() && r < static_cast<size_t>(rows); ++r)
    c->row_map.push_back(map[r % map.size()]);
  for (CaseValue& v : c->outputs) repeat_value(&v, rows);
  c->rows = rows;
}

/// The case with row `r` only.
OpCase row_alone(const OpCase& c, int64_t r) {
  OpCase one = c;
  one.rows = 1;
  const auto keep = [r](CaseValue* v) {
    if (!v->present || v->constant) return;
    v->rows = 1;
    if (v->data.empty()) return;
    const int64_t n = v->dims.size();
    v->data = std::vector<float>(v->data.begin() + r * n, v->data.begin() + (r + 1) * n);
  };
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    if (!is_mapped(c, i)) keep(&one.inputs[i]);
  }
  if (!c.row_map.empty()) one.row_map = {c.row_map[static_cast<size_t>(r)]};
  for (CaseValue& v : one.outputs) keep(&v);
  return one;
}

constexpr int64_t kManyRows = 131;  // a prime above the blocks of every kernel
constexpr int64_t kFewRows = 37;    // above a warp
constexpr int64_t kFewestRows = 3;

}  // namespace

std::vector<OpCase> recorded_cases(const std::string& op) {
  std::vector<OpCase> cases;
  for (const json& j : recording().cases) {
    if (j.at("op") == op) cases.push_back(case_from(j));
  }
  for (OpCase& c : cases) c.bind();
  return cases;
}

void check_recorded(const std::string& op) {
  const auto opened = open_for_test(device());
  if (!opened) return;
  const std::vector<OpCase> cases = recorded_cases(op);
  CHECK(!cases.empty());
  for (const OpCase& c : cases) {
    SUBCASE(c.name.c_str()) { check_case(*opened, c); }
  }
  opened->api->close(opened->device);
}

void check_cases(std::vector<OpCase> cases) {
  const auto opened = open_for_test(device());
  if (!opened) return;
  for (OpCase& c : cases) {
    c.bind();
    check_case(*opened, c);
  }
  opened->api->close(opened->device);
}

void check_cases_against_ref(std::vector<OpCase> cases) {
  if (device() == "ref") return;
  const auto opened = open_for_test(device());
  const auto reference = open_for_test("ref");
  if (!opened || !reference) return;
  for (OpCase& c : cases) {
    c.bind();
    const auto expected = run_case(*reference->api, reference->device, c, placements_of(c)[0]);
    REQUIRE_MESSAGE(expected.ok(), expected.status().message());
    for (size_t i = 0; i < c.outputs.size(); ++i) c.outputs[i].data = expected.value()[i];
    check_case(*opened, c);
  }
  reference->api->close(reference->device);
  opened->api->close(opened->device);
}

void check_rows_alone(std::vector<OpCase> cases) {
  const auto opened = open_for_test(device());
  if (!opened) return;
  for (OpCase& c : cases) {
    c.bind();
    const auto whole = run_case(*opened->api, opened->device, c, placements_of(c)[0]);
    REQUIRE_MESSAGE(whole.ok(), whole.status().message());
    for (int64_t r = 0; r < c.rows; ++r) {
      OpCase one = row_alone(c, r);
      one.bind();
      const auto alone = run_case(*opened->api, opened->device, one, placements_of(one)[0]);
      REQUIRE_MESSAGE(alone.ok(), alone.status().message());
      for (size_t i = 0; i < c.outputs.size(); ++i) {
        const std::vector<float>& all = whole.value()[i];
        const std::vector<float>& mine = alone.value()[i];
        REQUIRE(all.size() == mine.size() * static_cast<size_t>(c.rows));
        const float* at = all.data() + static_cast<size_t>(r) * mine.size();
        CHECK_MESSAGE(std::memcmp(at, mine.data(), mine.size() * sizeof(float)) == 0,
                      c.name << ": row " << r << " has other bits on its own");
      }
    }
  }
  opened->api->close(opened->device);
}

void check_against_ref(const std::string& op) {
  // The emulated GPU is slow under a sanitizer, and a release build runs all rows of it. Of Attention, each
  // query of each row is a block of threads.
  const bool emulated = device() == "cuda_emu" && !full_run();
  const bool few = (DPI_UNDER_ASAN || DPI_UNDER_TSAN) && emulated;
  const int64_t rows = op == "Attention" && emulated ? kFewestRows : few ? kFewRows : kManyRows;
  std::vector<OpCase> cases;
  for (OpCase& c : recorded_cases(op)) {
    if (c.rows == 0) continue;
    repeat_rows(&c, rows);
    cases.push_back(std::move(c));
  }
  check_cases_against_ref(std::move(cases));
}

}  // namespace dpi::test
