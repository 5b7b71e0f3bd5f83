/* A service as it was written against <dpi/dpi.h> 1.0, in C99 and by that header alone: every kind of call
 * and every struct once. Compiled with that header and kept as a binary, it must go on running over every
 * later libdpi.so.1.
 *
 *   old_program BUNDLE        (a bundle without shared features)
 */
#include <dpi/dpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 3

static int g_messages = 0;
static int g_stages = 0;

/* A struct as callers are told to make one: zeros, and its size. */
#define FRESH(type, name)        \
  type name;                     \
  memset(&name, 0, sizeof name); \
  name.struct_size = sizeof name

#define NEED(what)                                                      \
  do {                                                                  \
    if (!(what)) {                                                      \
      printf("old_program.c:%d: %s: %s\n", __LINE__, #what, e.message); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

static void hear(void* user, int32_t level, const char* component, const char* message) {
  (void)user;
  if (level >= DPI_LOG_DEBUG && component[0] != '\0' && message[0] != '\0') g_messages++;
}

static void follow(void* user, const char* stage, uint64_t done, uint64_t total) {
  (void)user;
  if (stage[0] != '\0' && done <= total) g_stages++;
}

static dpi_model* load(const char* path, dpi_env* env, const volatile int32_t* cancel) {
  FRESH(dpi_error, e);
  dpi_model* model = NULL;
  dpi_options* options = dpi_options_create();
  NEED(options != NULL);
  NEED(dpi_options_set(options, "device", "cpu", &e) == DPI_OK);
  NEED(dpi_options_set(options, "threads", "2", &e) == DPI_OK);
  NEED(dpi_options_set(options, "no_such_option", "x", &e) == DPI_E_NOT_FOUND && e.message[0] != '\0');
  NEED(dpi_options_set_env(options, env, &e) == DPI_OK);
  NEED(dpi_options_set_progress(options, follow, NULL, cancel, &e) == DPI_OK);
  NEED(dpi_model_load(path, options, &model, &e) == DPI_OK);
  dpi_options_free(options);
  return model;
}

static void score(dpi_model* model, const dpi_model_info* info) {
  FRESH(dpi_error, e);
  const size_t n_ids = (size_t)ROWS * (size_t)info->num_slots,
               n_floats = (size_t)ROWS * (size_t)info->dense_dim;
  const size_t n_out = (size_t)ROWS * (size_t)info->num_heads;
  int64_t* ids = calloc(n_ids + 1, sizeof *ids);
  float* dense = calloc(n_floats + 1, sizeof *dense);
  float *scores = calloc(n_out, sizeof *scores), *again = calloc(n_out, sizeof *again);
  uint64_t version = 0;
  FRESH(dpi_batch, b);
  FRESH(dpi_run_options, run);
  dpi_context* context = NULL;
  FRESH(dpi_context_view, view);
  NEED(ids != NULL && dense != NULL && scores != NULL && again != NULL);
  b.rows = ROWS;
  b.ids = ids;
  b.nnz = (int64_t)n_ids;
  b.dense = dense;
  run.version = &version;
  NEED(dpi_predict(model, &b, scores, n_out, &run, &e) == DPI_OK && version >= 1);
  NEED(scores[0] > 0.0f && scores[0] < 1.0f);
  NEED(dpi_predict(model, &b, scores, n_out - 1, NULL, &e) == DPI_E_INVALID_ARGUMENT && e.message[0] != '\0');
  NEED(dpi_predict_flat(model, ROWS, dense, n_floats, 0, ids, n_ids, NULL, 0, NULL, 0, DPI_LAYOUT_ROW_MAJOR,
                        again, n_out, 0, NULL, &e) == DPI_OK);
  NEED(memcmp(scores, again, n_out * sizeof *scores) == 0);
  NEED(dpi_context_create(model, ROWS, 0, &context, &e) == DPI_OK);
  NEED(dpi_context_get_view(context, &view, &e) == DPI_OK && view.max_rows == ROWS);
  memset(view.ids, 0, n_ids * sizeof *ids);
  memset(view.dense, 0, n_floats * sizeof *dense);
  NEED(dpi_context_predict(context, ROWS, -1, 0, NULL, &e) == DPI_OK);
  NEED(memcmp(scores, view.out, n_out * sizeof *scores) == 0);
  NEED(dpi_context_predict_batch(context, &b, again, n_out, NULL, &e) == DPI_OK);
  dpi_context_free(context);
  free(ids);
  free(dense);
  free(scores);
  free(again);
}

static void score_rows(dpi_model* model, const dpi_model_info* info) {
  FRESH(dpi_error, e);
  dpi_rows* rows = NULL;
  FRESH(dpi_batch, b);
  float score = -1.0f;
  int32_t f;
  NEED(dpi_rows_create(model, &rows, &e) == DPI_OK);
  NEED(dpi_rows_begin(rows, &e) == DPI_OK);
  for (f = 0; f < info->num_features; f++) {
    FRESH(dpi_feature_info, feature);
    NEED(dpi_model_get_feature(model, f, &feature, &e) == DPI_OK);
    NEED(dpi_model_feature_index(model, dpi_model_feature_name(model, f)) == f);
    if (feature.has_encoder) NEED(dpi_rows_set_number(rows, f, 1.0, &e) == DPI_OK);
  }
  NEED(dpi_rows_get_batch(rows, &b, &e) == DPI_OK && b.rows == 1 && dpi_rows_count(rows) == 1);
  NEED(dpi_rows_predict(rows, &score, 1, NULL, &e) == DPI_OK && score > 0.0f && score < 1.0f);
  dpi_rows_free(rows);
}

int main(int argc, char** argv) {
  FRESH(dpi_error, e);
  dpi_env* env = NULL;
  dpi_model* model;
  FRESH(dpi_model_info, info);
  const volatile int32_t cancel = 0;
  char text[4096];
  if (argc != 2) return 2;
  NEED(dpi_version() / 10000 == DPI_VERSION_MAJOR && dpi_version() >= DPI_VERSION_NUMBER);
  NEED(dpi_env_create(&env, &e) == DPI_OK);
  NEED(dpi_env_set(env, "threads", "2", &e) == DPI_OK);
  NEED(dpi_env_set_log(env, hear, NULL, DPI_LOG_DEBUG, &e) == DPI_OK);
  model = load(argv[1], env, &cancel);
  NEED(g_messages > 0 && g_stages > 0);
  NEED(dpi_env_poll_log(env, text, sizeof text, NULL) > 1 && text[0] != '\0');
  NEED(dpi_env_set_log(env, NULL, NULL, DPI_LOG_WARN, &e) == DPI_OK);
  dpi_env_free(env);
  NEED(dpi_model_warm_up(model, ROWS, &e) == DPI_OK);
  NEED(dpi_model_get_info(model, &info, &e) == DPI_OK && info.num_heads == 1 &&
       info.device_kind == DPI_DEVICE_CPU);
  NEED(dpi_model_head_name(model, 0) != NULL);
  NEED(dpi_model_schema_json(model, NULL, 0) > 2 && dpi_model_info_json(model, NULL, 0) > 2);
  score(model, &info);
  score_rows(model, &info);
  NEED(dpi_model_counters_json(model, text, sizeof text) > 2 && strstr(text, "\"calls\":") != NULL);
  dpi_model_free(model);
  printf("a program of %d.%d over a library of %u\n", DPI_VERSION_MAJOR, DPI_VERSION_MINOR,
         (unsigned)dpi_version());
  return 0;
}
