// Batchers: what dpi/batcher.h says of requests that are merged, one sentence after the other. Chunks are
// formed by batch.max_delay_us = 1 s and a number of rows that fills them, so no test depends on who is
// quicker.
#include <malloc.h>

#include <atomic>
#include <thread>

#include "support/batcher_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::batcher_test {
namespace {

constexpr const char* kModels[] = {"adult_widedeep.h5", "msweb_deepfm.h5", "msweb_can.h5", "bank_dcnv2.h5"};

/// Chunks of `rows` rows that wait for others.
Pairs filling(int rows) {
  return {{"batch.max_rows", std::to_string(rows)}, {"batch.max_delay_us", "1000000"}};
}

/// Bytes that the C library has given; 0 where a sanitizer gives them.
uint64_t malloced() {
  if (DPI_UNDER_ASAN || DPI_UNDER_TSAN) return 0;
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

/// One call each, at once.
void ask_at_once(dpi_batcher* b, std::vector<Scores>& scores, const std::vector<OneHotRows>& rows) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < rows.size(); ++i) threads.emplace_back([&, i] { scores[i].ask(b, rows[i].batch); });
  for (std::thread& t : threads) t.join();
}

/// Requests and what they got.
struct Asked {
  std::vector<OneHotRows> rows;
  std::vector<Scores> scores;
};

/// Requests of so many random rows each, at once.
Asked ask_for(dpi_batcher* b, dpi_model* m, const std::vector<int64_t>& rows, uint64_t seed) {
  Asked a;
  for (const int64_t n : rows) {
    a.rows.emplace_back(m, n, seed + a.rows.size());
    a.scores.emplace_back(static_cast<size_t>(n) * a.rows.back().heads);
  }
  ask_at_once(b, a.scores, a.rows);
  return a;
}

/// Each got what dpi_predict gives, bit for bit.
void check_own(dpi_model* m, const Asked& a) {
  for (size_t i = 0; i < a.rows.size(); ++i) {
    REQUIRE_MESSAGE(a.scores[i].status == DPI_OK, a.scores[i].error.text());
    CHECK(identical(a.scores[i].out, a.rows[i].scores(m)));
  }
}

}  // namespace

TEST_CASE("a request on an idle machine runs at once, and gets what dpi_predict gives") {
  for (const char* file : kModels) {
    const ModelPtr m = load(file, {{"determinism", "strict"}});
    const BatcherPtr b = make_batcher(m.get());
    const int64_t largest = device() == "cuda_emu" ? 130 : 5000;  // an emulated device is slow
    for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{128}, int64_t{129}, largest}) {
      const OneHotRows r(m.get(), rows);
      Scores s(static_cast<size_t>(rows) * r.heads);
      s.ask(b.get(), r.batch);
      REQUIRE_MESSAGE(s.status == DPI_OK, file << ": " << s.error.text());
      CHECK(identical(s.out, r.scores(m.get())));
    }
    CHECK(status_of(b.get(), "calls") == 6);
    CHECK(status_of(b.get(), "chunks") == 0);
  }
}

TEST_CASE("concurrent requests become one chunk, and each gets its own rows, bit for bit") {
  for (const char* file : kModels) {
    const ModelPtr m = load(file, {{"determinism", "strict"}});
    const BatcherPtr b = make_batcher(m.get(), filling(8));
    check_own(m.get(), ask_for(b.get(), m.get(), {1, 2, 4, 1}, 100));
    CHECK(status_of(b.get(), "chunks") == 1);
    CHECK(status_of(b.get(), "chunk_requests") == 4);
    CHECK(status_of(b.get(), "largest_chunk") == 8);
  }
}

TEST_CASE("after a shared chunk a request is a chunk too, and after that one it runs at once again") {
  if (device() == "cuda_emu") return;  // there calls take so long that the last chunk is hardly ever shared
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), {{"batch.running", "1"}});
  const OneHotRows one(m.get(), 1);
  const auto chunks_after_a_call = [&] {
    Scores s(one.heads);
    s.ask(b.get(), one.batch);
    CHECK(s.status == DPI_OK);
    return status_of(b.get(), "chunks");
  };
  CHECK(chunks_after_a_call() == 0);
  bool seen = false;  // that the last of their chunks was shared is up to the system: until it was
  for (int i = 0; i < 2000 && !seen; ++i) {
    check_own(m.get(), ask_for(b.get(), m.get(), std::vector<int64_t>(8, 60), 100));
    const auto before = status_of(b.get(), "chunks"), after = chunks_after_a_call();
    seen = after == before + 1;
    CHECK(chunks_after_a_call() == after);
  }
  CHECK(seen);
}

TEST_CASE("requests of a chunk count as calls in the metrics, and the chunk as one") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), filling(8));
  const Asked asked = ask_for(b.get(), m.get(), {1, 2, 4, 1}, 100);
  std::string page(dpi_metrics(nullptr, 0, nullptr, 0), ' ');
  REQUIRE(dpi_metrics(nullptr, 0, page.data(), page.size() + 1) <= page.size());
  const auto value = [&](const std::string& series) {
    const size_t at = page.find(series + "{model=\"adult_widedeep\"} ");
    REQUIRE_MESSAGE(at != std::string::npos, series);
    return std::stod(page.substr(page.find(' ', at)));
  };
  CHECK(value("dpi_calls_total") == 4);
  CHECK(value("dpi_call_seconds_count") == 4);
  CHECK(value("dpi_call_rows_sum") == 8);
  CHECK(value("dpi_chunk_rows_count") == 1);
  CHECK(value("dpi_chunk_rows_sum") == 8);
  CHECK(value("dpi_wait_seconds_count") == 4);
  CHECK(value("dpi_wait_seconds_sum") > 0);
  CHECK(value("dpi_wait_seconds_sum") < value("dpi_call_seconds_sum"));
}

TEST_CASE("logits and the version come with the scores") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get(), filling(2));
  const OneHotRows mine(m.get(), 1, 5), other(m.get(), 1, 6);
  std::vector<float> logits(1, -1.0f), direct(1, -2.0f);
  uint64_t version = 0;
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  run.logits = logits.data();
  run.logits_len = 1;
  run.version = &version;
  Scores s(1), o(1);
  std::thread neighbour([&] { o.ask(b.get(), other.batch); });
  s.ask(b.get(), mine.batch, &run);
  neighbour.join();
  REQUIRE((s.status == DPI_OK && o.status == DPI_OK));
  CHECK(version == 1);
  run.logits = direct.data();
  run.version = nullptr;
  REQUIRE(dpi_predict(m.get(), &mine.batch, s.out.data(), 1, &run, nullptr) == DPI_OK);
  CHECK(identical(logits, direct));
  CHECK(status_of(b.get(), "chunk_requests") == 2);
}

TEST_CASE("a refused request names its own row, and its neighbours are scored") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get(), filling(6));
  std::vector<OneHotRows> rows;
  std::vector<Scores> scores;
  for (uint64_t i = 0; i < 3; ++i) {
    rows.emplace_back(m.get(), 2, i);
    scores.emplace_back(2);
  }
  const auto width = rows[1].dense.size() / 2;
  rows[1].dense[width] = std::numeric_limits<float>::infinity();  // of row 1
  ask_at_once(b.get(), scores, rows);
  CHECK(scores[1].status == DPI_E_INVALID_ARGUMENT);
  CHECK(scores[1].error.row == 1);
  CHECK(scores[1].error.text().find("row 1, feature") == 0);
  CHECK(scores[1].unwritten());
  for (const size_t i : {size_t{0}, size_t{2}}) {
    REQUIRE_MESSAGE(scores[i].status == DPI_OK, scores[i].error.text());
    CHECK(identical(scores[i].out, rows[i].scores(m.get())));
  }
}

TEST_CASE("option nonfinite refuses the request whose score it is, by its own row") {
  const ModelPtr m = load("bank_dcnv2.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get(), filling(6));
  std::vector<OneHotRows> rows;
  std::vector<Scores> scores;
  for (uint64_t i = 0; i < 3; ++i) {
    rows.emplace_back(m.get(), 2, 40 + i);
    scores.emplace_back(2);
  }
  const auto width = rows[2].dense.size() / 2;
  for (size_t k = 0; k < width; ++k) rows[2].dense[width + k] = 3e38f;
  Error direct;
  std::vector<float> out(2);
  REQUIRE(dpi_predict(m.get(), &rows[2].batch, out.data(), 2, nullptr, &direct) == DPI_E_INVALID_ARGUMENT);
  ask_at_once(b.get(), scores, rows);
  CHECK(scores[2].status == DPI_E_INVALID_ARGUMENT);
  CHECK(scores[2].error.text() == direct.text());
  CHECK(scores[2].error.row == 1);
  CHECK((scores[0].status == DPI_OK && scores[1].status == DPI_OK));
  CHECK(status_of(b.get(), "chunk_requests") == 3);
}

TEST_CASE("raw rows go through a batcher; those of another model are refused") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  const ModelPtr other = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), filling(2));
  Error e;
  const auto make_rows = [&](dpi_model* of, double age) {
    dpi_rows* r = nullptr;
    REQUIRE(dpi_rows_create(of, &r, &e) == DPI_OK);
    REQUIRE(dpi_rows_begin(r, &e) == DPI_OK);
    REQUIRE(dpi_rows_set_number(r, dpi_model_feature_index(of, "age"), age, &e) == DPI_OK);
    return RowsPtr(r);
  };
  const RowsPtr young = make_rows(m.get(), 21), old = make_rows(m.get(), 71),
                strange = make_rows(other.get(), 21);
  float a = -1, c = -1, direct = -2;
  dpi_status first = DPI_E_INTERNAL;
  std::thread neighbour(
      [&] { first = dpi_batcher_rows_predict(b.get(), old.get(), &c, 1, nullptr, nullptr); });
  CHECK(dpi_batcher_rows_predict(b.get(), young.get(), &a, 1, nullptr, &e) == DPI_OK);
  neighbour.join();
  CHECK(first == DPI_OK);
  REQUIRE(dpi_rows_predict(young.get(), &direct, 1, nullptr, &e) == DPI_OK);
  CHECK(a == direct);
  REQUIRE(dpi_rows_predict(old.get(), &direct, 1, nullptr, &e) == DPI_OK);
  CHECK(c == direct);
  CHECK(dpi_batcher_rows_predict(b.get(), strange.get(), &a, 1, nullptr, &e) == DPI_E_INVALID_ARGUMENT);
  uint64_t ticket = 0;
  CHECK(dpi_batcher_rows_submit(b.get(), strange.get(), &a, 1, nullptr, 0, &ticket, &e) ==
        DPI_E_INVALID_ARGUMENT);
  CHECK(ticket == 0);
}

TEST_CASE("a chunk never exceeds its rows: what has no room opens the next") {
  const ModelPtr m = load("msweb_deepfm.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get(), filling(4));
  check_own(m.get(), ask_for(b.get(), m.get(), {3, 3, 3, 3}, 0));
  CHECK(status_of(b.get(), "largest_chunk") == 3);
}

TEST_CASE("more chunks than batch.queue may not wait") {
  const ModelPtr m = load("adult_widedeep.h5");
  Pairs pairs = filling(4);
  pairs.emplace_back("batch.queue", "1");
  const BatcherPtr b = make_batcher(m.get(), pairs);
  const OneHotRows three(m.get(), 3);
  Scores first(3), second(3);
  REQUIRE(first.submit(b.get(), three.batch, 1) != 0);
  uint64_t ticket = 5;
  CHECK(dpi_batcher_submit(b.get(), &three.batch, second.out.data(), 3, nullptr, 2, &ticket, nullptr) ==
        DPI_E_QUEUE_FULL);
  CHECK(ticket == 5);
  second.ask(b.get(), three.batch);
  CHECK(second.status == DPI_E_QUEUE_FULL);
  CHECK(second.unwritten());
  CHECK(status_of(b.get(), "full") == 2);
  const Completions done = take(b.get(), 1);
  CHECK(done.at(1).status == DPI_OK);
}

TEST_CASE("deadlines and flags end the waiting, and the chunk goes on without its leader") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get(), filling(8));
  const OneHotRows one(m.get(), 1, 1), two(m.get(), 1, 2), three(m.get(), 1, 3);
  Scores leader(1), member(1), cancelled(1);
  dpi_run_options soon = DPI_RUN_OPTIONS_INIT, flagged = DPI_RUN_OPTIONS_INIT;
  soon.deadline_ns = in_ms(150);
  int32_t flag = 0;
  flagged.cancel = &flag;
  std::thread first([&] { leader.ask(b.get(), one.batch, &soon); });
  sleep_ms(30);
  std::thread second([&] { member.ask(b.get(), two.batch); });
  std::thread third([&] { cancelled.ask(b.get(), three.batch, &flagged); });
  sleep_ms(30);
  __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
  first.join();
  second.join();
  third.join();
  CHECK(leader.status == DPI_E_TIMEOUT);
  CHECK(leader.unwritten());
  CHECK(cancelled.status == DPI_E_CANCELLED);
  CHECK(cancelled.unwritten());
  REQUIRE_MESSAGE(member.status == DPI_OK, member.error.text());
  CHECK(identical(member.out, two.scores(m.get())));
}

TEST_CASE("a request that cannot make its deadline is refused early") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get(), filling(512));
  const OneHotRows many(m.get(), 511), one(m.get(), 1);
  Scores a(511), c(1), late(1);
  std::thread fills([&] { a.ask(b.get(), many.batch); });
  c.ask(b.get(), one.batch);
  fills.join();
  REQUIRE((a.status == DPI_OK && c.status == DPI_OK));
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  const long long service = status_of(b.get(), "service_ns");
  run.deadline_ns = in_ms(0) + static_cast<uint64_t>(service > 0 ? service / 2 : 1);
  late.ask(b.get(), one.batch, &run);
  CHECK(late.status == DPI_E_TIMEOUT);
  CHECK(late.unwritten());
}

TEST_CASE("keys of a batcher") {
  const OptionsPtr o(dpi_options_create());
  Error e;
  const auto set_to = [&](const char* key, const char* value) {
    return dpi_options_set(o.get(), key, value, &e);
  };
  CHECK(set_to("batch.max_rows", "4096") == DPI_OK);
  CHECK(set_to("batch.threads", "2") == DPI_OK);
  CHECK(set_to("batch.max_rows", "0") == DPI_E_INVALID_ARGUMENT);
  CHECK(set_to("batch.max_rows", "4097") == DPI_E_INVALID_ARGUMENT);
  CHECK(set_to("batch.max_delay_us", "-1") == DPI_E_INVALID_ARGUMENT);
  CHECK(set_to("batch.max_delay_us", "1000001") == DPI_E_INVALID_ARGUMENT);
  CHECK(set_to("batch.queue", "0") == DPI_E_INVALID_ARGUMENT);
  CHECK(set_to("batch.running", "41") == DPI_E_INVALID_ARGUMENT);
  CHECK(set_to("batch.threads", "two") == DPI_E_INVALID_ARGUMENT);
  CHECK(set_to("batch.rows", "1") == DPI_E_NOT_FOUND);
  CHECK(e.text().find("batch.max_rows") != std::string::npos);
  const ModelPtr m = load("adult_widedeep.h5", {{"batch.threads", "2"}});  // a model ignores them
  dpi_batcher* made = nullptr;
  REQUIRE(dpi_batcher_create(m.get(), o.get(), &made, &e) == DPI_OK);
  const BatcherPtr b(made);
  CHECK(status_of(b.get(), "threads") == 2);
  CHECK(status_of(b.get(), "max_rows") <= 4096);
  std::vector<BatcherPtr> others;
  for (int i = 0; i < 15; ++i) others.push_back(make_batcher(m.get()));
  CHECK(dpi_batcher_create(m.get(), nullptr, &made, &e) == DPI_E_UNSUPPORTED);
  others.pop_back();
  others.push_back(make_batcher(m.get()));
}

TEST_CASE("memory_bytes is what a batcher takes") {
  const ModelPtr m = load("msweb_deepfm.h5");
  uint64_t before_bytes = 0;
  for (const char* queue : {"1", "4", "16"}) {
    const uint64_t before = malloced();
    const BatcherPtr b = make_batcher(m.get(), {{"batch.max_rows", "512"}, {"batch.queue", queue}});
    const auto bytes = static_cast<uint64_t>(status_of(b.get(), "memory_bytes"));
    CHECK(bytes > before_bytes);
    before_bytes = bytes;
    if (before == 0) continue;  // nobody counts
    const uint64_t taken = malloced() - before;
    CHECK(taken >= bytes);
    CHECK(taken <= bytes + bytes / 20 + (64 << 10));
  }
}

TEST_CASE("a batcher keeps its model alive") {
  ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows one(m.get(), 1);
  BatcherPtr b = make_batcher(m.get());
  m.reset();
  Scores s(1);
  s.ask(b.get(), one.batch);
  CHECK(s.status == DPI_OK);
}

TEST_CASE("null pointers are statuses") {
  const ModelPtr m = load("adult_widedeep.h5");
  const BatcherPtr b = make_batcher(m.get());
  const OneHotRows one(m.get(), 1);
  float out = 0;
  uint64_t ticket = 0;
  dpi_batcher* made = nullptr;
  CHECK(dpi_batcher_create(nullptr, nullptr, &made, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_create(m.get(), nullptr, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_create_endpoint(nullptr, nullptr, &made, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_predict(nullptr, &one.batch, &out, 1, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_predict(b.get(), nullptr, &out, 1, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_predict(b.get(), &one.batch, nullptr, 1, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_predict(b.get(), &one.batch, &out, 0, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_rows_predict(b.get(), nullptr, &out, 1, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_submit(b.get(), &one.batch, &out, 1, nullptr, 0, nullptr, nullptr) ==
        DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_rows_submit(b.get(), nullptr, &out, 1, nullptr, 0, &ticket, nullptr) ==
        DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_cancel(nullptr, 1, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_close(nullptr, 0, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_set_callback(b.get(), nullptr, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_batcher_fd(nullptr) == -1);
  CHECK(dpi_batcher_status_json(nullptr, nullptr, 0) == 0);
  dpi_batcher_free(nullptr);
}

TEST_CASE("calls without structs") {
  const ModelPtr m = load("adult_widedeep.h5", {{"determinism", "strict"}});
  const BatcherPtr b = make_batcher(m.get());
  const OneHotRows r(m.get(), 2);
  std::vector<float> out(2, -1.0f), later(2, -1.0f);
  uint64_t version = 0, ticket = 0;
  Error e;
  CHECK(dpi_batcher_predict_flat(b.get(), 2, r.dense.data(), r.dense.size(), 0, r.ids.data(), r.ids.size(),
                                 nullptr, 0, nullptr, 0, 0, out.data(), 2, 0, nullptr, &version,
                                 &e) == DPI_OK);
  CHECK(version == 1);
  CHECK(identical(out, r.scores(m.get())));
  CHECK(dpi_batcher_predict_flat(b.get(), 2, r.dense.data(), r.dense.size() - 1, 0, r.ids.data(),
                                 r.ids.size(), nullptr, 0, nullptr, 0, 0, out.data(), 2, 0, nullptr, nullptr,
                                 &e) == DPI_E_INVALID_ARGUMENT);
  version = 0;
  REQUIRE(dpi_batcher_submit_flat(b.get(), 2, r.dense.data(), r.dense.size(), 0, r.ids.data(), r.ids.size(),
                                  nullptr, 0, nullptr, 0, 0, later.data(), 2, 0, nullptr, &version, 9,
                                  &ticket, &e) == DPI_OK);
  CHECK(take(b.get(), 1).at(9).status == DPI_OK);
  CHECK(version == 1);
  CHECK(identical(later, out));
}

TEST_CASE("a version that is replaced finishes the chunks that it began") {
  REQUIRE(versions() != nullptr);
  EndpointPtr e = make_endpoint("batched");
  Error error;
  dpi_batcher* made = nullptr;
  REQUIRE(dpi_batcher_create_endpoint(e.get(), options(filling(8)).get(), &made, &error) == DPI_OK);
  BatcherPtr b(made);
  const TagRows rows(3);
  Scores early(3), old(3), fresh(3);
  early.ask(b.get(), rows.batch);
  CHECK(early.status == DPI_E_NOT_FOUND);
  set(e.get(), "keep_seconds", "0");
  load(e.get(), bundle(0));
  REQUIRE(old.submit(b.get(), rows.batch, 1) != 0);
  load(e.get(), bundle(1));
  uint64_t version = 0;
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  run.version = &version;
  fresh.ask(b.get(), rows.batch, &run);
  REQUIRE(fresh.status == DPI_OK);
  CHECK(version == 2);
  CHECK(rows.tag(fresh.out) == 1);
  const Completions done = take(b.get(), 1);
  CHECK(done.at(1).status == DPI_OK);
  CHECK(done.at(1).version == 1);
  CHECK(rows.tag(old.out) == 0);
  b.reset();
  e.reset();
}

}  // namespace dpi::test::batcher_test
