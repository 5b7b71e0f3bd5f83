#include "bench/side_by_side.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/clock.hpp"
#include "base/spin.hpp"
#include "plan/analysis/ir.hpp"

namespace dpi::bench {

namespace {

constexpr int kRuns = 200;  // of the ops, to learn their times

void need(const Status& s) {
  if (!s.ok()) throw std::runtime_error(s.message());
}

template <class T>
T need(Result<T> made) {
  need(made.status());
  return std::move(made).value();
}

}  // namespace

SideBySide::SideBySide(const Engine& engine, const Batch& batch)
    : engine_(engine),
      map_(need(make_input_map(engine.schema(), batch.item.rows, 1024))),
      counters_(engine.schema().features.size()),
      logits_(static_cast<size_t>(batch.item.rows * engine.heads())),
      us_(engine.plan().ops.size(), std::numeric_limits<double>::infinity()),
      waits_(us_.size()),
      done_(us_.size()) {
  lay_out(batch.item.rows);
  reader_ = need(engine.store().open_reader({}));
  ops_ = std::make_unique<BoundOps>(engine, memory_, *reader_);
  dpi_backend_error err{};
  if (engine.api().stream_create(engine.device(), 0, &stream_, &err) != 0)
    throw std::runtime_error("no stream");
  const plan::Dag dag = plan::dag_of(engine.plan());
  preds_ = dag.preds;
  succs_ = dag.succs;
  for (size_t i = 0; i < us_.size(); ++i) all_.push_back(i);
  std::vector<float> out(logits_.size());
  measure(batch, out.data());
  deal();
  helper_ = std::thread([this] { help(); });
}

SideBySide::~SideBySide() {
  stop_.store(true);
  go_.call.fetch_add(1, std::memory_order_release);
  go_.call.notify_one();
  helper_.join();
  engine_.api().stream_destroy(engine_.device(), stream_);
}

std::byte* SideBySide::take(int64_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t size = (static_cast<size_t>(bytes) + kPage) / kPage * kPage;
  blocks_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kPage, size)), std::free);
  std::fill_n(blocks_.back().get(), size, std::byte{0});
  return blocks_.back().get();
}

/// Bytes of their own for all values, and scratch for both threads.
void SideBySide::lay_out(int64_t rows) {
  const Plan& plan = engine_.plan();
  int64_t at = 0;
  for (const PlanValue& v : plan.values) {
    const bool placed = v.storage == Storage::kArena && !v.is_bags;
    plan_.offset.push_back(placed ? at : -1);
    const int64_t width = std::max(v.row_stride, v.dims.size());
    if (placed) at += (rows * width * kernels::dtype_bytes(v.dtype) + 63) / 64 * 64;
  }
  plan_.arena_bytes = at;
  memory_.plan = &plan_;
  memory_.staging = memory_.input = take(map_.bytes + 64);
  memory_.arena = take(at);
  size_t scratch = 64;
  for (size_t i = 0; i < us_.size(); ++i)
    scratch = std::max(scratch, engine_.api().op_scratch_bytes(engine_.op(i), rows));
  for (std::byte*& s : scratch_) s = take(static_cast<int64_t>(scratch));
  memory_.scratch = {scratch_[0]};
}

void SideBySide::begin(const Batch& batch, float* out) {
  ResolvedRows rows;
  const RowRange range{0, batch.item.rows, 0, 0};
  need(resolve_rows(engine_.schema(), map_, batch, range, memory_.staging, counters_.data(), &rows));
  ops_->bind(map_, rows, memory_.input, out, logits_.data());
  need(ops_->acquire_tables(map_, rows, {}));
}

void SideBySide::run_op(size_t i, size_t member) {
  dpi_op_call call = ops_->call(i);
  call.scratch = scratch_[member];
  dpi_backend_error err{};
  if (engine_.api().enqueue(stream_, engine_.op(i), &call, &err) != 0)
    throw std::runtime_error(engine_.plan().ops[i].name);
}

/// The shortest that each op took, in the plan's order on one thread.
void SideBySide::measure(const Batch& batch, float* out) {
  for (int r = 0; r < kRuns; ++r) {
    begin(batch, out);
    for (const size_t i : all_) {
      const uint64_t began = monotonic_ns();
      run_op(i, 0);
      us_[i] = std::min(us_[i], 1e-3 * static_cast<double>(monotonic_ns() - began));
      ops_->mark_checked(i);
    }
    reader_->release();
  }
  for (const double us : us_) ops_us_ += us;
}

void SideBySide::deal() {
  std::vector<double> rank(us_.size(), 0), ends(us_.size(), 0);
  for (size_t i = us_.size(); i-- > 0;) {  // ops lie in topological order
    for (const int32_t s : succs_[i]) rank[i] = std::max(rank[i], rank[static_cast<size_t>(s)]);
    rank[i] += us_[i];
    path_us_ = std::max(path_us_, rank[i]);
  }
  std::vector<size_t> by_rank = all_;
  std::stable_sort(by_rank.begin(), by_rank.end(), [&](size_t a, size_t b) { return rank[a] > rank[b]; });
  std::vector<size_t> owner(us_.size(), 0);
  double free[2] = {0, 0};
  for (const size_t i : by_rank) {
    double best = std::numeric_limits<double>::infinity();
    for (size_t m = 0; m < 2; ++m) {
      double from = free[m];
      for (const int32_t p : preds_[i]) {
        const auto pred = static_cast<size_t>(p);
        from = std::max(from, ends[pred] + (owner[pred] == m ? 0 : kHandOverUs));
      }
      if (from + us_[i] >= best) continue;
      best = from + us_[i];
      owner[i] = m;
    }
    ends[i] = best;
    free[owner[i]] = best;
    order_[owner[i]].push_back(i);
  }
  dealt_us_ = std::max(free[0], free[1]);
  for (size_t i = 0; i < us_.size(); ++i) {
    for (const int32_t p : preds_[i]) {
      if (owner[static_cast<size_t>(p)] != owner[i]) waits_[i].push_back(static_cast<size_t>(p));
    }
  }
}

void SideBySide::run_list(size_t member, uint64_t call) {
  for (const size_t i : order_[member]) {
    for (const size_t w : waits_[i]) {
      while (done_[w].call.load(std::memory_order_acquire) < call) pause_looking();
    }
    run_op(i, member);
    done_[i].call.store(call, std::memory_order_release);
  }
}

void SideBySide::help() {
  for (uint64_t seen = 0; !stop_.load(std::memory_order_relaxed);) {
    spin(kLookNs, [&] { return go_.call.load(std::memory_order_acquire) != seen; });
    go_.call.wait(seen, std::memory_order_acquire);
    seen = go_.call.load(std::memory_order_acquire);
    if (!stop_.load(std::memory_order_relaxed)) run_list(1, seen);
  }
}

void SideBySide::run(const Batch& batch, float* out, int threads) {
  begin(batch, out);
  if (threads == 1) {
    for (const size_t i : all_) run_op(i, 0);
  } else {
    const uint64_t call = go_.call.load(std::memory_order_relaxed) + 1;
    go_.call.store(call, std::memory_order_release);
    go_.call.notify_one();
    run_list(0, call);
    for (const size_t i : order_[1]) {  // what nobody of this thread waited for
      while (done_[i].call.load(std::memory_order_acquire) < call) pause_looking();
    }
  }
  reader_->release();
}

}  // namespace dpi::bench
