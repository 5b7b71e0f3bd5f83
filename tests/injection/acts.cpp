#include "injection/acts.hpp"

#include <dpi/endpoint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "injection/stage.hpp"

namespace dpi::test {
namespace {

/// A stage whose act is a function of it.
template <void (*Play)(ServingStage&, Run&), int Contexts = 1>
MakeStage stage_of(const Cast& cast) {
  return [cast] {
    auto stage = std::make_unique<ServingStage>(cast, Contexts);
    ServingStage* const s = stage.get();
    s->act = [s](Run& run) {
      s->open_options();
      Play(*s, run);
      s->close_options();
    };
    return stage;
  };
}

/// Loads with the fault under way. Null after a failure that a second try did not mend.
dpi_model* load(ServingStage& s, Run& run, const char* what, const char* path) {
  dpi_model* m = nullptr;
  run.call(what, [&](dpi_error* e) { return dpi_model_load(path, s.options(), &m, e); }, DPI_OK, path);
  run.check(m != nullptr, what);
  return m;
}

void play_load(ServingStage& s, Run& run) {
  dpi_model* const m = load(s, run, "load", s.path());
  if (m == nullptr) return;
  Run plain;
  s.few.predict(plain, m, "a predict after the load");
  run.check(plain.faults().empty(), "scores after the load");
  dpi_model_free(m);
}

void play_predict(ServingStage& s, Run& run) {
  dpi_model* const m = s.load();
  for (const char* what : {"first predict", "second predict", "third predict"}) s.few.predict(run, m, what);
  s.many.predict(run, m, "predict in chunks");
  run.always([&] { dpi_model_free(m); });
}

void play_load_memory(ServingStage& s, Run& run) {
  std::ifstream in(s.path(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  dpi_model* m = nullptr;
  run.call("load_memory", [&](dpi_error* e) {
    return dpi_model_load_memory(bytes.data(), bytes.size(), s.options(), &m, e);
  });
  if (m != nullptr) s.few.predict(run, m, "predict");
  dpi_model_free(m);
}

void play_load_golden(ServingStage& s, Run& run) {
  s.set("verify", "golden");
  dpi_model_free(load(s, run, "load with golden rows", s.path()));
}

void play_load_signed(ServingStage& s, Run& run) {
  s.set("require_signature", s.cast().public_key.c_str());
  s.set("threads", "3");
  const char* const path = s.cast().signed_bundle.c_str();
  dpi_model_free(load(s, run, "signed load", path));
}

/// Threads of the environment: starting them may fail.
void play_threads(ServingStage& s, Run& run) {
  s.set("threads", "4");
  s.set("max_rows", "4096");
  dpi_model* const m = load(s, run, "load with threads", s.path());
  if (m != nullptr) s.many.predict(run, m, "predict with threads");
  dpi_model_free(m);
}

/// Every option, and no fuse and fold: other ops, more of them.
void play_primitives(ServingStage& s, Run& run) {
  for (const char* key : {"debug.fold", "debug.fuse"}) s.set(key, "off");
  s.set("debug.timestamps", "on");
  s.set("small_batch", "on");
  dpi_model* const m = load(s, run, "load of primitives", s.path());
  if (m == nullptr) return;
  for (int i = 0; i < 3; ++i) {
    run.call("predict of primitives", [&](dpi_error* e) {
      return dpi_predict(m, &s.few.batch, s.few.out.data(), s.few.out.size(), nullptr, e);
    });
  }
  dpi_model_free(m);
}

void play_small_batch(ServingStage& s, Run& run) {
  s.set("small_batch", "on");
  dpi_model* const m = load(s, run, "load with small_batch", s.path());
  if (m == nullptr) return;
  for (int i = 0; i < 3; ++i) {
    run.call("predict of a small batch", [&](dpi_error* e) {
      return dpi_predict(m, &s.few.batch, s.few.out.data(), s.few.out.size(), nullptr, e);
    });
  }
  run.always([&] { dpi_model_free(m); });
}

void play_options(ServingStage& s, Run& run) {
  dpi_options* o = nullptr;
  run.size("options_create", [&] { return (o = dpi_options_create()) != nullptr; });
  for (const auto& [key, value] : std::vector<std::pair<const char*, const char*>>{
           {"device", "a_name_of_thirty_one_characters"},
           {"backend_dir", "/a/folder/that/is/not/there/and/has/a/long/name"},
           {"tuning", "/a/table/that/is/not/there/and/has/a/long/name"},
           {"debug.skip", "lookup,elementwise,merge,tail,hoist,attention,cin,mixture"},
           {"require_signature", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"},
           {"memory_limit", "123456789"}})
    run.call(key, [&, k = key, v = value](dpi_error* e) { return dpi_options_set(o, k, v, e); });
  run.call(
      "an unknown option", [&](dpi_error* e) { return dpi_options_set(o, "no_such_option", "1", e); },
      DPI_E_NOT_FOUND);
  run.call(
      "a bad value", [&](dpi_error* e) { return dpi_options_set(o, "max_rows", "many", e); },
      DPI_E_INVALID_ARGUMENT);
  run.call("set_env", [&](dpi_error* e) { return dpi_options_set_env(o, s.env(), e); });
  run.call("set_progress",
           [&](dpi_error* e) { return dpi_options_set_progress(o, nullptr, nullptr, nullptr, e); });
  run.always([&] { dpi_options_free(o); });
}

void say(void* heard, int32_t, const char*, const char*) { ++*static_cast<int*>(heard); }

void play_env(ServingStage& s, Run& run) {
  dpi_env* env = nullptr;
  int heard = 0;
  run.call("env_create", [&](dpi_error* e) { return dpi_env_create(&env, e); });
  if (env == nullptr) return;
  run.call("env_set", [&](dpi_error* e) { return dpi_env_set(env, "threads", "3", e); });
  run.call(
      "env_set of no key", [&](dpi_error* e) { return dpi_env_set(env, "no_such_key_at_all", "3", e); },
      DPI_E_NOT_FOUND);
  run.call("env_set_log", [&](dpi_error* e) { return dpi_env_set_log(env, say, &heard, DPI_LOG_DEBUG, e); });
  run.call("env_set_memory", [&](dpi_error* e) { return dpi_env_set_memory(env, nullptr, e); });
  need(dpi_options_set_env(const_cast<dpi_options*>(s.options()), env, nullptr) == DPI_OK, "options");
  dpi_model* const m = s.load();
  char text[200];
  int32_t level = 0;
  run.check(heard > 0, "messages");
  run.size("env_poll_log", [&] { return dpi_env_poll_log(env, text, sizeof text, &level); });
  run.call("another log", [&](dpi_error* e) { return dpi_env_set_log(env, say, &heard, DPI_LOG_WARN, e); });
  dpi_model_free(m);
  need(dpi_options_set_env(const_cast<dpi_options*>(s.options()), s.env(), nullptr) == DPI_OK, "options");
  run.always([&] { dpi_env_free(env); });
}

void play_context(ServingStage& s, Run& run) {
  dpi_model* const m = s.load();
  dpi_context* c = nullptr;
  run.call("context_create", [&](dpi_error* e) { return dpi_context_create(m, s.few.batch.rows, 0, &c, e); });
  dpi_context_view v{};
  v.struct_size = sizeof v;
  if (c != nullptr && dpi_context_get_view(c, &v, nullptr) == DPI_OK) {
    if (!s.few.ids.empty()) std::memcpy(v.ids, s.few.ids.data(), s.few.ids.size() * sizeof(int64_t));
    if (!s.few.dense.empty()) std::memcpy(v.dense, s.few.dense.data(), s.few.dense.size() * sizeof(float));
    for (int i = 0; i < 3; ++i) {
      run.call("context_predict",
               [&](dpi_error* e) { return dpi_context_predict(c, s.few.batch.rows, -1, 0, nullptr, e); });
      run.check(std::memcmp(v.out, s.few.want.data(), s.few.want.size() * sizeof(float)) == 0,
                "scores of a context");
    }
  }
  run.always([&] { dpi_context_free(c); });
  run.always([&] { dpi_model_free(m); });
}

void play_warm_up(ServingStage& s, Run& run) {
  dpi_model* const m = s.load();
  run.call("warm_up", [&](dpi_error* e) { return dpi_model_warm_up(m, 2, e); });
  s.few.predict(run, m, "predict of a warm model");
  run.always([&] { dpi_model_free(m); });
}

dpi_feature_info feature_of(const dpi_model* m, int32_t f) {
  dpi_feature_info i{};
  i.struct_size = sizeof i;
  need(dpi_model_get_feature(m, f, &i, nullptr) == DPI_OK, "feature info");
  return i;
}

/// Sets every feature of the row by each function that takes it; what is refused is refused with a fault too.
void fill_row(Run& run, const dpi_model* m, dpi_rows* rows, int32_t features, int64_t row) {
  static const char kText[] = "a text of more than fifteen bytes";
  for (int32_t f = 0; f < features; ++f) {
    const dpi_feature_info i = feature_of(m, f);
    const int64_t ids[3] = {(row + f) % std::max<int64_t>(1, i.vocab_size), 0, 0};
    const float floats[64] = {0.5f, 0.25f};
    dpi_status right = dpi_rows_set_text(rows, f, kText, -1, nullptr);
    run.call("rows_set_text", [&](dpi_error* e) { return dpi_rows_set_text(rows, f, kText, -1, e); }, right);
    right = dpi_rows_set_number(rows, f, 1.0, nullptr);
    run.call("rows_set_number", [&](dpi_error* e) { return dpi_rows_set_number(rows, f, 1.0, e); }, right);
    right = dpi_rows_set_integer(rows, f, 3, nullptr);
    run.call("rows_set_integer", [&](dpi_error* e) { return dpi_rows_set_integer(rows, f, 3, e); }, right);
    if (i.kind == DPI_FEATURE_CATEGORICAL || i.kind == DPI_FEATURE_SEQUENCE) {
      const int64_t n = i.kind == DPI_FEATURE_SEQUENCE ? 2 : 1;
      run.call("rows_set_ids", [&](dpi_error* e) { return dpi_rows_set_ids(rows, f, ids, nullptr, n, e); });
    } else {
      run.call("rows_set_floats",
               [&](dpi_error* e) { return dpi_rows_set_floats(rows, f, floats, i.dim, e); });
    }
  }
}

/// Scores of rows built with the fault under way are those of rows built without.
void play_rows(ServingStage& s, Run& run) {
  dpi_model* const m = s.load();
  dpi_model_info info{};
  info.struct_size = sizeof info;
  need(dpi_model_get_info(m, &info, nullptr) == DPI_OK, "model info");
  std::vector<float> scores[2];
  for (int pass = 0; pass < 2; ++pass) {
    Run plain;
    Run& r = pass == 0 ? plain : run;
    dpi_rows* rows = nullptr;
    r.call("rows_create", [&](dpi_error* e) { return dpi_rows_create(m, &rows, e); });
    for (int64_t row = 0; row < 3 && rows != nullptr; ++row) {
      r.call("rows_begin", [&](dpi_error* e) { return dpi_rows_begin(rows, e); });
      fill_row(r, m, rows, info.num_features, row);
    }
    dpi_batch batch = DPI_BATCH_INIT;
    r.call("rows_get_batch", [&](dpi_error* e) { return dpi_rows_get_batch(rows, &batch, e); });
    scores[pass].assign(static_cast<size_t>(3 * info.num_heads), -1.0f);
    r.call("rows_predict", [&](dpi_error* e) {
      return dpi_rows_predict(rows, scores[pass].data(), scores[pass].size(), nullptr, e);
    });
    r.always([&] { dpi_rows_clear(rows); });
    r.always([&] { dpi_rows_free(rows); });
    run.check(plain.faults().empty(), "rows without a fault");
  }
  run.check(std::memcmp(scores[0].data(), scores[1].data(), scores[0].size() * sizeof(float)) == 0,
            "scores of raw rows");
  run.always([&] { dpi_model_free(m); });
}

void play_describe(ServingStage& s, Run& run) {
  dpi_model* const m = s.load();
  std::vector<char> text(1 << 20);
  run.size("schema_json", [&] { return dpi_model_schema_json(m, text.data(), text.size()); });
  run.size("info_json", [&] { return dpi_model_info_json(m, text.data(), text.size()); });
  run.size("counters_json", [&] { return dpi_model_counters_json(m, text.data(), text.size()); });
  run.size("devices_json", [&] { return dpi_devices_json(nullptr, text.data(), text.size()); });
  dpi_model_info info{};
  info.struct_size = sizeof info;
  run.call("get_info", [&](dpi_error* e) { return dpi_model_get_info(m, &info, e); });
  dpi_feature_info feature{};
  feature.struct_size = sizeof feature;
  run.call("get_feature", [&](dpi_error* e) { return dpi_model_get_feature(m, 0, &feature, e); });
  run.call(
      "get_feature beyond", [&](dpi_error* e) { return dpi_model_get_feature(m, 9999, &feature, e); },
      DPI_E_INVALID_ARGUMENT);
  const char* const name = dpi_model_feature_name(m, 0);
  run.always([&] { need(dpi_model_feature_index(m, name) == 0, "the feature's index"); });
  run.always([&] { dpi_model_free(m); });
}

/// A service takes a new model while the old one serves.
void play_swap(ServingStage& s, Run& run) {
  dpi_model* const old = s.load();
  s.few.predict(run, old, "predict of the old model");
  dpi_model* const fresh = load(s, run, "load of the new model", s.path());
  if (fresh == nullptr) return dpi_model_free(old);
  run.always([&] { dpi_model_retain(old); });
  s.few.predict(run, fresh, "predict of the new model");
  s.few.predict(run, old, "predict of the old model beside it");
  run.always([&] { dpi_model_free(old); });
  run.always([&] { dpi_model_free(old); });
  s.few.predict(run, fresh, "predict of the new model alone");
  run.always([&] { dpi_model_free(fresh); });
}

/// The same by an endpoint. A load that says that it failed has changed nothing.
void play_endpoint(ServingStage& s, Run& run) {
  dpi_endpoint* on = nullptr;
  run.call("endpoint_create", [&](dpi_error* e) { return dpi_endpoint_create("act", s.options(), &on, e); });
  if (on == nullptr) return;
  run.call("endpoint_set", [&](dpi_error* e) { return dpi_endpoint_set(on, "warm_up_rows", "1", e); });
  for (const uint64_t number : {1, 2}) {
    run.call(
        "endpoint_load",
        [&](dpi_error* e) {
          const uint64_t before = dpi_endpoint_version(on);
          const dpi_status status = dpi_endpoint_load(on, s.path(), number, e);
          run.check(dpi_endpoint_version(on) == (status == DPI_OK ? number : before),
                    "the version that serves");
          return status;
        },
        DPI_OK, s.path());
    run.call("endpoint_predict", [&](dpi_error* e) {
      return dpi_endpoint_predict(on, &s.few.batch, s.few.out.data(), s.few.out.size(), nullptr, e);
    });
    run.check(s.few.right(), "scores of an endpoint");
  }
  dpi_model* held = nullptr;
  run.call("endpoint_acquire", [&](dpi_error* e) { return dpi_endpoint_acquire(on, &held, e); });
  run.always([&] { dpi_model_free(held); });
  std::vector<char> text(1 << 16);
  run.size("endpoint_status_json", [&] { return dpi_endpoint_status_json(on, text.data(), text.size()); });
  run.call(
      "endpoint_load of no file",
      [&](dpi_error* e) { return dpi_endpoint_load(on, "/no/such/file/anywhere.h5", 0, e); }, DPI_E_NOT_FOUND,
      "/no/such/file");
  run.call("endpoint_rollback", [&](dpi_error* e) {
    return dpi_endpoint_version(on) == 1 ? DPI_OK : dpi_endpoint_rollback(on, e);
  });
  run.check(dpi_endpoint_version(on) == 1, "the version after a rollback");
  run.always([&] { dpi_endpoint_free(on); });
}

/// The texts of refusals need memory too.
void play_refusals(ServingStage& s, Run& run) {
  dpi_model* m = nullptr;
  run.call(
      "load of no file",
      [&](dpi_error* e) { return dpi_model_load("/no/such/file/anywhere.h5", s.options(), &m, e); },
      DPI_E_NOT_FOUND, "/no/such/file");
  std::ifstream in(s.path(), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const size_t half = bytes.size() / 2;
  run.call(
      "load of half a file",
      [&](dpi_error* e) { return dpi_model_load_memory(bytes.data(), half, s.options(), &m, e); },
      DPI_E_BAD_MODEL);
  bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 0x40);
  run.call(
      "load of a damaged file",
      [&](dpi_error* e) { return dpi_model_load_memory(bytes.data(), bytes.size(), s.options(), &m, e); },
      DPI_E_BAD_MODEL);
  m = s.load();
  const dpi_batch batch = s.few.batch;
  run.call(
      "predict without room",
      [&](dpi_error* e) { return dpi_predict(m, &batch, s.few.out.data(), 0, nullptr, e); },
      DPI_E_INVALID_ARGUMENT);
  dpi_batch wrong = batch;
  wrong.nnz += 1;
  run.call(
      "predict of a wrong batch",
      [&](dpi_error* e) { return dpi_predict(m, &wrong, s.few.out.data(), s.few.out.size(), nullptr, e); },
      DPI_E_INVALID_ARGUMENT);
  dpi_run_options late = DPI_RUN_OPTIONS_INIT;
  late.deadline_ns = 1;
  run.call(
      "predict too late",
      [&](dpi_error* e) { return dpi_predict(m, &batch, s.few.out.data(), s.few.out.size(), &late, e); },
      DPI_E_TIMEOUT);
  run.always([&] { dpi_model_free(m); });
}

/// Freeing a model that has something to say: calls waited for its only context.
void play_free_after_waits(ServingStage& s, Run& run) {
  dpi_model* const m = s.load();
  const int64_t rows = 20000;
  Request large;
  large.make(m, rows);
  const auto score = [&] {
    std::vector<float> out(large.out.size());
    need(dpi_predict(m, &large.batch, out.data(), out.size(), nullptr, nullptr) == DPI_OK, "a predict");
  };
  std::thread other(score);
  score();
  other.join();
  run.always([&] { dpi_model_free(m); });
}

/// The child of a fork has its environments, with a pool of its own.
void play_fork(ServingStage& s, Run& run) {
  s.set("threads", "2");
  dpi_model* const m = s.load();
  pid_t child = -1;
  run.always([&] { child = fork(); });
  if (child == 0) {
    disarm();
    dpi_model* own = nullptr;
    const bool forked =
        dpi_predict(m, &s.few.batch, s.few.out.data(), s.few.out.size(), nullptr, nullptr) == DPI_E_FORKED;
    const bool loads = dpi_model_load(s.path(), s.options(), &own, nullptr) == DPI_OK;
    _exit(forked && loads ? 0 : 1);
  }
  int status = 0;
  run.check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child of a fork");
  dpi_model_free(m);
}

void* hook_alloc(void* taken, size_t bytes, size_t alignment, int32_t) {
  if (fails(Source::kHook)) return nullptr;
  void* const block = std::aligned_alloc(
      alignment, (bytes + alignment - 1) / alignment * alignment);  // which may be told to fail as well
  if (block != nullptr) *static_cast<int64_t*>(taken) += 1;
  return block;
}

void hook_free(void* taken, void* block, size_t, int32_t) {
  *static_cast<int64_t*>(taken) -= 1;
  std::free(block);
}

/// Blocks from the host program's hooks, which may say no.
void play_hooks(ServingStage& s, Run& run) {
  int64_t taken = 0;
  dpi_memory_hooks hooks{};
  hooks.struct_size = sizeof hooks;
  hooks.alloc = hook_alloc;
  hooks.free = hook_free;
  hooks.user = &taken;
  run.call("env_set_memory", [&](dpi_error* e) { return dpi_env_set_memory(s.env(), &hooks, e); });
  dpi_model* const m = load(s, run, "load with hooks", s.path());
  if (m != nullptr) s.few.predict(run, m, "predict with hooks");
  run.always([&] { dpi_model_free(m); });
  run.check(taken == 0, "blocks of the hooks that stay");
}

}  // namespace

const std::vector<NamedAct>& main_acts() {
  static const std::vector<NamedAct> kActs = {{"load", stage_of<play_load>},
                                              {"first predicts", stage_of<play_predict>}};
  return kActs;
}

const std::vector<NamedAct>& further_acts() {
  static const std::vector<NamedAct> kActs = {{"load from memory", stage_of<play_load_memory>},
                                              {"load with golden rows", stage_of<play_load_golden>},
                                              {"load signed", stage_of<play_load_signed>},
                                              {"threads", stage_of<play_threads>},
                                              {"primitives", stage_of<play_primitives>},
                                              {"small batches", stage_of<play_small_batch>},
                                              {"options", stage_of<play_options>},
                                              {"environment", stage_of<play_env>},
                                              {"own context", stage_of<play_context>},
                                              {"warm-up", stage_of<play_warm_up, 2>},
                                              {"raw rows", stage_of<play_rows>},
                                              {"descriptions", stage_of<play_describe>},
                                              {"hot swap", stage_of<play_swap>},
                                              {"endpoint", stage_of<play_endpoint>},
                                              {"refusals", stage_of<play_refusals>},
                                              {"free after waits", stage_of<play_free_after_waits>},
                                              {"fork", stage_of<play_fork>},
                                              {"memory hooks", stage_of<play_hooks>}};
  return kActs;
}

int first_touch(const Cast& cast, const Injection& injection) {
  static const Device kNone;
  Run run(injection, kNone);
  arm(injection.fault);
  dpi_options* o = nullptr;
  run.size("options_create", [&] { return (o = dpi_options_create()) != nullptr; });
  run.call("device", [&](dpi_error* e) { return dpi_options_set(o, "device", cast.device.c_str(), e); });
  run.call("max_rows", [&](dpi_error* e) { return dpi_options_set(o, "max_rows", "16", e); });
  run.call("max_contexts", [&](dpi_error* e) { return dpi_options_set(o, "max_contexts", "1", e); });
  dpi_model* m = nullptr;
  const char* const path = cast.bundle.c_str();
  run.call("load", [&](dpi_error* e) { return dpi_model_load(path, o, &m, e); }, DPI_OK, path);
  if (m != nullptr) {
    Request rows;
    rows.make(m, 3);
    for (int i = 0; i < 3; ++i) {
      run.call("predict", [&](dpi_error* e) {
        return dpi_predict(m, &rows.batch, rows.out.data(), rows.out.size(), nullptr, e);
      });
      if (i == 0) rows.want = rows.out;
      run.check(rows.right(), "scores");
    }
  }
  run.always([&] { dpi_model_free(m); });
  run.always([&] { dpi_options_free(o); });
  disarm();
  if (run.faults().empty()) return 128 + run.status();
  std::printf("  WRONG first touch, %s:%s\n", injection.text().c_str(), run.faults().c_str());
  std::fflush(stdout);
  return 1;
}

}  // namespace dpi::test
