// Endpoints: what loads, what is refused and changes nothing, rollback, models that are held, what is told.
#include <algorithm>

#include "support/endpoint_support.hpp"

namespace dpi::test::endpoint_test {
namespace {

/// What a load that must fail leaves: the old version's scores, its number, and the reason in the status.
void check_refused(dpi_endpoint* e, const std::string& path, dpi_status code, const std::string& why) {
  CAPTURE(path);
  const TagRows rows(5);
  const Answer before = ask(e, rows);
  Error error;
  CHECK(dpi_endpoint_load(e, path.c_str(), 0, &error) == code);
  INFO(error.text());
  CHECK(error.text().find(why) != std::string::npos);
  const Answer after = ask(e, rows);
  CHECK(after.code == DPI_OK);
  CHECK(after.tag == before.tag);
  CHECK(after.version == before.version);
  const std::string told = status(e);
  CAPTURE(told);
  CHECK(told.find("\"code\":" + std::to_string(code) + ",\"error\":") != std::string::npos);
  CHECK(told.find(why.substr(0, why.find('\''))) != std::string::npos);
}

/// The number after "key": in a text.
uint64_t number_in(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\":");
  REQUIRE(at != std::string::npos);
  return std::stoull(json.substr(at + key.size() + 3));
}

struct Contract {
  const char* bundle;
  const char* refused;  // a part of the reason; null = it is taken
};
constexpr Contract kContracts[] = {
    {"grown", nullptr},
    {"milder", nullptr},
    {"shrunk_milder", nullptr},
    {"shrunk", "feature 'a': its vocabulary has 8 ids, had 16"},
    {"renamed", "feature 1 is 'c', was 'b'"},
    {"turned", "feature 0 is 'b', was 'a'"},
    {"more", "incompatible with the serving version: 3 features, callers expect 2"},
    {"other_head", "head 0 is 'ctr', was 'score'"},
    {"shared_part", "feature 'b': its part is shared, was item"},
};

}  // namespace

TEST_CASE("an endpoint answers with what was loaded last") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("last");
  const TagRows rows(7);
  const Answer nothing = ask(e.get(), rows);
  CHECK(nothing.code == DPI_E_NOT_FOUND);
  CHECK(nothing.text.find("endpoint 'last' has no version yet") == 0);
  CHECK(dpi_endpoint_version(e.get()) == 0);
  CHECK(status(e.get()) ==
        R"({"name":"last","version":0,"loads":0,"failed_loads":0,"rollbacks":0,"highest_served":0,)"
        R"("counters":{"calls":0,"rows":0,"nonfinite_rows":0,"waits":0,"errors":{}},)"
        R"("memory":{"held_host_bytes":0,"held_device_bytes":0,"forecast_bytes":0},"history":[]})");
  for (int n = 0; n < 3; ++n) {
    load(e.get(), bundle(n));
    const Answer a = ask(e.get(), rows);
    CHECK(a.code == DPI_OK);
    CHECK(a.tag == n);
    CHECK(a.version == static_cast<uint64_t>(n + 1));
    CHECK(dpi_endpoint_version(e.get()) == a.version);
  }
  load(e.get(), bundle(9), 700);
  CHECK(ask(e.get(), rows).version == 700);
  load(e.get(), bundle(8));
  CHECK(ask(e.get(), rows).version == 701);
  Error error;
  CHECK(dpi_endpoint_load(e.get(), bundle(1).c_str(), 701, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(error.text().find("version 701 is serving already, from ") == 0);
  CHECK(dpi_endpoint_load(e.get(), bundle(1).c_str(), 700, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(error.text().find("version 700 is kept for a rollback already") == 0);
}

TEST_CASE("the flat call is the same, and says the version too") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("flat");
  load(e.get(), bundle(4), 40);
  const TagRows rows(6);
  std::vector<float> out(6, -1.0f);
  uint64_t version = 0;
  Error error;
  const auto call = [&](int32_t layout, size_t ids, uint64_t* v) {
    return dpi_endpoint_predict_flat(e.get(), 6, nullptr, 0, 0, rows.ids.data(), ids, nullptr, 0, nullptr, 0,
                                     layout, out.data(), out.size(), 0, nullptr, v, &error);
  };
  CHECK(call(DPI_LAYOUT_ROW_MAJOR, 12, &version) == DPI_OK);
  CHECK(rows.tag(out) == 4);
  CHECK(version == 40);
  CHECK(call(DPI_LAYOUT_ROW_MAJOR, 12, nullptr) == DPI_OK);
  CHECK(call(DPI_LAYOUT_ROW_MAJOR, 11, &version) == DPI_E_INVALID_ARGUMENT);
  CHECK(call(7, 12, &version) == DPI_E_INVALID_ARGUMENT);
}

TEST_CASE("a bundle that fails any step never serves, and its reason can be read") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("refusals");
  load(e.get(), bundle(0));
  check_refused(e.get(), versions()->path + "/nowhere.h5", DPI_E_NOT_FOUND, "nowhere.h5");
  check_refused(e.get(), bundle("truncated"), DPI_E_BAD_MODEL, "truncated.h5");
  check_refused(e.get(), bundle("damaged"), DPI_E_BAD_MODEL, "damaged.h5");
  check_refused(e.get(), versions()->path + "/key", DPI_E_BAD_MODEL, "/key");
  check_refused(e.get(), bundle("wrong_golden"), DPI_E_BAD_MODEL, "golden row 0, head 'score'");
  for (const Contract& c : kContracts) {
    if (c.refused != nullptr) check_refused(e.get(), bundle(c.bundle), DPI_E_UNSUPPORTED, c.refused);
  }
  CHECK(status(e.get()).find(R"("loads":1,"failed_loads":11,"rollbacks":0,"failures":{"2":1,"4":4,"5":6})") !=
        std::string::npos);
  set(e.get(), "golden", "off");
  load(e.get(), bundle("wrong_golden"));
}

TEST_CASE("callers may be given more, and then rely on it") {
  if (versions() == nullptr) return;
  for (const Contract& c : kContracts) {
    if (c.refused != nullptr) continue;
    CAPTURE(c.bundle);
    const EndpointPtr e = make_endpoint("contract");
    load(e.get(), bundle(0));
    load(e.get(), bundle(c.bundle));
    check_refused(e.get(), bundle(1), DPI_E_UNSUPPORTED,
                  c.bundle == std::string("grown") ? "had 20" : "are refused now");
  }
}

TEST_CASE("a signature that is required is required of every version") {
  if (versions() == nullptr) return;
  std::string key(64, '0');
  std::ifstream(versions()->path + "/public").read(key.data(), 64);
  const EndpointPtr e = make_endpoint("signed", {{"require_signature", key}});
  load(e.get(), bundle("signed"));
  check_refused(e.get(), bundle(1), DPI_E_BAD_MODEL, "sign");
  check_refused(e.get(), bundle("foreign"), DPI_E_BAD_MODEL, "sign");
}

TEST_CASE("rollback brings the version before back, once, for as long as it is kept") {
  if (versions() == nullptr) return;
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_INFO);
  const EndpointPtr e = make_endpoint("back", {}, env.get());
  const TagRows rows(3);
  Error error;
  CHECK(dpi_endpoint_rollback(e.get(), &error) == DPI_E_NOT_FOUND);
  load(e.get(), bundle(0));
  CHECK(dpi_endpoint_rollback(e.get(), &error) == DPI_E_NOT_FOUND);
  load(e.get(), bundle(1));
  CHECK(status(e.get()).find("\"kept\":{\"version\":1,") != std::string::npos);
  REQUIRE(dpi_endpoint_rollback(e.get(), &error) == DPI_OK);
  CHECK(ask(e.get(), rows).tag == 0);
  CHECK(ask(e.get(), rows).version == 1);
  CHECK(status(e.get()).find("\"rollbacks\":1") != std::string::npos);
  CHECK(status(e.get()).find("\"kept\"") == std::string::npos);
  CHECK(dpi_endpoint_rollback(e.get(), &error) == DPI_E_NOT_FOUND);
  load(e.get(), bundle(2));
  CHECK(ask(e.get(), rows).version == 3);  // 2 served already
  REQUIRE(dpi_endpoint_rollback(e.get(), &error) == DPI_OK);
  CHECK(ask(e.get(), rows).version == 1);
  CHECK(dpi_endpoint_load(e.get(), bundle("truncated").c_str(), 0, &error) == DPI_E_BAD_MODEL);
  CHECK(heard.find("endpoint", "back: a load failed: " + bundle("truncated") + ": ", DPI_LOG_WARN) != "");
  CHECK(heard.find("endpoint", "back: version 2 serves, from ", DPI_LOG_INFO) != "");
  CHECK(heard.find("endpoint", "back: rolled back from version 2 to 1", DPI_LOG_WARN) != "");
  set(e.get(), "keep_seconds", "0");
  load(e.get(), bundle(3));
  CHECK(dpi_endpoint_rollback(e.get(), &error) == DPI_E_NOT_FOUND);
  CHECK(error.text().find("keeps no version") != std::string::npos);
}

TEST_CASE("a kept version goes when its time is over") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("over");
  load(e.get(), bundle(0));
  load(e.get(), bundle(1));
  CHECK(status(e.get()).find("\"kept\"") != std::string::npos);
  set(e.get(), "keep_seconds", "1");
  CHECK(soon([&] { return status(e.get()).find("\"kept\"") == std::string::npos; }));
  CHECK(dpi_endpoint_rollback(e.get(), nullptr) == DPI_E_NOT_FOUND);
}

TEST_CASE("both versions share memory_limit: a kept one makes room, else the load is refused with numbers") {
  if (versions() == nullptr) return;
  const Pairs alone = {{"max_contexts", "1"}, {"store.share", "off"}, {"debug.fold", "off"}};
  uint64_t held = 0, most = 0;
  {
    const EndpointPtr e = make_endpoint("size", alone);
    load(e.get(), bundle("large"));
    held = number_in(status(e.get()), "bytes");
    dpi_model* m = nullptr;
    REQUIRE(dpi_endpoint_acquire(e.get(), &m, nullptr) == DPI_OK);
    most = number_in(json_text(dpi_model_info_json, ModelPtr(m).get()), "most_bytes");
  }
  REQUIRE(held > 2'000'000);  // both tables whole
  REQUIRE(most >= held);
  const auto limited = [&](uint64_t limit, dpi_env* env) {
    Pairs pairs = alone;
    pairs.emplace_back("memory_limit", std::to_string(limit));
    return make_endpoint("size", pairs, env);
  };
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_WARN);
  EndpointPtr e = limited(held + most, env.get());
  load(e.get(), bundle("large"));
  load(e.get(), bundle("large"));
  CHECK(heard.count() == 0);
  load(e.get(), bundle("large"));
  CHECK(heard.find("endpoint", "size: version 1, kept for a rollback, is freed early", DPI_LOG_WARN) != "");
  CHECK(status(e.get()).find("\"kept\":{\"version\":2,") != std::string::npos);
  e.reset();
  e = limited(held + most - 1, env.get());
  load(e.get(), bundle("large"));
  Error error;
  CHECK(dpi_endpoint_load(e.get(), bundle("large").c_str(), 0, &error) == DPI_E_OUT_OF_MEMORY);
  INFO(error.text());
  CHECK(error.text().find("version 2 beside version 1, which holds " + std::to_string(held) + " bytes") == 0);
  CHECK(error.text().find("needs " + std::to_string(most) + " bytes") != std::string::npos);
  CHECK(error.text().find("memory_limit allows " + std::to_string(most - 1) + " bytes") != std::string::npos);
  CHECK(dpi_endpoint_version(e.get()) == 1);
  check_refused(e.get(), bundle("large"), DPI_E_OUT_OF_MEMORY, "nothing was loaded");
}

TEST_CASE("what a kept version shared with one that is gone counts for memory_limit") {
  if (versions() == nullptr) return;
  const Pairs alone = {{"max_contexts", "1"}, {"debug.fold", "off"}};
  uint64_t held = 0, most = 0;
  {
    const EndpointPtr e = make_endpoint("size", alone);
    load(e.get(), bundle("large5"));
    held = number_in(status(e.get()), "bytes");
    dpi_model* m = nullptr;
    REQUIRE(dpi_endpoint_acquire(e.get(), &m, nullptr) == DPI_OK);
    most = number_in(json_text(dpi_model_info_json, ModelPtr(m).get()), "most_bytes");
  }
  REQUIRE(held > 2'000'000);
  for (const uint64_t less : {0, 1}) {  // than what three versions of their own tables take
    const EnvPtr env = make_env();
    Heard heard;
    heard.listen(env.get(), DPI_LOG_WARN);
    Pairs pairs = alone;
    pairs.emplace_back("memory_limit", std::to_string(2 * held + most - less));
    const EndpointPtr e = make_endpoint("size", pairs, env.get());
    load(e.get(), bundle("large"));
    load(e.get(), bundle("large"));   // shares the tables of the first
    load(e.get(), bundle("large4"));  // the first goes
    CHECK(heard.count() == 0);
    load(e.get(), bundle("large5"));
    CHECK((heard.find("endpoint", "size: version 2, kept for a rollback, is freed early", DPI_LOG_WARN) !=
           "") == (less > 0));
  }
}

TEST_CASE("numbers of versions end at 2^63 - 1") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("numbers");
  Error error;
  load(e.get(), bundle(0), INT64_MAX - 1);
  for (const uint64_t number : {uint64_t{UINT64_MAX}, uint64_t{INT64_MAX} + 1}) {
    CHECK(dpi_endpoint_load(e.get(), bundle(1).c_str(), number, &error) == DPI_E_INVALID_ARGUMENT);
    CHECK(error.text() == "version " + std::to_string(number) +
                              " is above 9223372036854775807, the highest that a version may have");
  }
  load(e.get(), bundle(2));
  CHECK(dpi_endpoint_version(e.get()) == INT64_MAX);
  CHECK(dpi_endpoint_load(e.get(), bundle(3).c_str(), 0, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(error.text().find("no number is left above version 9223372036854775807") == 0);
  load(e.get(), bundle(4), 5);  // a lower one is free
  CHECK(ask(e.get(), TagRows(2)).tag == 4);
}

TEST_CASE("a deadline that never comes is waited for") {
  if (versions() == nullptr) return;
  for (const uint64_t deadline : {uint64_t{UINT64_MAX}, uint64_t{1} << 63, uint64_t{INT64_MAX}}) {
    const EndpointPtr e = make_endpoint("waits");
    dpi_status waited = DPI_E_INTERNAL;
    std::thread waits([&] { waited = dpi_endpoint_wait(e.get(), 1, deadline, nullptr); });
    sleep_ms(20);
    load(e.get(), bundle(0));
    waits.join();
    CHECK(waited == DPI_OK);
  }
}

TEST_CASE("an acquired model stays what it was until it is given back") {
  if (versions() == nullptr) return;
  EndpointPtr e = make_endpoint("held");
  Error error;
  dpi_model* m = nullptr;
  CHECK(dpi_endpoint_acquire(e.get(), &m, &error) == DPI_E_NOT_FOUND);
  set(e.get(), "keep_seconds", "0");
  load(e.get(), bundle(5), 50);
  REQUIRE(dpi_endpoint_acquire(e.get(), &m, &error) == DPI_OK);
  ModelPtr model(m);
  const TagRows rows(4);
  dpi_context* c = nullptr;
  REQUIRE(dpi_context_create(m, 4, 0, &c, &error) == DPI_OK);
  const ContextPtr context(c);
  load(e.get(), bundle(6));
  const auto holds = [&] {
    std::vector<float> out(4), again(4);
    uint64_t version = 0;
    dpi_run_options run = DPI_RUN_OPTIONS_INIT;
    run.version = &version;
    CHECK(dpi_context_predict_batch(c, &rows.batch, out.data(), 4, &run, nullptr) == DPI_OK);
    CHECK(version == 50);
    return rows.tag(out);
  };
  CHECK(info_of(m).version == 50);
  CHECK(holds() == 5);
  CHECK(ask(e.get(), rows).tag == 6);
  model.reset();  // the context keeps it
  e.reset();
  CHECK(holds() == 5);
}

TEST_CASE("a callback that hears of a load may ask the endpoint anything but to load") {
  if (versions() == nullptr) return;
  struct Asker {
    dpi_endpoint* e = nullptr;
    int asked = 0, wrong = 0;
    static void hear(void* user, int32_t, const char* component, const char*) {
      auto* self = static_cast<Asker*>(user);
      if (self->e == nullptr || std::string(component) != "load") return;
      Error error;
      ++self->asked;
      if (dpi_endpoint_load(self->e, bundle(1).c_str(), 0, &error) != DPI_E_INVALID_ARGUMENT) ++self->wrong;
      if (ask(self->e, TagRows(2)).tag != 0) ++self->wrong;
      if (status(self->e).find("\"loading\":{\"path\":") == std::string::npos) ++self->wrong;
    }
  } asker;
  const EnvPtr env = make_env();
  const EndpointPtr e = make_endpoint("asked", {}, env.get());
  load(e.get(), bundle(0));
  asker.e = e.get();
  REQUIRE(dpi_env_set_log(env.get(), Asker::hear, &asker, DPI_LOG_INFO, nullptr) == DPI_OK);
  load(e.get(), bundle(1));
  REQUIRE(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_OFF, nullptr) == DPI_OK);
  CHECK(asker.asked == 1);
  CHECK(asker.wrong == 0);
}

TEST_CASE("what an endpoint tells may not have it load, follow or subscribe") {
  if (versions() == nullptr) return;
  struct Asker {
    dpi_endpoint* e = nullptr;
    int asked = 0, wrong = 0;
    static void hear(void* user, int32_t, const char* component, const char*) {
      auto* self = static_cast<Asker*>(user);
      if (self->asked >= 4 || std::string(component) != "endpoint") return;
      ++self->asked;
      Error error;
      const std::string path = bundle(2);
      const char* folder = versions()->path.c_str();
      if (dpi_endpoint_load(self->e, path.c_str(), 0, &error) != DPI_E_INVALID_ARGUMENT) ++self->wrong;
      if (dpi_endpoint_follow(self->e, "nowhere", &error) != DPI_E_INVALID_ARGUMENT) ++self->wrong;
      if (dpi_endpoint_subscribe(self->e, "kafka://h:1/t", folder, &error) != DPI_E_INVALID_ARGUMENT ||
          error.text().find("inside a callback of this endpoint") == std::string::npos)
        ++self->wrong;
      dpi_endpoint_unsubscribe(self->e);
      dpi_endpoint_unfollow(self->e);
      if (status(self->e).find("\"follows\":{") == std::string::npos) ++self->wrong;
    }
  } asker;
  const Folder folder;
  const EnvPtr env = make_env();
  const EndpointPtr e = make_endpoint("tells", {}, env.get());
  REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), nullptr) == DPI_OK);
  asker.e = e.get();
  REQUIRE(dpi_env_set_log(env.get(), Asker::hear, &asker, DPI_LOG_INFO, nullptr) == DPI_OK);
  load(e.get(), bundle(0));
  load(e.get(), bundle(1));
  REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  REQUIRE(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_OFF, nullptr) == DPI_OK);
  CHECK(asker.asked == 3);
  CHECK(asker.wrong == 0);
  load(e.get(), bundle(2));  // from elsewhere it may
  CHECK(ask(e.get(), TagRows(2)).tag == 2);
}

TEST_CASE("names, settings and null handles") {
  const EnvPtr env = make_env();
  EndpointPtr first = make_endpoint("one", {}, env.get());
  const OptionsPtr o = options({{"device", device()}});
  Error error;
  REQUIRE(dpi_options_set_env(o.get(), env.get(), &error) == DPI_OK);
  dpi_endpoint* second = nullptr;
  CHECK(dpi_endpoint_create("one", o.get(), &second, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(error.text() == "the environment has an endpoint 'one' already");
  make_endpoint("one");  // another environment
  first.reset();
  REQUIRE(dpi_endpoint_create("one", o.get(), &second, &error) == DPI_OK);
  first.reset(second);
  CHECK(dpi_endpoint_create("", o.get(), &second, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_create(std::string(129, 'x').c_str(), o.get(), &second, &error) ==
        DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_set(first.get(), "keep", "1", &error) == DPI_E_NOT_FOUND);
  CHECK(error.text().find("known: golden, keep_seconds, warm_up_rows, follow_ms, back_off_ms") !=
        std::string::npos);
  for (const auto& [key, value] : Pairs{{"keep_seconds", "-1"},
                                        {"keep_seconds", "604801"},
                                        {"golden", "yes"},
                                        {"follow_ms", "0"},
                                        {"warm_up_rows", "x"},
                                        {"back_off_ms", ""}})
    CHECK(dpi_endpoint_set(first.get(), key, value.c_str(), &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_create(nullptr, nullptr, &second, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_create("x", nullptr, nullptr, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_load(nullptr, "x", 0, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_load(first.get(), nullptr, 0, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_set(first.get(), nullptr, "", &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_predict(nullptr, nullptr, nullptr, 0, nullptr, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_rollback(nullptr, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_acquire(nullptr, nullptr, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_follow(first.get(), nullptr, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_follow(first.get(), "", &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_wait(nullptr, 1, 0, &error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_endpoint_wait(first.get(), 1, in_ms(5), &error) == DPI_E_TIMEOUT);
  CHECK(dpi_endpoint_version(nullptr) == 0);
  CHECK(dpi_endpoint_status_json(nullptr, nullptr, 0) == 0);
  dpi_endpoint_unfollow(nullptr);
  dpi_endpoint_free(nullptr);
}

}  // namespace dpi::test::endpoint_test
