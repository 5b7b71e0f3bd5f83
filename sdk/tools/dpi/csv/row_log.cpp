#include "sdk/tools/dpi/csv/row_log.hpp"

#include <algorithm>
#include <utility>

#include "runtime/load/key_loader.hpp"
#include "sdk/tools/dpi/csv/free_rows.hpp"
#include "sdk/tools/dpi/shared/planned.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

constexpr size_t kRowsAtOnce = 256;
constexpr uint64_t kMostText = uint64_t{16} << 20;  // of such rows, so that memory stays bounded
constexpr int64_t kAlignment = 64;

Batch batch_of(const dpi_batch& b) {
  Batch batch;
  batch.item = {b.rows, b.dense, b.dense_stride, b.ids, b.offsets, b.weights, b.nnz};
  return batch;
}

}  // namespace

RowLog::RowLog(const LoadedModel& model, Bundle* bundle, const ModelOptions& options) : model_(model) {
  PlanOptions how;
  how.fold = how.fuse = false;  // one Embed for each use of a table, none derived
  const Plan plan = take(make_plan(graph_of(bundle), how));
  find_uses(plan);
  schema_ = make_resolve_schema(plan.features);
  LoadWatch watch(options, bundle->name());
  keys_ = take(load_keys(*bundle, plan, &watch));
  if (keys_ != nullptr) set_key_places(*keys_, &schema_);
  map_ = take(make_input_map(schema_, static_cast<int64_t>(kRowsAtOnce), options.max_nnz));
  room_.resize(static_cast<size_t>(map_.bytes + kAlignment));
  block_ = room_.data() + (kAlignment - reinterpret_cast<uintptr_t>(room_.data()) % kAlignment);
  counters_.resize(schema_.features.size());
}

void RowLog::find_uses(const Plan& plan) {
  for (const PlanOp& op : plan.ops) {
    if (op.kind != OpKind::kEmbed) continue;
    const auto source = static_cast<size_t>(plan.tables[op.tables[0]].source);
    const Use use{plan.values[op.inputs[0]].feature, source};
    const auto is_it = [&](const Use& u) { return u.feature == use.feature && u.table == use.table; };
    if (std::none_of(uses_.begin(), uses_.end(), is_it)) uses_.push_back(use);
    if (std::find(tables_.begin(), tables_.end(), source) == tables_.end()) tables_.push_back(source);
  }
  std::sort(tables_.begin(), tables_.end());
}

int64_t RowLog::read(const std::string& path, bool raw, const CsvLimits& limits, const Sink& sink) {
  CsvReader csv(path, limits);
  RowFeeder feeder(model_, &csv, "", raw);
  dpi_error error{};
  error.struct_size = sizeof error;
  dpi_rows* made = nullptr;
  if (dpi_rows_create(model_.get(), &made, &error) != DPI_OK) throw CommandError(kExitOther, error.message);
  const std::unique_ptr<dpi_rows, FreeRows> rows(made);
  Progress progress("counting " + path);
  int64_t n = 0;
  for (bool more = true; more;) {
    dpi_rows_clear(rows.get());
    lines_.clear();
    const uint64_t end = csv.bytes_read() + kMostText;
    while (lines_.size() < kRowsAtOnce && csv.bytes_read() < end && (more = feeder.next(rows.get())))
      lines_.push_back(csv.line());
    dpi_batch batch{};
    batch.struct_size = sizeof batch;
    if (dpi_rows_get_batch(rows.get(), &batch, &error) != DPI_OK)
      throw CommandError(kExitOther, error.message);
    if (const Status looked_up = look_up(batch, sink); !looked_up.ok()) refuse(feeder, looked_up);
    n += batch.rows;
    progress.update(csv.bytes_read(), csv.file_bytes());
  }
  return n;
}

void RowLog::refuse(const RowFeeder& feeder, const Status& why) const {
  const bool known = why.row() >= 0 && why.row() < static_cast<int64_t>(lines_.size());
  if (!known) throw CommandError(kExitBadInput, why.message());
  throw CommandError(kExitBadInput, feeder.place(lines_[static_cast<size_t>(why.row())], why.feature()) +
                                        ": " + without_row(why.message()));
}

Status RowLog::look_up(const dpi_batch& b, const Sink& sink) {
  const Batch batch = batch_of(b);
  if (batch.item.rows == 0) return {};
  DPI_RETURN_IF_ERROR(check_batch(schema_, batch));
  for (int64_t begin = 0; begin < batch.item.rows;) {
    DPI_ASSIGN_OR_RETURN(const RowRange range, next_range(schema_, map_, batch, begin, batch.item.rows));
    ResolvedRows rows;
    DPI_RETURN_IF_ERROR(resolve_rows(schema_, map_, batch, range, block_, counters_.data(), &rows));
    for (const Use& use : uses_) give(use, rows, sink);
    begin = range.end;
  }
  return {};
}

void RowLog::give(const Use& use, const ResolvedRows& rows, const Sink& sink) {
  const kernels::Bags ids = input_operand(schema_, map_, use.feature, rows, block_).bags;
  const ResolveSchema::KeyRules& keys = schema_.features[static_cast<size_t>(use.feature)].keys;
  const auto* raw_keys = reinterpret_cast<const int64_t*>(block_ + map_.raw_keys);
  const int64_t n = ids.offsets != nullptr ? ids.offsets[ids.rows] : ids.rows;
  const int64_t stride = ids.offsets != nullptr ? 1 : ids.stride;
  column_.clear();
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = ids.ids[i * stride];
    if (!keys.elsewhere)
      column_.push_back(id);
    else if (id < kMostRequestKeys)
      column_.push_back(raw_keys[id]);
    else if (id == keys.pad_row && keys.has_pad_id)
      column_.push_back(keys.pad_id);  // else the default row, which the tier always has
  }
  sink(use.table, column_);
}

}  // namespace dpi::tool
