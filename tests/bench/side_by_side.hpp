// Branches of a plan side by side, on two threads that are both awake: the form that the engine does not
// have, built here over its plan, its prepared ops and its kernels, to be measured against those it has.
// Every value has bytes of its own, so only what an op reads orders it; ops are dealt out by their measured
// times, longest remaining path first, to the thread that can begin sooner, and a thread waits for an op of
// the other one by looking at one word.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/engine/engine.hpp"
#include "runtime/execute/bound_ops.hpp"

namespace dpi::bench {

class SideBySide {
 public:
  /// For calls of `batch`, all of its rows at once. Throws std::runtime_error with what is wrong.
  SideBySide(const Engine& engine, const Batch& batch);
  ~SideBySide();
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;

  /// Scores the batch: resolves its rows, runs the ops on one thread or two.
  void run(const Batch& batch, float* out, int threads);

  /// Microseconds of the ops one after another, of the longest path through them, and of what they were dealt
  /// out to: what two threads would take if nothing were handed over.
  double ops_us() const { return ops_us_; }
  double path_us() const { return path_us_; }
  double dealt_us() const { return dealt_us_; }
  /// Ops of the second thread.
  size_t moved() const { return order_[1].size(); }

  /// How long the second thread looks for the next call before it sleeps: no longer, or it would take a
  /// processor from what is measured in between.
  static constexpr int64_t kLookNs = 20'000;
  static constexpr double kHandOverUs = 0.3;  // what a deal reckons for a value that changes threads

 private:
  struct alignas(64) Word {
    std::atomic<uint64_t> call{0};
  };

  void lay_out(int64_t rows);
  std::byte* take(int64_t bytes);
  void measure(const Batch& batch, float* out);
  void deal();
  void begin(const Batch& batch, float* out);
  void run_op(size_t i, size_t member);
  void run_list(size_t member, uint64_t call);
  void help();

  const Engine& engine_;
  InputMap map_;
  MemoryPlan plan_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> blocks_;
  FlightMemory memory_;
  std::byte* scratch_[2] = {};
  std::unique_ptr<StoreReader> reader_;
  std::unique_ptr<BoundOps> ops_;
  dpi_backend_stream* stream_ = nullptr;
  std::vector<FeatureCounters> counters_;
  std::vector<float> logits_;

  std::vector<double> us_;                           // of each op
  std::vector<std::vector<int32_t>> preds_, succs_;  // of each op
  std::vector<size_t> order_[2], all_;               // ops of each thread
  std::vector<std::vector<size_t>> waits_;           // of each op: ops of the other thread
  double ops_us_ = 0, path_us_ = 0, dealt_us_ = 0;

  std::vector<Word> done_;  // by op: the last call that it has ended in
  Word go_;                 // the call that the second thread may begin
  std::atomic<bool> stop_{false};
  std::thread helper_;
};

}  // namespace dpi::bench
