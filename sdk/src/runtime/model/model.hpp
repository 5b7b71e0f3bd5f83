// A loaded model: engine, contexts, encoders. Immutable after load but for the contexts and what they count;
// any thread may predict, and a predict writes nothing that another one reads or writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/observed.hpp"
#include "encode/encoder.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/execute/context_pool.hpp"
#include "runtime/execute/slow_calls.hpp"
#include "runtime/model/raw_counters.hpp"
#include "runtime/record/recorder.hpp"

namespace dpi {

/// How a model's bundle is opened. With a signature required, the threads of option `threads` share the
/// hashing.
Result<BundleOptions> bundle_options(const ModelOptions& options);

class Model final : public Observed {
 public:
  /// Asked once the manifest is read, before tables are; what it refuses is not loaded.
  using Accept = std::function<Status(const Manifest&)>;
  static Result<std::unique_ptr<Model>> load(const std::string& path, const ModelOptions& options,
                                             const Accept& accept = {});
  /// Opens a bundle by bundle_options. `name` is for messages; `open` is the first stage.
  using Open = std::function<Result<std::shared_ptr<Bundle>>()>;
  static Result<std::unique_ptr<Model>> load(const std::string& name, const ModelOptions& options,
                                             const Accept& accept, const Open& open);
  static Result<std::unique_ptr<Model>> load_memory(std::span<const std::byte> bytes,
                                                    const ModelOptions& options);
  /// For tests: any bundle, any store.
  static Result<std::unique_ptr<Model>> create(Bundle& bundle, const ModelOptions& options,
                                               std::unique_ptr<TableStore> store = nullptr,
                                               LoadWatch* watch = nullptr);

  /// Checks the batch and scores it. out: [rows, heads].
  Status predict(const Batch& batch, float* out, const RunControl& control);
  /// The same in steps, for who checks more of the request. Nothing of the model but the pool may be looked
  /// at before a context is claimed: only then does close() wait for the caller.
  Result<ContextPool::Lease> claim(const RunControl& control) { return claim_from(*pool_, control); }
  /// Nothing where every context is taken, without waiting.
  Result<std::optional<ContextPool::Lease>> try_claim() { return pool_->try_acquire(); }
  /// Contexts of the model's pool.
  int32_t contexts() const { return pool_->size(); }
  Result<ContextPool::Lease> claim_from(ContextPool& pool, const RunControl& control);
  Status run(ContextPool::Lease& lease, const Batch& batch, float* out, const RunControl& control);
  /// Refuses scores that are not finite, by option nonfinite, and counts them; names the first such row.
  Status check_scores(CallCounters& counters, int64_t rows, const float* out) const;
  /// Counts a request that was refused before it had a context, and gives `why` back.
  Status refuse(Status why);

  /// A context for one caller, lent without a hop through the model's pool. Counted with the model's own. It
  /// is on one device; of several they take turns.
  Result<std::unique_ptr<ContextPool>> make_own_context(int64_t max_rows, int64_t max_nnz);
  /// Waits for a call that runs on it; then it may be destroyed.
  void close_own_context(ContextPool& own);

  /// Counters for one RawRows, part of the model's counts from now on; given back when the rows go.
  Result<std::shared_ptr<RawCounters>> make_raw_counters();
  void close_raw_counters(const std::shared_ptr<RawCounters>& counters);

  /// Something that others keep beside a model as long as it is there: a batcher's chunks.
  class Attachment {
   public:
    virtual ~Attachment() = default;
    /// The model closes: nobody new comes. Returns when nobody needs the model any more but who holds one of
    /// its contexts.
    virtual void drain() = 0;
    /// No context is held any more, and the owner forgets this object, which then goes.
    virtual void model_closed() = 0;
  };
  static constexpr size_t kAttachments = 16;
  /// One per key. False: there is no room for another. The caller lets one in at a time for a key.
  bool attach(const void* key, Attachment* attachment);
  /// Null: there is none. Allocates nothing and writes nothing.
  Attachment* attached(const void* key) const {
    for (const Attached& a : attached_) {
      if (a.key.load(std::memory_order_acquire) == key) return a.attachment.load(std::memory_order_acquire);
    }
    return nullptr;
  }
  /// False: the model closes, and has or will call model_closed().
  bool detach(const void* key);

  /// Waits for running calls, known from the contexts they hold, then frees everything but the pool's words,
  /// so that a call that comes too late still reads there that the model is closed. After it only claim,
  /// refuse, forked and the destructor may be called.
  void close();

  /// Creates every context and runs synthetic rows through each.
  Status warm_up(int64_t max_rows);
  /// Recomputes the golden rows; the failing text names row, head, expected and got.
  Status check_golden(const GoldenRows& golden, double tolerance);

  /// Rows of a table of the bundle as float32, [keys, dim], as lookups read them. Fails as
  /// dpi_table_lookup_run says; a failure leaves `out` as it is.
  Status read_rows(const std::string& table, std::span<const int64_t> keys, std::span<float> out,
                   const RunControl& control = {}) const;
  /// Floats of a row; fails where read_rows would whatever the keys.
  Result<int32_t> row_dim(const std::string& table) const;

  /// The engine of the model's first device; engines() has those of all.
  const Engine& engine() const { return *engines_.front(); }
  const std::vector<std::unique_ptr<Engine>>& engines() const { return engines_; }
  /// Bytes of rows, on all devices together and in host memory.
  struct TableBytes {
    uint64_t host = 0;
    uint64_t device = 0;
  };
  TableBytes table_bytes() const;
  /// Bytes that the model allocated and has not given back. Tables that it found loaded are in the count of
  /// the model that loaded them.
  const HeldBytes& held() const { return *engine().options().held; }
  const Manifest& manifest() const { return manifest_; }
  const FeatureEncoder* encoder(int32_t feature) const {
    return encoders_[static_cast<size_t>(feature)].get();
  }
  uint64_t content_digest() const { return content_digest_; }
  bool forked() const;
  Status check_process() const;  // kForked in a child of the process that loaded

  /// The version of the content being served: 1 after load, or the number that the model's endpoint gives it.
  uint64_t version() const { return version_; }
  /// Before anybody calls the model.
  void set_version(uint64_t version);
  /// Called by close() when no call runs any more, for the model's last counts. Before anybody calls the
  /// model.
  void set_at_close(std::function<void(const Model&)> at_close) { at_close_ = std::move(at_close); }

  /// Logs what calls met since the last time: graphs given up, slow waits for contexts. Calls themselves log
  /// nothing. The callback may call the library, so no lock may be held here.
  void report_events() const noexcept;

  /// Calls from now on are recorded, those that are drawn. Before anybody calls the model.
  void set_tap(std::unique_ptr<RecordTap> tap) { tap_ = std::move(tap); }
  /// Null: nothing is recorded.
  const RecordTap* tap() const { return tap_.get(); }

  std::string schema_json() const;
  std::string info_json() const;
  std::string counters_json() const;
  CounterSums counts() const;

  /// The environment's metrics have it until it is closed. For models that no endpoint has.
  void observe();
  void write_metrics(const std::string& label, MetricsPage* page) const override;
  /// Calls over option slow_us.
  std::vector<SlowCalls::Text> slow_calls() const;
  /// Keeps them; null without option slow_us.
  SlowCalls* slow() const { return slow_.get(); }
  bool is_slow(uint64_t took_ns) const { return slow_ns_ != 0 && took_ns >= slow_ns_; }

 private:
  Model() = default;
  Status make_engines(Bundle& bundle, const ModelOptions& options, std::unique_ptr<TableStore> store,
                      LoadWatch* watch);
  void tell_events() const;

  struct SlowRun {
    uint64_t took_ns, misses_before;
    const StageTimes* stages;
    Code code;
  };
  void keep_slow(ContextPool::Lease& lease, const Batch& batch, const SlowRun& run);

  struct ReadTable {
    const TableSpec* spec;
    int32_t table;  // of the plan
    bool tiered;
  };
  /// A table of the bundle whose rows can be read; else why not.
  Result<ReadTable> read_table(const std::string& name) const;

  Manifest manifest_;  // ops and golden included, parameters not
  std::string source_;
  uint64_t content_digest_ = 0;
  uint64_t fork_generation_ = 0;
  uint64_t version_ = 1;
  std::function<void(const Model&)> at_close_;
  std::vector<std::unique_ptr<Engine>> engines_;  // one per device; the first outlives the others
  std::atomic<uint32_t> next_own_{0};             // the device of the next context of a caller's own
  std::unique_ptr<ContextPool> pool_;
  struct Attached {
    std::atomic<const void*> key{nullptr};
    std::atomic<Attachment*> attachment{nullptr};
  };
  Attached attached_[kAttachments];
  uint64_t slow_ns_ = 0;  // 0: no call is kept
  std::unique_ptr<SlowCalls> slow_;
  std::unique_ptr<RecordTap> tap_;
  std::mutex warm_up_mutex_;
  std::vector<std::unique_ptr<FeatureEncoder>> encoders_;
  HeldCount encoders_held_;
  mutable std::mutex own_mutex_;  // of the three below, never on a predict
  std::vector<ContextPool*> own_;
  std::vector<std::shared_ptr<RawCounters>> raw_;
  CounterSums gone_{0};  // what contexts and raw rows counted that were freed
};

}  // namespace dpi
