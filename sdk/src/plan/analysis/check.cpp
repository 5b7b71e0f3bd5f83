// The independent checker of plans. It re-derives who touches which columns, what runs before what and which
// bytes a value owns from the plan's fields alone, by brute force, and shares no code with the passes.
#include <algorithm>
#include <string>

#include "plan/plan.hpp"

namespace dpi {
namespace {

struct Access {
  int32_t op = -1;
  int64_t from = 0;  // columns of the base
  int64_t to = 0;
  bool write = false;
};

class Checker {
 public:
  Checker(const Plan& plan, const MemoryPlan& memory, int64_t rows, int64_t shared)
      : p_(plan), m_(memory), rows_(rows), shared_(shared) {}

  Status run() {
    DPI_RETURN_IF_ERROR(check_shape());
    DPI_RETURN_IF_ERROR(collect());
    DPI_RETURN_IF_ERROR(build_order());
    DPI_RETURN_IF_ERROR(check_reads());
    DPI_RETURN_IF_ERROR(check_ends());
    return check_bytes();
  }

 private:
  Status fault(const std::string& text) const { return internal_error("plan '" + p_.name + "': " + text); }
  std::string op_text(int32_t i) const {
    return "op " + std::to_string(i) + " '" + p_.ops[static_cast<size_t>(i)].name + "'";
  }
  std::string value_text(int32_t v) const {
    return "value %" + std::to_string(v) + " '" + p_.values[static_cast<size_t>(v)].name + "'";
  }
  bool is_value(int32_t v) const { return v >= 0 && static_cast<size_t>(v) < p_.values.size(); }

  /// Indices in range, aliases inside an arena value, offsets present.
  Status check_shape() {
    if (m_.offset.size() != p_.values.size()) return fault("the memory plan is for another plan");
    for (size_t v = 0; v < p_.values.size(); ++v) DPI_RETURN_IF_ERROR(check_value(static_cast<int32_t>(v)));
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const PlanOp& op = p_.ops[i];
      if (op.stream < 0 || op.stream >= p_.n_streams)
        return fault(op_text(static_cast<int32_t>(i)) + ": stream out of range");
      for (const auto* list : {&op.inputs, &op.outputs}) {
        for (int32_t v : *list) {
          if (v != -1 && !is_value(v)) return fault(op_text(static_cast<int32_t>(i)) + ": names no value");
        }
      }
    }
    for (const PlanHead& h : p_.heads) {
      if (!is_value(h.value) || p_.values[static_cast<size_t>(h.value)].storage != Storage::kOutput) {
        return fault("head '" + h.name + "': its value is not a score");
      }
      if (h.logit != -1 &&
          (!is_value(h.logit) || p_.values[static_cast<size_t>(h.logit)].storage != Storage::kLogit)) {
        return fault("head '" + h.name + "': its logit is not a logit");
      }
    }
    return ok_status();
  }

  Status check_value(int32_t v) {
    const PlanValue& value = p_.values[static_cast<size_t>(v)];
    if (value.storage == Storage::kAlias) {
      if (!is_value(value.base)) return fault(value_text(v) + ": alias of nothing");
      const PlanValue& base = p_.values[static_cast<size_t>(value.base)];
      if (base.storage != Storage::kArena)
        return fault(value_text(v) + ": alias of something outside the arena");
      if (value.column < 0 || value.column + value.dims.size() > base.dims.size())
        return fault(value_text(v) + ": alias outside its base");
      if (value.row_stride != base.row_stride || value.space != base.space || value.dtype != base.dtype)
        return fault(value_text(v) + ": alias with other rows");
    }
    if (value.storage == Storage::kArena) {
      if (value.row_stride < value.dims.size())
        return fault(value_text(v) + ": row stride is smaller than a row");
      const int64_t at = m_.offset[static_cast<size_t>(v)];
      if (at < 0 || at + bytes_of(v) > m_.arena_bytes)
        return fault(value_text(v) + ": lies outside the arena");
    }
    return ok_status();
  }

  int64_t bytes_of(int32_t v) const {
    const PlanValue& value = p_.values[static_cast<size_t>(v)];
    const int64_t rows = value.space == RowSpace::kItem     ? rows_
                         : value.space == RowSpace::kShared ? shared_
                                                            : 1;
    if (rows <= 0) return 0;
    return ((rows - 1) * value.row_stride + value.dims.size()) * kernels::dtype_bytes(value.dtype);
  }

  /// Notes every access of an op to the columns of an arena or score buffer.
  Status collect() {
    touch_.assign(p_.values.size(), {});
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const PlanOp& op = p_.ops[i];
      for (int32_t v : op.inputs) note(static_cast<int32_t>(i), v, false);
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        if (op.outputs[k] < 0) continue;
        const Storage s = p_.values[static_cast<size_t>(op.outputs[k])].storage;
        if (s == Storage::kInput || s == Storage::kConst)
          return fault(op_text(static_cast<int32_t>(i)) + ": writes an input or a constant");
        if (op.kind == OpKind::kMultiLookup && k == 0) {
          DPI_RETURN_IF_ERROR(note_lookup(static_cast<int32_t>(i), op.outputs[k]));
        } else {
          note(static_cast<int32_t>(i), op.outputs[k], true);
        }
      }
    }
    return ok_status();
  }

  void note(int32_t op, int32_t v, bool write) {
    if (v < 0) return;
    const PlanValue& value = p_.values[static_cast<size_t>(v)];
    if (value.storage == Storage::kInput || value.storage == Storage::kConst) return;
    const bool alias = value.storage == Storage::kAlias;
    const int64_t from = alias ? value.column : 0;
    touch_[static_cast<size_t>(alias ? value.base : v)].push_back(
        {op, from, from + value.dims.size(), write});
  }

  Status note_lookup(int32_t i, int32_t v) {
    const PlanOp& op = p_.ops[static_cast<size_t>(i)];
    const PlanValue& value = p_.values[static_cast<size_t>(v)];
    const bool alias = value.storage == Storage::kAlias;
    auto add = [&](int64_t column, int64_t width) {
      if (column < 0) return ok_status();
      if (column + width > value.dims.size()) return fault(op_text(i) + ": a field lies outside the matrix");
      const int64_t from = (alias ? value.column : 0) + column;
      touch_[static_cast<size_t>(alias ? value.base : v)].push_back({i, from, from + width, true});
      return ok_status();
    };
    for (const auto& f : op.fields) {
      DPI_RETURN_IF_ERROR(
          add(f.out_col, p_.tables[static_cast<size_t>(op.tables[static_cast<size_t>(f.table)])].dim));
    }
    for (const auto& f : op.numerics) DPI_RETURN_IF_ERROR(add(f.out_col, f.dim));
    return ok_status();
  }

  /// before_[a][b]: op a has ended when op b starts, by stream order and events.
  Status build_order() {
    const size_t n = p_.ops.size();
    std::vector<std::vector<int32_t>> next(n);
    std::vector<int32_t> recorded_by(static_cast<size_t>(std::max(p_.n_events, 0)), -2);
    auto event = [&](int32_t e) { return e >= 0 && e < p_.n_events; };
    if (p_.start_event >= 0) {
      if (!event(p_.start_event)) return fault("start event out of range");
      recorded_by[static_cast<size_t>(p_.start_event)] = -1;
    }
    started_.assign(n, 0);
    for (size_t i = 0; i < n; ++i) {
      const PlanOp& op = p_.ops[i];
      started_[i] = op.stream == 0;
      for (size_t j = i; j-- > 0;) {
        if (p_.ops[j].stream != op.stream) continue;
        next[j].push_back(static_cast<int32_t>(i));
        started_[i] |= started_[j];
        break;
      }
      for (int32_t e : op.waits) {
        if (!event(e) || recorded_by[static_cast<size_t>(e)] == -2)
          return fault(op_text(static_cast<int32_t>(i)) + ": waits for an event that is not recorded yet");
        const int32_t r = recorded_by[static_cast<size_t>(e)];
        if (r >= 0) next[static_cast<size_t>(r)].push_back(static_cast<int32_t>(i));
        started_[i] |= r < 0 ? 1 : started_[static_cast<size_t>(r)];
      }
      if (op.records < 0) continue;
      if (!event(op.records) || recorded_by[static_cast<size_t>(op.records)] != -2)
        return fault(op_text(static_cast<int32_t>(i)) + ": records a wrong event or one twice");
      recorded_by[static_cast<size_t>(op.records)] = static_cast<int32_t>(i);
    }
    before_.assign(n, std::vector<char>(n, 0));
    for (size_t a = 0; a < n; ++a) walk(next, a);
    recorded_by_ = std::move(recorded_by);
    return ok_status();
  }

  void walk(const std::vector<std::vector<int32_t>>& next, size_t from) {
    std::vector<int32_t> stack(next[from]);
    while (!stack.empty()) {
      const int32_t b = stack.back();
      stack.pop_back();
      char& seen = before_[from][static_cast<size_t>(b)];
      if (seen) continue;
      seen = 1;
      for (int32_t c : next[static_cast<size_t>(b)]) stack.push_back(c);
    }
  }

  bool before(int32_t a, int32_t b) const {
    return before_[static_cast<size_t>(a)][static_cast<size_t>(b)] != 0;
  }

  /// Every column that is read was written, by ops that have ended; no column is written twice.
  Status check_reads() {
    for (size_t v = 0; v < touch_.size(); ++v) {
      for (const Access& a : touch_[v]) {
        std::vector<std::pair<int64_t, int64_t>> written;
        for (const Access& w : touch_[v]) {
          if (!w.write || &w == &a || w.to <= a.from || a.to <= w.from) continue;
          if (a.write)
            return fault(op_text(a.op) + " and " + op_text(w.op) + " write the same columns of " +
                         value_text(static_cast<int32_t>(v)));
          if (!before(w.op, a.op))
            return fault(op_text(a.op) + " reads " + value_text(static_cast<int32_t>(v)) + " before " +
                         op_text(w.op) + " has surely written it");
          written.emplace_back(std::max(w.from, a.from), std::min(w.to, a.to));
        }
        if (!a.write && !covers(written, a.from, a.to))
          return fault(op_text(a.op) + " reads columns of " + value_text(static_cast<int32_t>(v)) +
                       " that nothing writes");
      }
    }
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      if (!started_[i])
        return fault(op_text(static_cast<int32_t>(i)) + ": may run before the input is there");
    }
    return ok_status();
  }

  static bool covers(std::vector<std::pair<int64_t, int64_t>> spans, int64_t from, int64_t to) {
    std::sort(spans.begin(), spans.end());
    for (const auto& [b, e] : spans) {
      if (b > from) return false;
      from = std::max(from, e);
    }
    return from >= to;
  }

  /// Each score is written, and every op has ended when stream 0 has passed the last waits.
  Status check_ends() {
    for (const PlanHead& h : p_.heads) {
      for (int32_t v : {h.value, h.logit}) {
        if (v >= 0 && touch_[static_cast<size_t>(v)].empty())
          return fault("head '" + h.name + "': nothing writes it");
      }
    }
    const size_t n = p_.ops.size();
    std::vector<char> ended(n, 0);
    for (size_t i = 0; i < n; ++i) ended[i] = p_.ops[i].stream == 0;
    for (int32_t e : p_.end_waits) {
      if (e < 0 || e >= p_.n_events || recorded_by_[static_cast<size_t>(e)] == -2)
        return fault("the end waits for an event that is not recorded");
      if (recorded_by_[static_cast<size_t>(e)] >= 0)
        ended[static_cast<size_t>(recorded_by_[static_cast<size_t>(e)])] = 1;
    }
    for (size_t i = 0; i < n; ++i) {
      bool done = ended[i] != 0;
      for (size_t j = 0; j < n && !done; ++j) done = ended[j] && before_[i][j];
      if (!done) return fault(op_text(static_cast<int32_t>(i)) + ": the end does not wait for it");
    }
    return ok_status();
  }

  /// Values with bytes in common: all accesses of one come before all accesses of the other.
  Status check_bytes() {
    std::vector<int32_t> arena;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (p_.values[v].storage == Storage::kArena && !touch_[v].empty())
        arena.push_back(static_cast<int32_t>(v));
    }
    std::sort(arena.begin(), arena.end(), [&](int32_t a, int32_t b) {
      return m_.offset[static_cast<size_t>(a)] < m_.offset[static_cast<size_t>(b)];
    });
    for (size_t x = 0; x < arena.size(); ++x) {
      const int64_t end = m_.offset[static_cast<size_t>(arena[x])] + bytes_of(arena[x]);
      for (size_t y = x + 1; y < arena.size() && m_.offset[static_cast<size_t>(arena[y])] < end; ++y) {
        if (bytes_of(arena[y]) == 0 || separated(arena[x], arena[y]) || separated(arena[y], arena[x]))
          continue;
        return fault(value_text(arena[x]) + " and " + value_text(arena[y]) +
                     " share bytes and may live at the same time");
      }
    }
    return ok_status();
  }

  bool separated(int32_t first, int32_t second) const {
    for (const Access& a : touch_[static_cast<size_t>(first)]) {
      for (const Access& b : touch_[static_cast<size_t>(second)]) {
        if (!before(a.op, b.op)) return false;
      }
    }
    return true;
  }

  const Plan& p_;
  const MemoryPlan& m_;
  int64_t rows_;
  int64_t shared_;
  std::vector<std::vector<Access>> touch_;
  std::vector<std::vector<char>> before_;
  std::vector<char> started_;
  std::vector<int32_t> recorded_by_;
};

}  // namespace

Status check_plan(const Plan& plan, const MemoryPlan& memory, int64_t max_rows, int64_t max_shared_rows) {
  return Checker(plan, memory, max_rows, max_shared_rows).run();
}

}  // namespace dpi
