// Submitted requests: completions, cancelling, callbacks, the end of a batcher.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/batcher_support.hpp"

namespace dpi::test::batcher_async_test {
namespace {

/// Chunks of `rows` rows that wait a second for others.
Pairs filling(int rows) {
  return {{"batch.max_rows", std::to_string(rows)}, {"batch.max_delay_us", "1000000"}};
}

bool readable(const dpi_batcher* b, int ms = 0) {
  pollfd fd{dpi_batcher_fd(b), POLLIN, 0};
  return poll(&fd, 1, ms) == 1;
}

dpi_status poll_once(dpi_batcher* b, dpi_completion* c, int64_t timeout_us, size_t* count) {
  *c = DPI_COMPLETION_INIT;
  return dpi_batcher_poll(b, c, 1, timeout_us, count, nullptr);
}

/// A completion may be taken before its signal comes, which polls that take nothing end.
bool unreadable_soon(dpi_batcher* b) {
  dpi_completion c = DPI_COMPLETION_INIT;
  size_t count = 7;
  for (int tries = 0; tries < 5; ++tries) {
    CHECK(poll_once(b, &c, 0, &count) == DPI_OK);
    CHECK(count == 0);
    if (!readable(b)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

/// What a callback was told, and what it does itself.
struct Heard {
  dpi_batcher* batcher = nullptr;
  const dpi_batch* batch = nullptr;
  std::atomic<int> calls{0}, scored{0}, cancelled{0}, refused{0};
  std::atomic<bool> misuse{false}, resubmits{false};
  float again = -1.0f;

  static void hear(void* self, const dpi_completion* c) {
    Heard& h = *static_cast<Heard*>(self);
    if (c->status == DPI_OK) ++h.scored;
    if (c->status == DPI_E_CANCELLED) ++h.cancelled;
    if (h.misuse) {
      float out = 0;
      if (dpi_batcher_close(h.batcher, 0, nullptr) == DPI_E_INVALID_ARGUMENT) ++h.refused;
      if (dpi_batcher_predict(h.batcher, h.batch, &out, 1, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT)
        ++h.refused;
      if (dpi_batcher_cancel(h.batcher, c->ticket, nullptr) == DPI_E_NOT_FOUND) ++h.refused;
    }
    if (h.resubmits.exchange(false)) {
      uint64_t ticket = 0;
      if (dpi_batcher_submit(h.batcher, h.batch, &h.again, 1, nullptr, 99, &ticket, nullptr) != DPI_OK)
        h.again = -2.0f;
    }
    ++h.calls;
  }
};

}  // namespace

TEST_CASE("a submitted request gets one completion, and its batch may be reused at once") {
  for (const char* file : {"adult_widedeep.h5", "msweb_deepfm.h5", "bank_dcnv2.h5"}) {
    const ModelPtr m = load(file, {{"determinism", "strict"}});
    const BatcherPtr b = make_batcher(m.get());
    std::vector<Scores> scores;
    std::vector<std::vector<float>> want;
    std::vector<uint64_t> tickets;
    for (uint64_t i = 0; i < 50; ++i) {
      OneHotRows r(m.get(), 1 + static_cast<int64_t>(i % 4), i);
      want.push_back(r.scores(m.get()));
      scores.emplace_back(want.back().size());
      tickets.push_back(scores.back().submit(b.get(), r.batch, 1000 + i));
      REQUIRE_MESSAGE(scores.back().status == DPI_OK, scores.back().error.text());
      std::fill(r.ids.begin(), r.ids.end(), 0);
      std::fill(r.dense.begin(), r.dense.end(), 0.5f);
    }
    const Completions done = take(b.get(), 50);
    REQUIRE(done.size() == 50);
    for (uint64_t i = 0; i < 50; ++i) {
      const dpi_completion& c = done.at(1000 + i);
      CHECK(c.status == DPI_OK);
      CHECK(c.ticket == tickets[i]);
      CHECK(c.version == 1);
      CHECK(c.run_ns > 0);
      CHECK(identical(scores[i].out, want[i]));
    }
    CHECK(status_of(b.get(), "submitted") == 50);
    CHECK(status_of(b.get(), "completed") == 50);
    CHECK(status_of(b.get(), "waiting") == 0);
  }
}

TEST_CASE("submitted requests and blocking calls share a chunk") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get(), filling(3));
  const OneHotRows one(m.get(), 1, 1), two(m.get(), 1, 2), three(m.get(), 1, 3);
  Scores a(1), c(1), blocking(1);
  REQUIRE(a.submit(b.get(), one.batch, 1) != 0);
  REQUIRE(c.submit(b.get(), two.batch, 2) != 0);
  blocking.ask(b.get(), three.batch);
  REQUIRE(blocking.status == DPI_OK);
  const Completions done = take(b.get(), 2);
  CHECK((done.at(1).status == DPI_OK && done.at(2).status == DPI_OK));
  CHECK(identical(a.out, one.scores(m.get())));
  CHECK(identical(c.out, two.scores(m.get())));
  CHECK(identical(blocking.out, three.scores(m.get())));
  CHECK(status_of(b.get(), "chunks") == 1);
}

TEST_CASE("the descriptor is readable while completions wait") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get());
  const OneHotRows one(m.get(), 1);
  Scores s(1), t(1);
  dpi_completion c = DPI_COMPLETION_INIT;
  size_t count = 7;
  CHECK(!readable(b.get()));
  CHECK(poll_once(b.get(), &c, 0, &count) == DPI_OK);
  CHECK(count == 0);
  for (int round = 0; round < 20; ++round) {
    REQUIRE(s.submit(b.get(), one.batch, 1) != 0);
    REQUIRE(t.submit(b.get(), one.batch, 2) != 0);
    for (int i = 0; i < 2; ++i) {
      REQUIRE(readable(b.get(), 60'000));
      do REQUIRE(poll_once(b.get(), &c, 0, &count) == DPI_OK);
      while (count == 0);
    }
    CHECK(unreadable_soon(b.get()));
  }
}

TEST_CASE("after a cancel that is good nothing is written, nor is the flag read") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get(), filling(8));
  const OneHotRows one(m.get(), 1);
  Scores gone(1), stays(1);
  uint64_t version = 55;
  float logit = -5.0f;
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  run.version = &version;
  run.logits = &logit;
  run.logits_len = 1;
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  run.cancel = static_cast<const volatile int32_t*>(page);
  const uint64_t ticket = gone.submit(b.get(), one.batch, 1, &run);
  const uint64_t other = stays.submit(b.get(), one.batch, 2);
  REQUIRE((ticket != 0 && other != 0 && ticket != other));
  Error e;
  CHECK(dpi_batcher_cancel(b.get(), ticket, &e) == DPI_OK);
  munmap(page, 4096);  // the chunk, which still waits for others, must not look there
  CHECK(dpi_batcher_cancel(b.get(), ticket, &e) == DPI_E_NOT_FOUND);
  CHECK(dpi_batcher_cancel(b.get(), 0, &e) == DPI_E_NOT_FOUND);
  CHECK(dpi_batcher_cancel(b.get(), ~uint64_t{0}, &e) == DPI_E_NOT_FOUND);
  dpi_completion c = DPI_COMPLETION_INIT;
  size_t count = 0;
  REQUIRE(poll_once(b.get(), &c, 0, &count) == DPI_OK);  // it is there at once
  REQUIRE(count == 1);
  CHECK((c.user == 1 && c.status == DPI_E_CANCELLED && c.version == 0 && c.run_ns == 0));
  const Completions done = take(b.get(), 1);
  CHECK(done.at(2).status == DPI_OK);
  CHECK(identical(stays.out, one.scores(m.get())));
  CHECK(gone.unwritten());
  CHECK((version == 55 && logit == -5.0f));
  CHECK(dpi_batcher_cancel(b.get(), other, &e) == DPI_E_NOT_FOUND);
  CHECK(status_of(b.get(), "cancelled") == 1);
}

TEST_CASE("a submitted request that is refused has no completion") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), {{"batch.max_rows", "4"}});
  OneHotRows bad(m.get(), 3), five(m.get(), 5), none(m.get(), 0);
  bad.dense[2 * bad.dense.size() / 3] = std::numeric_limits<float>::infinity();
  Scores s(5);
  CHECK(s.submit(b.get(), bad.batch, 1) == 0);
  CHECK((s.status == DPI_E_INVALID_ARGUMENT && s.error.row == 2));
  CHECK(s.submit(b.get(), five.batch, 2) == 0);
  CHECK(s.status == DPI_E_INVALID_ARGUMENT);
  CHECK(s.submit(b.get(), none.batch, 3) == 0);
  CHECK(s.status == DPI_E_INVALID_ARGUMENT);
  dpi_run_options late = DPI_RUN_OPTIONS_INIT;
  late.deadline_ns = 1;
  CHECK(s.submit(b.get(), bad.batch, 4, &late) == 0);
  CHECK(s.status == DPI_E_TIMEOUT);
  CHECK(dpi_batcher_close(b.get(), 0, nullptr) == DPI_OK);
  CHECK(take(b.get(), 1).empty());
  CHECK(s.unwritten());
}

TEST_CASE("deadlines and flags of submitted requests") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), filling(8));
  const OneHotRows one(m.get(), 1);
  Scores late(1), flagged(1), good(1);
  int32_t flag = 0;
  dpi_run_options soon = DPI_RUN_OPTIONS_INIT, with_flag = DPI_RUN_OPTIONS_INIT;
  soon.deadline_ns = in_ms(100);  // the chunk waits for a second
  with_flag.cancel = &flag;
  REQUIRE(late.submit(b.get(), one.batch, 1, &soon) != 0);
  REQUIRE(flagged.submit(b.get(), one.batch, 2, &with_flag) != 0);
  REQUIRE(good.submit(b.get(), one.batch, 3) != 0);
  __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
  const Completions done = take(b.get(), 3);
  CHECK((done.at(1).status == DPI_E_TIMEOUT && late.unwritten()));
  CHECK((done.at(2).status == DPI_E_CANCELLED && flagged.unwritten()));
  CHECK((done.at(3).status == DPI_OK && !good.unwritten()));
}

TEST_CASE("completions that nobody takes fill the tickets") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), {{"batch.max_rows", "2"}, {"batch.queue", "1"}});
  const OneHotRows one(m.get(), 1);
  std::vector<Scores> scores(64, Scores(1));
  size_t good = 0;
  for (uint64_t i = 0; i < 64; ++i) {
    scores[i].submit(b.get(), one.batch, i);
    if (scores[i].status == DPI_OK)
      ++good;
    else
      CHECK(scores[i].status == DPI_E_QUEUE_FULL);
    sleep_ms(1);
  }
  CHECK(good <= 6);  // (queue + 2) x max_rows
  CHECK(take(b.get(), good).size() == good);
  CHECK(scores[0].submit(b.get(), one.batch, 1) != 0);
  CHECK(take(b.get(), 1).size() == 1);
}

TEST_CASE("what poll refuses") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get());
  dpi_completion c = DPI_COMPLETION_INIT;
  size_t count = 0;
  CHECK(poll_once(b.get(), &c, -1, &count) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_poll(b.get(), &c, 0, 0, &count, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_poll(b.get(), nullptr, 1, 0, &count, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_poll(b.get(), &c, 1, 0, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  c.struct_size = DPI_COMPLETION_1_2_SIZE - 1;
  CHECK(dpi_batcher_poll(b.get(), &c, 1, 0, &count, nullptr) == DPI_E_INVALID_ARGUMENT);
}

TEST_CASE("callbacks come from threads of the batcher, may submit, and may not wait") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  BatcherPtr b = make_batcher(m.get());
  const OneHotRows one(m.get(), 1);
  Heard heard;
  heard.batcher = b.get();
  heard.batch = &one.batch;
  heard.misuse = heard.resubmits = true;
  Error e;
  REQUIRE(dpi_batcher_set_callback(b.get(), Heard::hear, &heard, &e) == DPI_OK);
  CHECK(dpi_batcher_set_callback(b.get(), Heard::hear, &heard, &e) == DPI_E_INVALID_ARGUMENT);
  Scores s(1);
  REQUIRE(s.submit(b.get(), one.batch, 1) != 0);
  CHECK(soon([&] { return heard.calls == 2; }));
  CHECK((heard.scored == 2 && heard.refused == 6));
  dpi_completion c = DPI_COMPLETION_INIT;
  size_t count = 0;
  CHECK(poll_once(b.get(), &c, 0, &count) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_close(b.get(), 0, &e) == DPI_OK);
  CHECK(identical({heard.again}, one.scores(m.get())));
  b.reset();
  CHECK(heard.calls == 2);
  const BatcherPtr late = make_batcher(m.get());
  REQUIRE(s.submit(late.get(), one.batch, 1) != 0);
  CHECK(dpi_batcher_set_callback(late.get(), Heard::hear, &heard, &e) == DPI_E_INVALID_ARGUMENT);
}

TEST_CASE("close waits for what was passed, then everything is refused") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), {{"batch.max_delay_us", "200000"}});
  const OneHotRows one(m.get(), 1);
  Scores s(1), t(1);
  REQUIRE(s.submit(b.get(), one.batch, 1) != 0);
  CHECK(dpi_batcher_close(b.get(), 0, nullptr) == DPI_OK);
  CHECK(!s.unwritten());
  CHECK(dpi_batcher_close(b.get(), 0, nullptr) == DPI_OK);
  t.ask(b.get(), one.batch);
  CHECK(t.status == DPI_E_CLOSED);
  CHECK(t.submit(b.get(), one.batch, 2) == 0);
  CHECK(t.status == DPI_E_CLOSED);
  CHECK(readable(b.get()));
  dpi_completion c = DPI_COMPLETION_INIT;
  size_t count = 0;
  CHECK(poll_once(b.get(), &c, 0, &count) == DPI_OK);
  CHECK((count == 1 && c.status == DPI_OK));
  CHECK(poll_once(b.get(), &c, 1'000'000, &count) == DPI_E_CLOSED);
  CHECK(readable(b.get()));
  CHECK(status(b.get()).find("\"closed\":true") != std::string::npos);
}

TEST_CASE("close with a deadline cancels what waits, of blocking calls too") {
  const ModelPtr m = load("adult_widedeep.h5");
  for (const bool blocking_leads : {false, true}) {
    BatcherPtr b = make_batcher(m.get(), filling(64));
    const OneHotRows one(m.get(), 1);
    Scores submitted(1), asked(1);
    const auto submits = [&] { REQUIRE(submitted.submit(b.get(), one.batch, 1) != 0); };
    if (!blocking_leads) submits();
    std::thread caller([&] { asked.ask(b.get(), one.batch); });
    CHECK(soon([&] { return status_of(b.get(), "calls") == (blocking_leads ? 1 : 2); }));
    sleep_ms(20);
    if (blocking_leads) submits();
    CHECK(dpi_batcher_close(b.get(), in_ms(20), nullptr) == DPI_E_TIMEOUT);
    caller.join();
    CHECK(asked.status == DPI_E_CANCELLED);
    CHECK(asked.unwritten());
    CHECK(take(b.get(), 1).at(1).status == DPI_E_CANCELLED);
    CHECK(submitted.unwritten());
    b.reset();
    CHECK(submitted.unwritten());
  }
}

TEST_CASE("free calls every callback or none, and never later") {
  const ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows one(m.get(), 1);
  for (int round = 0; round < 50; ++round) {
    Heard heard;
    BatcherPtr b = make_batcher(m.get());
    REQUIRE(dpi_batcher_set_callback(b.get(), Heard::hear, &heard, nullptr) == DPI_OK);
    std::vector<Scores> scores(8, Scores(1));
    for (uint64_t i = 0; i < 8; ++i) REQUIRE(scores[i].submit(b.get(), one.batch, i) != 0);
    b.reset();
    CHECK(heard.calls == 8);
    CHECK(heard.scored + heard.cancelled == 8);
  }
}

TEST_CASE("a forked child gets statuses") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get());
  const OneHotRows one(m.get(), 1);
  const pid_t child = fork();
  if (child == 0) {
    float out = 0;
    uint64_t ticket = 0;
    size_t count = 0;
    dpi_completion c = DPI_COMPLETION_INIT;
    const bool right =
        dpi_batcher_predict(b.get(), &one.batch, &out, 1, nullptr, nullptr) == DPI_E_FORKED &&
        dpi_batcher_submit(b.get(), &one.batch, &out, 1, nullptr, 0, &ticket, nullptr) == DPI_E_FORKED &&
        dpi_batcher_poll(b.get(), &c, 1, 0, &count, nullptr) == DPI_E_FORKED &&
        dpi_batcher_cancel(b.get(), 1, nullptr) == DPI_E_FORKED &&
        dpi_batcher_close(b.get(), 0, nullptr) == DPI_E_FORKED && dpi_batcher_fd(b.get()) == -1 &&
        dpi_batcher_status_json(b.get(), nullptr, 0) == 0;
    dpi_batcher_free(b.get());
    _exit(right ? 0 : 1);
  }
  int state = -1;
  REQUIRE(waitpid(child, &state, 0) == child);
  CHECK((WIFEXITED(state) && WEXITSTATUS(state) == 0));
}

}  // namespace dpi::test::batcher_async_test
