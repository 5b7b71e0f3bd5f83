// dpi_metrics and the lists of slow calls: counts that agree with the caller's own, labels of any name,
// swaps, and text that Prometheus reads (check_metrics.py).
#include <dpi/metrics.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "support/batcher_support.hpp"
#include "support/endpoint_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::metrics_test {
namespace {

using nlohmann::json;

std::string page(dpi_env* env, uint32_t flags = 0) {
  std::string text(dpi_metrics(env, flags, nullptr, 0), '\0');
  for (;;) {
    const size_t n = dpi_metrics(env, flags, text.data(), text.size());
    REQUIRE(n > 0);
    const bool whole = n <= text.size();
    text.resize(whole ? n - 1 : n);
    if (whole) return text;
  }
}

/// The value of a sample, by its name with labels as the page writes them; -1 where it is not there.
double value(const std::string& text, const std::string& sample) {
  const std::string line = "\n" + sample + " ";
  const size_t at = ("\n" + text).find(line);
  if (at == std::string::npos) return -1;
  return std::strtod(text.c_str() + at + line.size() - 1, nullptr);
}

std::string slow_text(const dpi_model* m) {
  std::string text(dpi_model_slow_json(m, nullptr, 0) + 8192, '\0');
  text.resize(dpi_model_slow_json(m, text.data(), text.size()) - 1);
  return text;
}

std::string slow_text(const dpi_endpoint* e) {
  std::string text(dpi_endpoint_slow_json(e, nullptr, 0) + 8192, '\0');
  text.resize(dpi_endpoint_slow_json(e, text.data(), text.size()) - 1);
  return text;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  REQUIRE(out.good());
}

bool checked(const std::string& arguments) {
  return std::system(("/usr/bin/python3 -B '" + source_dir() + "/tests/capi/check_metrics.py' " + arguments)
                         .c_str()) == 0;
}

uint64_t now_ns() { return in_ms(0); }

/// A model in an environment of its own, what was asked of it, and the caller's own times.
struct Measured {
  EnvPtr env = make_env();
  ModelPtr m;
  std::vector<uint64_t> times;
  std::map<int64_t, int> rows_of;
  uint64_t total_rows = 0;
};

/// Calls of 5, 7 and 12 times `scale` rows in turn.
void measure(Measured* to, int calls, int64_t scale) {
  REQUIRE(load_in(to->env.get(), "adult_widedeep.h5", {{"device", device()}, {"max_contexts", "2"}},
                  &to->m) == DPI_OK);
  CHECK(value(page(to->env.get()), "dpi_call_seconds_count{model=\"adult_widedeep\"}") == 0);
  const OneHotRows rows(to->m.get(), 12 * scale);
  std::vector<float> out(static_cast<size_t>(12 * scale));
  for (int i = 0; i < calls; ++i) {
    const int64_t n = scale * (i % 3 == 0 ? 5 : i % 3 == 1 ? 7 : 12);
    dpi_batch b = rows.batch;
    b.rows = n;
    b.nnz = n * info_of(to->m.get()).num_slots;
    const uint64_t began = now_ns();
    REQUIRE(dpi_predict(to->m.get(), &b, out.data(), out.size(), nullptr, nullptr) == DPI_OK);
    to->times.push_back(now_ns() - began);
    ++to->rows_of[n];
    to->total_rows += static_cast<uint64_t>(n);
  }
}

void write_times(const Folder& folder, const std::vector<uint64_t>& times) {
  write(folder.path + "/times",
        {reinterpret_cast<const char*>(times.data()), times.size() * sizeof(uint64_t)});
}

/// What check_metrics.py reads.
void write_pages(const Folder& folder, const Measured& of) {
  write(folder.path + "/page.txt", page(of.env.get()));
  write(folder.path + "/page.om", page(of.env.get(), DPI_METRICS_OPENMETRICS));
  write(folder.path + "/fine.om", page(of.env.get(), DPI_METRICS_OPENMETRICS | DPI_METRICS_FINE));
  write_times(folder, of.times);
}

/// The caller's clock lies around the library's: where another process runs between the two, the caller's
/// quantile alone grows. So one agreement in five measurements is asked for.
bool agrees_once(const Folder& folder, int calls, int64_t scale, Measured* last) {
  for (int tries = 1;; ++tries) {
    const bool agrees = checked("quantiles '" + folder.path + (tries < 5 ? "' 2>/dev/null" : "'"));
    if (agrees || tries == 5) return agrees;
    *last = Measured();
    measure(last, calls, scale);
    write_pages(folder, *last);
  }
}

}  // namespace

TEST_CASE("metrics: histograms and counters agree with the caller's own counts and times") {
  // Rows that take much longer than what lies around the library's own clock; the emulated device is slow.
  const bool slow = device() == "cuda_emu";
  const int64_t scale = slow ? 1 : 128;
  const int calls = slow ? 96 : 600;
  Measured measured;
  measure(&measured, calls, scale);
  dpi_env* env = measured.env.get();
  std::map<int64_t, int>& rows_of = measured.rows_of;
  dpi_batch bad = DPI_BATCH_INIT;
  bad.rows = -1;
  float none = 0;
  REQUIRE(dpi_predict(measured.m.get(), &bad, &none, 1, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  const std::string text = page(env);
  const std::string of = "{model=\"adult_widedeep\"";
  CHECK(value(text, "dpi_calls_total" + of + "}") == calls);
  CHECK(value(text, "dpi_rows_total" + of + "}") == static_cast<double>(measured.total_rows));
  CHECK(value(text, "dpi_errors_total" + of + ",error=\"DPI_E_INVALID_ARGUMENT\"}") == 1);
  CHECK(value(text, "dpi_call_seconds_count" + of + "}") == calls);
  CHECK(value(text, "dpi_wait_seconds_count" + of + "}") == calls);
  CHECK(value(text, "dpi_call_rows_count" + of + "}") == calls);
  CHECK(value(text, "dpi_call_rows_sum" + of + "}") == static_cast<double>(measured.total_rows));
  const auto of_rows = [&](int64_t most) {
    return value(text, "dpi_call_rows_bucket" + of + ",le=\"" + std::to_string(most * scale) + ".0\"}");
  };
  CHECK(of_rows(4) == 0);
  CHECK(of_rows(5) == rows_of[5 * scale]);
  CHECK(of_rows(6) == rows_of[5 * scale]);
  CHECK(of_rows(7) == rows_of[5 * scale] + rows_of[7 * scale]);
  CHECK(of_rows(10) == rows_of[5 * scale] + rows_of[7 * scale]);
  CHECK(of_rows(12) == calls);
  // one call in sixteen, each of the five stages
  for (const char* stage : {"resolve", "fetch", "lookup", "compute", "copy"}) {
    const double n = value(text, "dpi_stage_seconds_count" + of + ",stage=\"" + stage + "\"}");
    CHECK(n >= calls / 16 - 2);
    CHECK(n <= calls / 16 + 2);
  }
  CHECK(value(text, "dpi_stage_seconds_sum" + of + ",stage=\"resolve\"}") > 0);
  CHECK(value(text, "dpi_stage_seconds_sum" + of + ",stage=\"compute\"}") > 0);
  const Folder folder;
  write_pages(folder, measured);
  CHECK(checked("read '" + folder.path + "'"));
  CHECK(agrees_once(folder, calls, scale, &measured));
  // A planted fault shows that the check can fail.
  for (uint64_t& t : measured.times) t += t / 8;
  write_times(folder, measured.times);
  CHECK_FALSE(checked("quantiles '" + folder.path + "' 2>/dev/null"));
}

TEST_CASE("metrics: models and endpoints of any name have labels of their own") {
  const EnvPtr env = make_env();
  ModelPtr a, b;
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}}, &a) == DPI_OK);
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}}, &b) == DPI_OK);
  const char* const hostile[] = {"a\"b\\c\nd{}", "a\nb",     "a\\nb",   "\xff\xfe",
                                 "\xff\xfd",     "# HELP x", "\x1b[31m"};
  std::vector<EndpointPtr> endpoints;
  for (const char* name : hostile) endpoints.push_back(make_endpoint(name, {}, env.get()));
  load(endpoints[0].get(), demo("adult_widedeep.h5"));
  OneHotRows(b.get(), 3).scores(b.get());
  const std::string text = page(env.get());
  CHECK(value(text, "dpi_calls_total{model=\"adult_widedeep\"}") == 0);
  CHECK(value(text, "dpi_calls_total{model=\"adult_widedeep#2\"}") == 1);
  CHECK(text.find("model=\"adult_widedeep#3\"") ==
        std::string::npos);  // the endpoint's is no model of its own
  const Folder folder;
  write(folder.path + "/page.txt", text);
  write(folder.path + "/page.om", page(env.get(), DPI_METRICS_OPENMETRICS));
  write(folder.path + "/fine.om", page(env.get(), DPI_METRICS_OPENMETRICS | DPI_METRICS_FINE));
  CHECK(checked("read '" + folder.path + "'"));
  CHECK(checked("endpoints '" + folder.path + "' " + std::to_string(std::size(hostile))));
  // A label is free again once its model has gone.
  b.reset();
  CHECK(page(env.get()).find("adult_widedeep#2") == std::string::npos);
  endpoints.clear();
  CHECK(page(env.get()).find("endpoint=") == std::string::npos);
}

TEST_CASE("metrics: sizes, flags, environments") {
  const EnvPtr env = make_env();
  char buf[4] = {'x', 'x', 'x', 'x'};
  CHECK(dpi_metrics(env.get(), 0, nullptr, 0) == 1);
  CHECK(page(env.get(), DPI_METRICS_OPENMETRICS) == "# EOF\n");
  CHECK(dpi_metrics(env.get(), 4, buf, sizeof buf) == 0);
  CHECK(buf[0] == '\0');
  CHECK(dpi_metrics(env.get(), DPI_METRICS_OPENMETRICS, buf, sizeof buf) == 7);
  CHECK(std::string(buf) == "# E");
  // the process's own
  const ModelPtr m = load("bank_dcnv2.h5");
  CHECK(page(nullptr).find("dpi_calls_total{model=\"") != std::string::npos);
  CHECK(page(env.get()).empty());
  CHECK(dpi_model_slow_json(nullptr, buf, sizeof buf) == 0);
  CHECK(dpi_endpoint_slow_json(nullptr, buf, sizeof buf) == 0);
}

TEST_CASE("metrics: an endpoint's counts and histograms survive swaps") {
  if (versions() == nullptr) return;
  const EnvPtr env = make_env();
  const EndpointPtr e = make_endpoint("ctr", {{"slow_us", "1"}}, env.get());
  set(e.get(), "keep_seconds", "0");
  const bool emulated = device() == "cuda_emu";
  const int64_t n_rows = emulated ? 8 : 1000;  // take more than a microsecond
  const TagRows rows(n_rows);
  uint64_t calls = 0;
  for (int n = 0; n < 4; ++n) {
    load(e.get(), bundle(n % 2));
    for (int i = 0; i < 40; ++i, ++calls) REQUIRE(ask(e.get(), rows).tag == n % 2);
    const std::string text = page(env.get());
    INFO(text.substr(0, 2000));
    CHECK(value(text, "dpi_calls_total{endpoint=\"ctr\"}") == static_cast<double>(calls));
    CHECK(value(text, "dpi_call_seconds_count{endpoint=\"ctr\"}") == static_cast<double>(calls));
    CHECK(value(text, "dpi_call_rows_sum{endpoint=\"ctr\"}") ==
          static_cast<double>(calls) * static_cast<double>(n_rows));
    CHECK(value(text, std::string("dpi_call_rows_bucket{endpoint=\"ctr\",le=\"") +
                          (emulated ? "7.0" : "896.0") + "\"}") == 0);
    CHECK(value(text, std::string("dpi_call_rows_bucket{endpoint=\"ctr\",le=\"") +
                          (emulated ? "8.0" : "1024.0") + "\"}") == static_cast<double>(calls));
    CHECK(value(text, "dpi_wait_seconds_count{endpoint=\"ctr\"}") == static_cast<double>(calls));
    CHECK(value(text, "dpi_feature_missing_total{endpoint=\"ctr\",feature=\"a\"}") == 0);
    CHECK(value(text, "dpi_model_host_bytes{endpoint=\"ctr\"}") +
              value(text, "dpi_model_device_bytes{endpoint=\"ctr\"}") >
          0);
    const json memory = json::parse(status(e.get()).c_str())["memory"];
    CHECK(value(text, "dpi_endpoint_held_bytes{endpoint=\"ctr\",where=\"host\"}") ==
          memory["held_host_bytes"].get<double>());
    CHECK(value(text, "dpi_endpoint_held_bytes{endpoint=\"ctr\",where=\"device\"}") ==
          memory["held_device_bytes"].get<double>());
    CHECK(value(text, "dpi_endpoint_forecast_bytes{endpoint=\"ctr\"}") ==
          memory["forecast_bytes"].get<double>());
  }
  // so do slow calls: 40 of the last version and 24 of the one before it
  const json slow = json::parse(slow_text(e.get()));
  REQUIRE(slow.size() == 64);
  CHECK(slow.front()["version"] == 3);
  CHECK(slow[23]["version"] == 3);
  CHECK(slow[24]["version"] == 4);
  CHECK(slow.back()["version"] == 4);
}

TEST_CASE("metrics: calls over slow_us are kept without their values, others are not") {
  const EnvPtr env = make_env();
  const int64_t least = device() == "cuda_emu" ? 1 : 210;  // rows that take more than a microsecond
  ModelPtr off, never, all;
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}}, &off) == DPI_OK);
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}, {"slow_us", "2000000000"}},
                  &never) == DPI_OK);
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}, {"slow_us", "1"}}, &all) == DPI_OK);
  for (dpi_model* m : {off.get(), never.get(), all.get()})
    for (int64_t n = least; n < least + 65; ++n) OneHotRows(m, n).scores(m);
  CHECK(slow_text(off.get()) == "[]");
  CHECK(slow_text(never.get()) == "[]");
  const json slow = json::parse(slow_text(all.get()));
  REQUIRE(slow.size() == 64);
  for (size_t i = 0; i < slow.size(); ++i) {
    const json& call = slow[i];
    const int64_t n = least + 1 + static_cast<int64_t>(i);  // the last 64 of 65
    REQUIRE(call["rows"] == n);
    REQUIRE(call["shared_rows"] == 0);
    REQUIRE(call["code"] == 0);
    REQUIRE(call["version"] == 1);
    REQUIRE(call["tier_misses"] == 0);
    REQUIRE(call["took_us"].get<double>() >= 1);
    double stages = call["wait_us"].get<double>();
    for (const char* s : {"resolve_us", "fetch_us", "lookup_us", "compute_us", "copy_us"})
      stages += call[s].get<double>();
    REQUIRE(stages > 0);
    REQUIRE(stages <= call["took_us"].get<double>() + 0.01);
    REQUIRE(call["ids"].size() == static_cast<size_t>(info_of(all.get()).num_slots));
    for (const auto& [feature, ids] : call["ids"].items()) REQUIRE(ids == n);
    REQUIRE(call.size() == 14);  // nothing else
  }
}

TEST_CASE("metrics: a slow call counts the ids of each slot, in either layout and in a shared part") {
  if (versions() == nullptr) return;
  dpi_model* made = nullptr;
  REQUIRE(dpi_model_load(demo("msweb_deepfm.h5").c_str(),
                         options({{"device", device()}, {"slow_us", "1"}}).get(), &made, nullptr) == DPI_OK);
  const ModelPtr m(made);
  const int64_t slots = info_of(m.get()).num_slots, rows = 5;
  int32_t sequence = -1;
  std::string name;
  for (int32_t f = 0; f < info_of(m.get()).num_features; ++f) {
    if (feature_of(m.get(), f).kind != DPI_FEATURE_SEQUENCE) continue;
    sequence = feature_of(m.get(), f).slot;
    name = dpi_model_feature_name(m.get(), f);
  }
  REQUIRE(sequence >= 0);
  for (const int32_t layout : {DPI_LAYOUT_ROW_MAJOR, DPI_LAYOUT_SLOT_MAJOR}) {
    std::vector<int64_t> offsets = {0}, ids;
    int64_t given = 0;
    for (int64_t k = 0; k < rows * slots; ++k) {
      const int64_t row = layout == DPI_LAYOUT_ROW_MAJOR ? k / slots : k % rows;
      const int64_t slot = layout == DPI_LAYOUT_ROW_MAJOR ? k % slots : k / rows;
      const int64_t n = slot == sequence ? row + 1 : 1;
      if (slot == sequence) given += n;
      ids.insert(ids.end(), static_cast<size_t>(n), 1);
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    OneHotRows plain(m.get(), rows);
    dpi_batch b = plain.batch;
    b.ids = ids.data();
    b.offsets = offsets.data();
    b.nnz = static_cast<int64_t>(ids.size());
    b.layout = layout;
    plain.scores_of(m.get(), b);
    const json slow = json::parse(slow_text(m.get()));
    REQUIRE(given == 15);
    for (const auto& [feature, n] : slow.back()["ids"].items()) CHECK(n == (feature == name ? given : rows));
  }
}

TEST_CASE("metrics: slow calls that shared a chunk, each with its own wait, rows and ids") {
  const EnvPtr env = make_env();
  ModelPtr m;
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}, {"slow_us", "1"}}, &m) == DPI_OK);
  const int64_t slots = info_of(m.get()).num_slots;
  for (const bool submitted : {false, true}) {
    const BatcherPtr b = make_batcher(m.get(), {{"batch.max_rows", "8"}, {"batch.max_delay_us", "1000000"}});
    const OneHotRows three(m.get(), 3), five(m.get(), 5);
    Scores first(3), last(5);
    std::thread caller;
    if (submitted)
      REQUIRE(first.submit(b.get(), three.batch, 1) != 0);
    else
      caller = std::thread([&] { first.ask(b.get(), three.batch); });
    while (status_of(b.get(), "calls") < 1) sleep_ms(1);
    sleep_ms(60);
    last.ask(b.get(), five.batch);  // fills the chunk
    if (caller.joinable()) caller.join();
    if (submitted) REQUIRE(take(b.get(), 1).at(1).status == DPI_OK);
    REQUIRE(last.status == DPI_OK);
    REQUIRE(status_of(b.get(), "chunks") == 1);
    const json slow = json::parse(slow_text(m.get()));
    REQUIRE(slow.size() == (submitted ? 4 : 2));
    const json &early = slow[slow.size() - 2], &late = slow[slow.size() - 1];
    CHECK(early["wait_us"].get<double>() >= 50'000);
    CHECK(early["wait_us"].get<double>() - late["wait_us"].get<double>() >= 50'000);
    for (const auto& [call, rows] : {std::pair(early, 3), std::pair(late, 5)}) {
      CHECK(call["rows"] == rows);
      CHECK(call["code"] == 0);
      CHECK(call["ids"].size() == static_cast<size_t>(slots));
      for (const auto& [feature, ids] : call["ids"].items()) CHECK(ids == rows);
      double stages = call["wait_us"].get<double>();
      for (const char* s : {"resolve_us", "fetch_us", "lookup_us", "compute_us", "copy_us"})
        stages += call[s].get<double>();
      CHECK(call["resolve_us"].get<double>() > 0);
      CHECK(call["compute_us"].get<double>() > 0);
      CHECK(stages <= call["took_us"].get<double>() + 0.01);
    }
    CHECK(early["compute_us"] == late["compute_us"]);  // the chunk's
  }
}

TEST_CASE("metrics: one chunk in sixteen is timed by stage, for each of its requests") {
  const EnvPtr env = make_env();
  ModelPtr m;
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}}, &m) == DPI_OK);
  const BatcherPtr b = make_batcher(m.get(), {{"batch.max_rows", "2"}, {"batch.max_delay_us", "1000000"}});
  const OneHotRows one(m.get(), 1);
  Scores scores[2] = {Scores(1), Scores(1)};
  constexpr int kChunks = 160;
  for (int i = 0; i < kChunks; ++i) {
    for (uint64_t k = 0; k < 2; ++k) REQUIRE(scores[k].submit(b.get(), one.batch, k) != 0);
    REQUIRE(take(b.get(), 2).size() == 2);
  }
  REQUIRE(status_of(b.get(), "chunks") == kChunks);
  const std::string text = page(env.get()), label = "{model=\"adult_widedeep\"";
  CHECK(value(text, "dpi_call_seconds_count" + label + "}") == 2 * kChunks);
  for (const char* s : {"resolve", "fetch", "lookup", "compute"}) {
    const double timed =
        value(text, "dpi_stage_seconds_count" + label + ",stage=\"" + std::string(s) + "\"}");
    CHECK(timed >= 2 * kChunks / 16 - 4);
    CHECK(timed <= 2 * kChunks / 16 + 4);
  }
  CHECK(value(text, "dpi_stage_seconds_sum" + label + ",stage=\"compute\"}") > 0);
  CHECK(value(text, "dpi_stage_seconds_sum" + label + ",stage=\"resolve\"}") > 0);
}

TEST_CASE("metrics: requests of a batcher are calls too, alone and merged") {
  const EnvPtr env = make_env();
  ModelPtr m;
  REQUIRE(load_in(env.get(), "adult_widedeep.h5", {{"device", device()}}, &m) == DPI_OK);
  const auto seconds = [&](const char* what) {
    return value(page(env.get()), std::string("dpi_") + what + "{model=\"adult_widedeep\"}");
  };
  const OneHotRows one(m.get(), 2);
  std::vector<float> out(2);
  {  // an idle machine: at once
    const BatcherPtr b = make_batcher(m.get());
    REQUIRE(dpi_batcher_predict(b.get(), &one.batch, out.data(), out.size(), nullptr, nullptr) == DPI_OK);
  }
  CHECK(seconds("call_seconds_count") == 1);
  CHECK(seconds("call_seconds_sum") < 30);
  {  // four that fill a chunk of eight rows, of which the first wait for the last
    const BatcherPtr b = make_batcher(m.get(), {{"batch.max_rows", "8"}, {"batch.max_delay_us", "1000000"}});
    std::vector<std::thread> callers;
    callers.reserve(4);
    std::atomic<int> failed{0};
    for (int i = 0; i < 4; ++i)
      callers.emplace_back([&] {
        std::vector<float> mine(2);
        failed +=
            dpi_batcher_predict(b.get(), &one.batch, mine.data(), 2, nullptr, nullptr) != DPI_OK ? 1 : 0;
      });
    for (std::thread& t : callers) t.join();
    CHECK(failed == 0);
    CHECK(status_of(b.get(), "chunk_requests") == 4);
  }
  CHECK(seconds("calls_total") == 5);
  CHECK(seconds("call_seconds_count") == 5);
  CHECK(seconds("wait_seconds_count") == 5);
  CHECK(seconds("call_rows_sum") == 10);
  CHECK(seconds("chunk_rows_count") == 1);
  CHECK(seconds("chunk_rows_sum") == 8);
  CHECK(seconds("call_seconds_sum") < 30);
  CHECK(seconds("call_seconds_sum") > seconds("wait_seconds_sum"));
  CHECK(seconds("wait_seconds_sum") > 0);
}

TEST_CASE("metrics: read beside calls, loads and frees") {
  const EnvPtr env = make_env();
  ModelPtr m;
  REQUIRE(load_in(env.get(), "adult_widedeep.h5",
                  {{"device", device()}, {"slow_us", "1"}, {"max_contexts", "2"}}, &m) == DPI_OK);
  const int calls = device() == "cuda_emu" ? 30 : DPI_UNDER_TSAN ? 200 : 1000;
  std::atomic<int> failed{0}, running{3};
  std::vector<std::thread> callers;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    callers.emplace_back([&, seed] {
      const OneHotRows rows(m.get(), 4, seed);
      std::vector<float> out(4);
      for (int i = 0; i < calls; ++i)
        failed +=
            dpi_predict(m.get(), &rows.batch, out.data(), out.size(), nullptr, nullptr) != DPI_OK ? 1 : 0;
      --running;
    });
  std::thread loader([&] {
    while (running > 0) {
      ModelPtr other;
      failed += load_in(env.get(), "bank_dcnv2.h5", {{"device", device()}}, &other) != DPI_OK ? 1 : 0;
    }
  });
  double before = 0;
  while (running > 0) {
    const std::string text = page(env.get());
    const double now = value(text, "dpi_call_seconds_count{model=\"adult_widedeep\"}");
    REQUIRE(now >= before);
    REQUIRE(json::parse(slow_text(m.get())).size() <= 64);
    before = now;
  }
  for (std::thread& t : callers) t.join();
  loader.join();
  CHECK(failed == 0);
  const std::string text = page(env.get());
  CHECK(value(text, "dpi_call_seconds_count{model=\"adult_widedeep\"}") == 3 * calls);
  CHECK(value(text, "dpi_wait_seconds_bucket{model=\"adult_widedeep\",le=\"+Inf\"}") == 3 * calls);
}

}  // namespace dpi::test::metrics_test
