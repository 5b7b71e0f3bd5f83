// Two threads on one call of few rows, four ways: rows shared out and columns of large layers shared out, as
// the engine does; branches of the plan side by side, and the fields of a lookup in two halves, as it does
// not. Both threads are awake in every form and all forms take turns, so that other work on the machine meets
// them alike; every score is compared to the bit first. Microseconds of a call, medians; a minute.
//
//   branches_bench [SECONDS-A-CELL]        0.15 where it is not said
//
// 0 seconds: only what branches promise, by the shortest time of each op on one thread. That can be told on a
// busy machine; two threads that wait for each other by looking need one of two processors each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/spin.hpp"
#include "bench/bench.hpp"
#include "bench/side_by_side.hpp"
#include "runtime/execute/context.hpp"
#include "support/built_bundle.hpp"
#include "support/paper_models.hpp"
#include "support/random_batch.hpp"

namespace {

using namespace dpi;
using namespace dpi::bench;

constexpr uint64_t kWakeNs = 100'000;
constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "branches_bench: %s\n", text.c_str());
  std::exit(1);
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Medians of forms that take turns, in microseconds. quiet_ns: after so long all threads of a form sleep.
std::vector<double> in_turns(const std::vector<std::function<void()>>& forms, int64_t quiet_ns,
                             double seconds) {
  std::vector<std::vector<double>> times(forms.size());
  for (int i = 0; i < 20; ++i) {
    for (const auto& f : forms) f();
  }
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(seconds * 1e9);
  while (times[0].size() < 21 || monotonic_ns() < end) {
    for (size_t f = 0; f < forms.size(); ++f) {
      spin(quiet_ns, [] { return false; });  // those of the form before sleep
      // Those of this form are woken by then, and its weights are where it reads them.
      for (const uint64_t from = monotonic_ns(); monotonic_ns() - from < kWakeNs;) forms[f]();
      const uint64_t began = monotonic_ns();
      forms[f]();
      times[f].push_back(1e-3 * static_cast<double>(monotonic_ns() - began));
    }
  }
  std::vector<double> out;
  for (auto& t : times) out.push_back(median(std::move(t)));
  return out;
}

std::unique_ptr<Engine> make_engine(test::PaperModel kind, const std::vector<int64_t>& hidden, bool fold) {
  test::PaperShape shape;
  shape.vocab = 5000;
  shape.hidden = hidden;
  test::ModelBuilder builder = test::paper_model(kind, shape);
  test::BuiltBundle bundle(builder);
  ModelOptions options;
  options.environment = Environment::create();
  options.device = "cpu";
  options.threads = 2;
  options.max_rows = 128;
  options.fold = fold;
  auto made = Engine::create(bundle, options);
  if (!made.ok()) fail(made.status().message());
  return std::move(made).value();
}

struct Forms {
  const Engine& engine;
  Context& context;
  const Batch& batch;
  std::vector<float> want, got;

  void call(const WorkRows& as) {
    if (Status s = context.run(batch, got.data(), {}, &as); !s.ok()) fail(s.message());
  }
  void compare(const char* what) const {
    if (std::memcmp(want.data(), got.data(), want.size() * sizeof(float)) != 0)
      fail(std::string(what) + " gives other scores");
  }
};

void branches(const char* name, const Engine& engine, int64_t rows, double seconds) {
  auto context = Context::create(engine, 128, 1024);
  if (!context.ok()) fail(context.status().message());
  const test::RandomBatch request(engine.schema(), rows, 0, 1);
  const auto scores = static_cast<size_t>(rows * engine.heads());
  Forms f{engine, **context, request.batch, std::vector<float>(scores), std::vector<float>(scores)};
  SideBySide side(engine, request.batch);
  if (seconds <= 0) {
    std::printf("%-28s %5lld %8.1f %8.1f %8.1f %7.2f %4zu\n", name, static_cast<long long>(rows),
                side.ops_us(), side.path_us(), side.dealt_us(), side.ops_us() / side.dealt_us(),
                side.moved());
    return;
  }
  const WorkRows alone{}, by_rows{rows / 2, kNoRows}, by_columns{kNoRows, 1};
  f.call(alone);
  f.want = f.got;
  std::vector<std::function<void()>> forms = {[&] { f.call(alone); }, [&] { f.call(by_columns); },
                                              [&] { side.run(f.batch, f.got.data(), 1); },
                                              [&] { side.run(f.batch, f.got.data(), 2); }};
  if (rows >= 2 * kTileRows) forms.emplace_back([&] { f.call(by_rows); });
  for (const auto& form : forms) {
    std::fill(f.got.begin(), f.got.end(), -1.0f);
    form();
    f.compare(name);
  }
  const int64_t quiet = f.engine.pool().spin_ns() + 4 * SideBySide::kLookNs;
  const std::vector<double> us = in_turns(forms, quiet, seconds);
  const double shared = forms.size() > 4 ? std::min(us[1], us[4]) : us[1];
  std::printf("%-28s %5lld %8.1f %8.1f", name, static_cast<long long>(rows), us[0], us[1]);
  forms.size() > 4 ? std::printf(" %8.1f", us[4]) : std::printf(" %8s", "-");
  std::printf(" %9.1f %7.2f %9.2f %9.2f %4zu\n", us[3], us[2] / us[3], std::min(us[0], shared) / us[3],
              side.ops_us() / side.dealt_us(), side.moved());
  std::fflush(stdout);
}

void all_branches(double seconds) {
  const std::pair<test::PaperModel, const char*> models[] = {{test::PaperModel::kDcnV2, "DCNv2"},
                                                             {test::PaperModel::kDeepFm, "DeepFM"}};
  const std::pair<std::vector<int64_t>, const char*> layers[] = {
      {{64, 32}, "64-32"}, {{400, 400, 400}, "3 x 400"}, {{600, 600, 600}, "3 x 600"}};
  for (const auto& [kind, model] : models) {
    for (const auto& [hidden, width] : layers) {
      for (const bool fold : {true, false}) {
        const auto engine = make_engine(kind, hidden, fold);
        const std::string name = std::string(model) + " " + width + (fold ? "" : ", folds off");
        for (const int64_t rows : kRows) branches(name.c_str(), *engine, rows, seconds);
      }
    }
  }
}

// ---- fields of a lookup

/// Two threads that are awake: `run` gives each its half.
class Pair {
 public:
  Pair()
      : helper_([this] {
          for (uint64_t seen = 0; !stop_.load(std::memory_order_relaxed);) {
            const uint64_t call = go_.load(std::memory_order_acquire);
            if (call == seen) {
              pause_looking();
              continue;
            }
            seen = call;
            half_(1);
            done_.store(call, std::memory_order_release);
          }
        }) {}
  ~Pair() {
    stop_.store(true);
    helper_.join();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void run(const std::function<void(int)>& half) {
    half_ = half;
    const uint64_t call = go_.load(std::memory_order_relaxed) + 1;
    go_.store(call, std::memory_order_release);
    half(0);
    while (done_.load(std::memory_order_acquire) < call) pause_looking();
  }

 private:
  alignas(64) std::atomic<uint64_t> go_{0};
  alignas(64) std::atomic<uint64_t> done_{0};
  std::atomic<bool> stop_{false};
  std::function<void(int)> half_;
  std::thread helper_;
};

/// 39 fields of 16 floats over `bytes` of tables: other rows in every call.
class Lookup {
 public:
  static constexpr int kFields = 39, kDim = 16, kCalls = 512;

  Lookup(int64_t rows, int64_t bytes, const char* memory) : rows_(rows), inputs_(kFields) {
    const int64_t row_bytes = kDim * 4, table_rows = bytes / row_bytes / kFields;
    for (int f = 0; f < kFields; ++f) {
      ids_.push_back(random_ids(rows * kCalls, table_rows, static_cast<uint32_t>(f)));
      kernels::TableView t;
      t.base = memory + f * table_rows * row_bytes;
      t.rows = table_rows;
      t.row_bytes = row_bytes;
      t.dim = kDim;
      t.dtype = kernels::DType::kF32;
      tables_.push_back(t);
      kernels::LookupField field;
      field.embed.pooling = kernels::Pooling::kSingle;
      field.input = field.table = f;
      field.out_col = f * kDim;
      fields_.push_back(field);
    }
    out_.resize(static_cast<size_t>(rows * kFields * kDim));
    args_.inputs = inputs_.data();
    args_.tables = tables_.data();
    args_.rows = rows;
    args_.out = tensor(out_, rows, dims_of({kFields * kDim}));
  }

  void next() {
    call_ = (call_ + 1) % kCalls;
    for (int f = 0; f < kFields; ++f)
      inputs_[static_cast<size_t>(f)].bags = {ids_[static_cast<size_t>(f)].data() + call_ * rows_, nullptr,
                                              nullptr, 1, rows_};
  }
  void part(int begin, int end) const {
    kernels::MultiLookupArgs a = args_;
    a.attrs.fields = fields_.data() + begin;
    a.attrs.n_fields = end - begin;
    best_set().multi_lookup(a);
  }
  void half(int which) const { which == 0 ? part(0, kFields / 2) : part(kFields / 2, kFields); }
  std::vector<float>& out() { return out_; }

 private:
  int64_t rows_, call_ = 0;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<kernels::Operand> inputs_;
  std::vector<kernels::TableView> tables_;
  std::vector<kernels::LookupField> fields_;
  std::vector<float> out_;
  kernels::MultiLookupArgs args_;
};

void lookups(int64_t bytes, const char* memory, double seconds) {
  Pair pair;
  for (const int64_t rows : {1, 2, 4, 8, 16}) {
    Lookup lookup(rows, bytes, memory);
    lookup.next();
    lookup.part(0, Lookup::kFields);
    const std::vector<float> want = lookup.out();
    std::fill(lookup.out().begin(), lookup.out().end(), -1.0f);
    pair.run([&](int which) { lookup.half(which); });
    if (want != lookup.out()) fail("halves of a lookup give other rows");
    const std::vector<double> us = in_turns({[&] {
                                               lookup.next();
                                               lookup.part(0, Lookup::kFields);
                                             },
                                             [&] {
                                               lookup.next();
                                               pair.run([&](int which) { lookup.half(which); });
                                             }},
                                            0, seconds);
    std::printf("39 fields, %4lld MiB %15lld %8.2f %8.2f %7.2f\n", static_cast<long long>(bytes >> 20),
                static_cast<long long>(rows), us[0], us[1], us[0] / us[1]);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.15;
  if (seconds <= 0) {
    std::printf("%-28s %5s %8s %8s %8s %7s %4s\n", "model", "rows", "ops, us", "path", "dealt", "bound",
                "ops");
    all_branches(0);
    return 0;
  }
  std::printf(
      "us a call; branches: / 1 = over the same executor on one thread, / best = over the best of the "
      "engine's forms; bound = ops one after another over the deal if nothing were handed over\n");
  std::printf("%-28s %5s %8s %8s %8s %9s %7s %9s %9s %4s\n", "model", "rows", "1 thread", "columns", "rows",
              "branches", "/ 1", "/ best", "bound", "ops");
  all_branches(seconds);
  std::printf("%-28s %5s %8s %8s %7s\n", "lookup by fields", "rows", "1 thread", "halves", "gain");
  const Memory memory = make_memory(kTableBytes / 2);
  for (const int64_t bytes : {int64_t{8} << 20, kTableBytes / 2}) lookups(bytes, memory.get(), seconds);
  return 0;
}
