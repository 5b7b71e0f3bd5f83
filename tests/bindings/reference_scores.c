/* Scores a batch drawn from a seed through the C API and prints the bits, for the tests of the bindings: they
 * draw the same batch in their own language and compare. Another program and the C API alone, so nothing of a
 * binding is in it.
 *
 *   reference_scores BUNDLE ROWS SEED plain|bags|shared
 *
 * plain: one id per bag. bags: sequences have 0 to 4 ids, with offsets, and weights if a feature is weighted.
 * shared: the rows in three shared rows. One line per row: the scores' bits in hex. Draws: x = x *
 * 6364136223846793005 + 1442695040888963407 from the seed, value = x >> 33; in the order below, features in
 * schema order (id: value % vocab_size, and in a weighted bag its weight: (value % 100 + 1) / 64; float:
 * value % 2001 / 1000 - 1). */
#include <dpi/dpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FEATURES = 256 };

static uint64_t state;
static uint64_t draw(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

static dpi_feature_info features[MAX_FEATURES];
static dpi_model_info info;

typedef struct part {
  int64_t rows, nnz;
  int64_t *ids, *offsets;
  float *dense, *weights; /* one per id, 1 where the feature is not weighted */
  int weighted;
} part;

/* Draws the features that `wanted` names (-1 all, 0 item's, 1 shared): per row first the bags, then the
 * floats. */
static int fill(part* p, int64_t rows, int slots, int columns, int wanted, int bags) {
  p->rows = rows;
  p->ids = calloc((size_t)(rows * slots * 4 + 1), sizeof *p->ids);
  p->offsets = calloc((size_t)(rows * slots + 1), sizeof *p->offsets);
  p->dense = calloc((size_t)(rows * columns + 1), sizeof *p->dense);
  p->weights = calloc((size_t)(rows * slots * 4 + 1), sizeof *p->weights);
  if (p->ids == NULL || p->offsets == NULL || p->dense == NULL || p->weights == NULL) return 1;
  int64_t bag = 0, at = 0;
  for (int64_t r = 0; r < rows; r++) {
    for (int f = 0; f < info.num_features; f++) {
      const dpi_feature_info* i = &features[f];
      if (i->slot < 0 || (wanted >= 0 && i->shared != wanted)) continue;
      const uint64_t n = bags && i->kind == DPI_FEATURE_SEQUENCE ? draw() % 5 : 1;
      const int weighted = bags && i->weighted;
      p->weighted |= weighted;
      for (uint64_t k = 0; k < n; k++, p->nnz++) {
        p->ids[p->nnz] = (int64_t)(draw() % (uint64_t)i->vocab_size);
        p->weights[p->nnz] = weighted ? (float)(draw() % 100 + 1) / 64.0f : 1.0f;
      }
      p->offsets[++bag] = p->nnz;
    }
    for (int f = 0; f < info.num_features; f++) {
      const dpi_feature_info* i = &features[f];
      if (i->slot >= 0 || (wanted >= 0 && i->shared != wanted)) continue;
      for (int k = 0; k < i->dim; k++) p->dense[at++] = (float)(draw() % 2001) / 1000.0f - 1.0f;
    }
  }
  return 0;
}

static int score(dpi_model* model, int64_t rows, const char* mode, dpi_error* e) {
  const int bags = strcmp(mode, "plain") != 0, shared = strcmp(mode, "shared") == 0;
  part item, user;
  memset(&item, 0, sizeof item);
  memset(&user, 0, sizeof user);
  const int64_t starts[4] = {0, rows / 3, rows / 3, rows}; /* the second shared row has no item */
  dpi_batch b;
  memset(&b, 0, sizeof b);
  b.struct_size = sizeof b;
  if (shared && fill(&user, 3, info.num_shared_slots, info.shared_dense_dim, 1, 1)) return 1;
  if (fill(&item, rows, shared ? info.num_item_slots : info.num_slots,
           shared ? info.item_dense_dim : info.dense_dim, shared ? 0 : -1, bags)) {
    return 1;
  }
  b.rows = rows;
  b.ids = item.ids;
  b.nnz = item.nnz;
  b.dense = item.dense;
  b.offsets = bags ? item.offsets : NULL;
  b.weights = item.weighted ? item.weights : NULL;
  if (shared) {
    b.shared_rows = 3;
    b.shared_offsets = starts;
    b.shared_ids = user.ids;
    b.shared_nnz = user.nnz;
    b.shared_bag_offsets = user.offsets;
    b.shared_dense = user.dense;
    b.shared_weights = user.weighted ? user.weights : NULL;
  }
  const size_t n = (size_t)(rows * info.num_heads);
  float* out = calloc(n + 1, sizeof *out);
  if (out == NULL || dpi_predict(model, &b, out, n, NULL, e) != DPI_OK) return 1;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &out[i], sizeof bits);
    printf("%08x%c", bits, (i + 1) % (size_t)info.num_heads == 0 ? '\n' : ' ');
  }
  return 0; /* the process ends here and with it the memory */
}

int main(int argc, char** argv) {
  dpi_error e;
  memset(&e, 0, sizeof e);
  e.struct_size = sizeof e;
  dpi_model* model = NULL;
  if (argc != 5) return 2;
  info.struct_size = sizeof info;
  state = strtoull(argv[3], NULL, 10);
  dpi_options* options = dpi_options_create(); /* a lone operator may give NaN for drawn values */
  int bad = options == NULL || dpi_options_set(options, "nonfinite", "return", &e) != DPI_OK ||
            dpi_model_load(argv[1], options, &model, &e) != DPI_OK ||
            dpi_model_get_info(model, &info, &e) != DPI_OK || info.num_features > MAX_FEATURES;
  for (int f = 0; bad == 0 && f < info.num_features; f++) {
    features[f].struct_size = sizeof features[f];
    bad = dpi_model_get_feature(model, f, &features[f], &e) != DPI_OK;
  }
  if (bad == 0) bad = score(model, strtoll(argv[2], NULL, 10), argv[4], &e);
  if (bad != 0) fprintf(stderr, "%s\n", e.message);
  dpi_model_free(model);
  dpi_options_free(options);
  return bad;
}
