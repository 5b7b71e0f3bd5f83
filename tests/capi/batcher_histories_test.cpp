// Random histories of a batcher: callers that predict, submit and cancel with deadlines and flags,
// completions that are polled or called back, a close at any time. A checker that knows no more than
// dpi/batcher.h judges each: one completion for every submitted request and none for another, its own rows'
// scores bit for bit, nothing written that a status says is not.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "support/batcher_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::batcher_histories_test {
namespace {

using Rng = std::mt19937_64;

/// A request with what dpi_predict says of it.
struct Known {
  OneHotRows rows;
  std::vector<float> want;
  bool bad = false;
};

const std::vector<Known>& known_requests(dpi_model* m) {
  static const std::vector<Known> kMade = [m] {
    std::vector<Known> all;
    for (uint64_t i = 0; i < 24; ++i) {
      Known k{OneHotRows(m, 1 + static_cast<int64_t>(i % 3), i), {}, i % 8 == 7};
      k.want = k.rows.scores(m);
      if (k.bad) k.rows.dense.back() = std::numeric_limits<float>::infinity();
      all.push_back(std::move(k));
    }
    return all;
  }();
  return kMade;
}

/// One request of a history.
struct Act {
  const Known* known = nullptr;
  Scores scores{0};
  bool submitted = false, has_deadline = false;
  int32_t flag = 0;
  bool flag_used = false;
  uint64_t user = 0, ticket = 0;
  dpi_status cancelled = DPI_E_INTERNAL;  // of dpi_batcher_cancel, if it was called
  bool cancel_called = false, written_after_cancel = false;
  std::atomic<int> completions{0};
  dpi_completion done = DPI_COMPLETION_INIT;
};

struct History {
  std::vector<std::unique_ptr<Act>> acts;
  BatcherPtr batcher;
  std::atomic<int> strange{0};  // completions of nobody
  std::atomic<bool> closed_early{false};

  static void hear(void* self, const dpi_completion* c) { static_cast<History*>(self)->note(*c); }
  void note(const dpi_completion& c) {
    if (c.user == 0 || c.user > acts.size()) {
      ++strange;
      return;
    }
    Act& a = *acts[c.user - 1];
    a.done = c;
    ++a.completions;
  }
};

void act(History& h, Act& a, Rng& rng) {
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  a.has_deadline = rng() % 4 == 0;
  a.flag_used = rng() % 4 == 0;
  if (a.has_deadline) run.deadline_ns = in_ms(0) + rng() % 400'000;
  if (a.flag_used) run.cancel = &a.flag;
  a.submitted = rng() % 3 != 0;
  a.scores = Scores(a.known->want.size());
  if (!a.submitted) {
    if (a.flag_used && rng() % 2 == 0) a.flag = 1;
    return a.scores.ask(h.batcher.get(), a.known->rows.batch, &run);
  }
  a.ticket = a.scores.submit(h.batcher.get(), a.known->rows.batch, a.user, &run);
  if (a.scores.status != DPI_OK) return;
  if (a.flag_used && rng() % 2 == 0) __atomic_store_n(&a.flag, 1, __ATOMIC_RELEASE);
  if (rng() % 3 != 0) return;
  a.cancel_called = true;
  a.cancelled = dpi_batcher_cancel(h.batcher.get(), a.ticket, nullptr);
  if (a.cancelled == DPI_OK) a.written_after_cancel = !a.scores.unwritten();
}

/// The first thing that is wrong with an act; "" = nothing is.
std::string fault_of(const Act& a, bool closed_early) {
  dpi_status s = a.scores.status;
  if (a.submitted) {
    const int wanted = s == DPI_OK ? 1 : 0;
    if (a.completions != wanted) return "completions: " + std::to_string(a.completions);
    if (wanted == 0 && a.ticket != 0) return "a ticket of a refused request";
    if (wanted == 1 && a.ticket == 0) return "no ticket";
    if (wanted == 1 && a.done.ticket != a.ticket) return "another ticket";
    if (wanted == 1) s = a.done.status;
    if (a.cancel_called && a.cancelled == DPI_OK && s != DPI_E_CANCELLED) return "cancelled, and scored";
    if (a.written_after_cancel) return "written before a good cancel returned";
  }
  if (s == DPI_OK) {
    if (a.known->bad) return "a bad request was scored";
    return identical(a.scores.out, a.known->want) ? "" : "scores of another row";
  }
  if (!a.scores.unwritten()) return "written without DPI_OK";
  switch (s) {
    case DPI_E_INVALID_ARGUMENT:
      return a.known->bad ? "" : "refused";
    case DPI_E_TIMEOUT:
      return a.has_deadline ? "" : "late without a deadline";
    case DPI_E_CANCELLED:
      return a.flag_used || closed_early || a.cancelled == DPI_OK ? "" : "cancelled by nobody";
    case DPI_E_QUEUE_FULL:
      return "";
    case DPI_E_CLOSED:
      return closed_early ? "" : "closed by nobody";
    default:
      return dpi_status_name(s);
  }
}

std::string run_history(dpi_model* m, uint64_t seed) {
  Rng rng(seed);
  const std::vector<Known>& known = known_requests(m);
  History h;
  const auto one_of = [&](std::vector<const char*> values) { return values[rng() % values.size()]; };
  h.batcher = make_batcher(m, {{"batch.max_rows", one_of({"3", "4", "8"})},
                               {"batch.max_delay_us", one_of({"0", "0", "50", "300"})},
                               {"batch.queue", one_of({"1", "2", "4"})},
                               {"batch.running", one_of({"1", "2"})},
                               {"batch.threads", one_of({"1", "2"})}});
  const size_t callers = 2 + rng() % 2, each = 2 + rng() % 4;
  for (size_t i = 0; i < callers * each; ++i) {
    h.acts.push_back(std::make_unique<Act>());
    h.acts.back()->known = &known[rng() % known.size()];
    h.acts.back()->user = i + 1;
  }
  const bool calls_back = rng() % 2 == 0;
  if (calls_back) REQUIRE(dpi_batcher_set_callback(h.batcher.get(), History::hear, &h, nullptr) == DPI_OK);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < callers; ++t) {
    threads.emplace_back([&, t, own = Rng(rng())]() mutable {
      for (size_t i = 0; i < each; ++i) act(h, *h.acts[t * each + i], own);
    });
  }
  h.closed_early = rng() % 4 == 0;
  const uint64_t close_in = rng() % 500'000, close_by = h.closed_early ? in_ms(0) + close_in : 0;
  if (!h.closed_early || rng() % 2 == 0) {
    for (std::thread& t : threads) t.join();
    threads.clear();
  }
  const dpi_status closed = dpi_batcher_close(h.batcher.get(), close_by, nullptr);
  for (std::thread& t : threads) t.join();
  if (closed != DPI_OK && !(h.closed_early && closed == DPI_E_TIMEOUT)) return "close";
  for (dpi_status s = calls_back ? DPI_E_CLOSED : DPI_OK; s != DPI_E_CLOSED;) {
    dpi_completion c = DPI_COMPLETION_INIT;
    size_t count = 0;
    s = dpi_batcher_poll(h.batcher.get(), &c, 1, 60'000'000, &count, nullptr);
    if (s == DPI_OK && count == 0) return "a completion is missing";
    if (s == DPI_OK) h.note(c);
  }
  h.batcher.reset();
  if (h.strange != 0) return "a completion of nobody";
  for (const auto& a : h.acts) {
    const std::string fault = fault_of(*a, h.closed_early);
    if (!fault.empty()) return "request " + std::to_string(a->user) + ": " + fault;
  }
  return "";
}

struct Seeds {
  uint64_t first, last;
};

/// Those of DPI_HISTORIES ("FIRST LAST"), as the stage batcher_histories gives them; else as many as a build
/// has time for.
Seeds seeds_to_run() {
  if (const char* const asked = std::getenv("DPI_HISTORIES"); asked != nullptr) {
    Seeds s{};
    REQUIRE_MESSAGE(std::sscanf(asked, "%" SCNu64 " %" SCNu64, &s.first, &s.last) == 2, asked);
    REQUIRE(s.first <= s.last);
    return s;
  }
  return {1, device() == "cuda_emu" ? 100 : some_of<uint64_t>(10'000)};
}

}  // namespace

TEST_CASE("random histories") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}, {"max_contexts", "2"}});
  const Seeds seeds = seeds_to_run();
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const std::string fault = run_history(m.get(), seed);
    REQUIRE_MESSAGE(fault.empty(), "history " << seed << ": " << fault);
  }
}

TEST_CASE("many callers, one word: every row comes back to who asked") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}, {"max_contexts", "1"}});
  const std::vector<Known>& known = known_requests(m.get());
  const BatcherPtr b = make_batcher(m.get(), {{"batch.queue", "16"}, {"batch.max_rows", "8"}});
  std::atomic<int> wrong{0}, scored{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (int i = 0; i < (device() == "cuda_emu" ? 20 : some_of(2000)); ++i) {
        const Known& k = known[rng() % known.size()];
        Scores s(k.want.size());
        s.ask(b.get(), k.rows.batch);
        if (s.status == DPI_OK) ++scored;
        const bool right =
            k.bad ? s.status == DPI_E_INVALID_ARGUMENT : s.status == DPI_OK && identical(s.out, k.want);
        if (!right) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(scored > 0);
  MESSAGE(status(b.get()));
}

/// A request began to run between these moments, as far as its caller can tell: a completion itself may come
/// later, when the system takes the processor from the thread that writes it.
struct Began {
  uint64_t earliest = 0, latest = 0;
};

TEST_CASE("no request waits more than two chunks behind a later one") {
  const ModelPtr m = load("adult_widedeep.h5", {{"max_contexts", "1"}});
  const OneHotRows one(m.get(), 1);
  int overtaken = 0, compared = 0;
  for (int round = 0; round < (device() == "cuda_emu" ? 5 : some_of(200)); ++round) {
    const BatcherPtr b = make_batcher(
        m.get(),
        {{"batch.max_rows", "1"}, {"batch.queue", "16"}, {"batch.running", "1"}, {"batch.threads", "8"}});
    std::vector<Scores> scores(16, Scores(1));
    std::vector<Began> began(16);
    uint64_t passed = 0;
    for (uint64_t i = 0; i < 16; ++i) {
      began[passed].earliest = in_ms(0);
      if (scores[i].submit(b.get(), one.batch, passed) == 0) continue;
      began[passed++].latest = in_ms(0);
    }
    for (const auto& [user, c] : take(b.get(), passed)) {
      began[user].earliest += c.queued_ns;
      began[user].latest += c.queued_ns;
    }
    for (uint64_t i = 0; i < passed; ++i) {
      int later = 0;
      for (uint64_t j = i + 1; j < passed; ++j, ++compared)
        later += began[j].latest < began[i].earliest ? 1 : 0;
      if (later > 2) ++overtaken;
    }
  }
  CHECK(compared > 0);
  CHECK(overtaken == 0);
}

}  // namespace dpi::test::batcher_histories_test
