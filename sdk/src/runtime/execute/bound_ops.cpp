#include "runtime/execute/bound_ops.hpp"

#include <algorithm>
#include <utility>

namespace dpi {

BoundOps::BoundOps(const Engine& engine, const FlightMemory& memory, StoreReader& reader)
    : engine_(engine), memory_(memory), reader_(reader) {
  const size_t n = engine_.plan().ops.size();
  operands_.resize(n);
  calls_.resize(n);
  add_placements();
  for (size_t i = 0; i < n; ++i) {
    bind_fixed(i);
    add_lookups(i);
  }
  plan_ = memory_.plan;
}

void BoundOps::bind_fixed(size_t i) {
  const PlanOp& op = engine_.plan().ops[i];
  Operands& b = operands_[i];
  b.inputs.resize(op.inputs.size());
  b.outputs.resize(op.outputs.size());
  b.tables.resize(op.tables.size());
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (op.inputs[k] >= 0) add_operand(op.inputs[k], &b.inputs[k]);
  }
  RowSpace space = RowSpace::kItem;  // of the op's rows
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    if (op.outputs[k] < 0) continue;
    add_tensor(op.outputs[k], &b.outputs[k]);
    space = engine_.plan().values[op.outputs[k]].space;
  }
  dpi_op_call& call = calls_[i];
  call = {};
  call.rows = 1;
  if (space != RowSpace::kConstant) row_counts_[space].push_back(&call.rows);
  call.inputs = b.inputs.data();
  call.outputs = b.outputs.data();
  call.tables = b.tables.data();
  call.scratch = memory_.scratch[op.stream];
  call.faults = memory_.faults;
}

/// Notes whose ids op i looks up in plain tables. Those of tiered ones are the plan's placements.
void BoundOps::add_lookups(size_t i) {
  const Plan& plan = engine_.plan();
  const PlanOp& op = plan.ops[i];
  const auto add = [&](int32_t table, int32_t input) {
    const PlanValue& ids = plan.values[op.inputs[input]];
    if (ids.placement >= 0) return;
    lookups_.push_back({op.tables[table], {}});
    lookup_sources_.push_back({ids.feature});
  };
  if (op.kind == OpKind::kEmbed) add(0, 0);
  if (op.kind == OpKind::kCoAction && !op.tables.empty()) add(0, 1);
  for (const auto& f : op.fields) add(f.table, f.input);
  for (const auto& f : op.scalars) add(f.table, f.input);
}

/// Adds the lookups of tiered tables. They come first: a store that needs no ids of plain tables is given
/// these alone.
void BoundOps::add_placements() {
  const std::vector<Placement>& placements = engine_.plan().placements;
  for (size_t i = 0; i < placements.size(); ++i) {
    lookups_.push_back({placements[i].table, {}});
    lookup_sources_.push_back({placements[i].feature, static_cast<int32_t>(i)});
  }
}

/// Where the chunk's memory plan has a value.
float* BoundOps::arena_data(const PlanValue& v, int32_t index) const {
  const bool alias = v.storage == Storage::kAlias;
  std::byte* const at = memory_.arena + memory_.plan->offset[static_cast<size_t>(alias ? v.base : index)];
  return reinterpret_cast<float*>(alias ? at + v.column * kernels::dtype_bytes(v.dtype) : at);
}

/// A tensor that is no input of the request: what never changes of it. Addresses of outputs come with bind.
kernels::Tensor BoundOps::tensor_of(const PlanValue& v, int32_t index) const {
  kernels::Tensor t;
  t.dims = v.dims;
  t.row_stride = engine_.row_stride(v);
  t.dtype = v.dtype;
  t.rows = 1;
  switch (v.storage) {
    case Storage::kArena:
    case Storage::kAlias:
      t.data = arena_data(v, index);
      break;
    case Storage::kConst:
      t.data = engine_.const_data(v.param);
      break;
    case Storage::kOutput:
    case Storage::kLogit:
    case Storage::kInput:
      break;
  }
  return t;
}

/// Binds what stays, and notes the places that a call writes.
void BoundOps::add_tensor(int32_t index, kernels::Tensor* t) {
  const PlanValue& v = engine_.plan().values[index];
  *t = tensor_of(v, index);
  if (v.space != RowSpace::kConstant) row_counts_[v.space].push_back(&t->rows);
  if (v.storage == Storage::kArena || v.storage == Storage::kAlias)
    arena_values_.push_back({&t->data, index});
  if (v.storage == Storage::kOutput) scores_.push_back({&t->data, v.column});
  if (v.storage == Storage::kLogit) logits_.push_back({&t->data, v.column});
}

void BoundOps::add_operand(int32_t index, kernels::Operand* o) {
  const PlanValue& v = engine_.plan().values[index];
  if (v.storage == Storage::kInput) {
    const FeatureKind kind = engine_.schema().features[v.feature].spec.kind;
    const bool floats = kind == FeatureKind::kNumeric || kind == FeatureKind::kDense;
    row_counts_[v.space].push_back(floats ? &o->tensor.rows : &o->bags.rows);
    inputs_.push_back({o, v.feature, v.placement});
  } else {
    add_tensor(index, &o->tensor);
  }
}

void BoundOps::bind_values() {
  for (const ArenaValue& a : arena_values_)
    *a.data = arena_data(engine_.plan().values[static_cast<size_t>(a.value)], a.value);
  plan_ = memory_.plan;
}

void BoundOps::bind_inputs(const InputMap& map, const ResolvedRows& rows, std::byte* block) {
  for (const Input& in : inputs_) {
    *in.operand = in.placement >= 0 ? placed_operand(engine_.schema(), map, in.placement, rows, block)
                                    : input_operand(engine_.schema(), map, in.feature, rows, block);
  }
  const auto* row_map = rows.has_map ? reinterpret_cast<const int32_t*>(block + map.row_map) : nullptr;
  for (dpi_op_call& call : calls_) {
    call.row_map = row_map;
    call.checked = 0;
  }
  map_ = &map;
  block_ = block;
  has_map_ = rows.has_map;
}

void BoundOps::bind_rows(const ResolvedRows& rows) {
  for (const RowSpace space : kRequestSpaces) {
    for (int64_t* n : row_counts_[space]) *n = rows.of(space);
  }
  rows_ = rows.rows;
}

void BoundOps::bind(const InputMap& map, const ResolvedRows& rows, std::byte* block, float* out,
                    float* logits) {
  if (&map != map_ || block != block_ || rows.has_map != has_map_) bind_inputs(map, rows, block);
  if (rows.rows.item != rows_.item || rows.rows.shared != rows_.shared) bind_rows(rows);
  if (memory_.plan != plan_) bind_values();
  for (const ScoreColumn& p : scores_) *p.data = out + p.column;
  for (const ScoreColumn& p : logits_) *p.data = logits + p.column;
}

/// Where lookup i's ids lie in the block, and where its places go.
void BoundOps::point_lookup(size_t i, const InputMap& map, const ResolvedRows& rows) {
  const Source& s = lookup_sources_[i];
  StoreRequest::Lookup& l = lookups_[i];
  l.ids = input_operand(engine_.schema(), map, s.feature, rows, memory_.staging).bags;
  if (engine_.schema().features[static_cast<size_t>(s.feature)].keys.elsewhere)
    l.raw_keys = reinterpret_cast<const int64_t*>(memory_.staging + map.raw_keys);
  if (s.placement < 0) return;
  const auto places = placed_operand(engine_.schema(), map, s.placement, rows, memory_.staging).bags;
  l.places = const_cast<int32_t*>(places.ids);  // in staging, which is ours
  l.place_stride = places.stride;
}

/// Translates the store's error about an id of a lookup to the block's row and the feature.
Status BoundOps::in_block(Status s) const {
  if (s.row() < 0) return s;
  const auto lookup = static_cast<size_t>(s.feature());
  const kernels::Bags& ids = lookups_[lookup].ids;
  int64_t row = s.row();
  if (ids.offsets != nullptr) {
    const int32_t* const end = ids.offsets + ids.rows + 1;
    row = std::upper_bound(ids.offsets, end, row) - ids.offsets - 1;
  }
  return std::move(s).at(row, lookup_sources_[lookup].feature);
}

Status BoundOps::acquire_tables(const InputMap& map, const ResolvedRows& rows, const Patience& patience) {
  if (lookups_.empty()) return {};
  const size_t asked = engine_.store().needs_ids() ? lookups_.size() : engine_.plan().placements.size();
  for (size_t i = 0; i < asked; ++i) point_lookup(i, map, rows);
  auto ready = reader_.acquire({{lookups_.data(), asked},
                                patience.deadline_ns,
                                patience.may_wait,
                                patience.cancel,
                                patience.row_wait});
  if (!ready.ok()) return in_block(std::move(ready).status());
  if (ready.value() == Readiness::kLate)
    return {Code::kTimeout, "embedding rows did not arrive before the deadline"};
  const uint64_t addresses = reader_.addresses();
  if (views_taken_ && addresses == seen_addresses_) return {};
  for (size_t i = 0; i < operands_.size(); ++i) {
    const auto& tables = engine_.plan().ops[i].tables;
    for (size_t t = 0; t < tables.size(); ++t) operands_[i].tables[t] = reader_.view(tables[t]);
  }
  seen_addresses_ = addresses;
  views_taken_ = true;
  return {};
}

}  // namespace dpi
