/* Scores made-up rows of a bundle through the C API and prints the scores' bits; the Java tests build the
 * same rows and expect the same bits.
 *
 *   reference BUNDLE single|bags|shared ROWS     one line: rows x heads floats, as 8 hexadecimal digits each
 *
 * The numbers come from one generator, drawn in this order: for each part (shared first), row by row, the
 * dense values, then the slots: the bag's length (drawn for sequences in modes other than single), then each
 * id and, for a weighted feature, its weight.
 */
#include <dpi/dpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 4096, SHARED_ROWS = 3 };

static uint64_t state = 42;

static int64_t draw(int64_t below) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (int64_t)((state >> 33) % (uint64_t)below);
}

typedef struct part {
  int64_t rows, nnz;
  int32_t slots, columns;
  int64_t *ids, *offsets;
  float *dense, *weights;
  dpi_feature_info of_slot[MAX_SLOTS];
} part;

static void fill(part* p, int bags) {
  const int64_t room = p->rows * p->slots * 4 + 1;
  p->ids = calloc((size_t)room, sizeof *p->ids);
  p->weights = calloc((size_t)room, sizeof *p->weights);
  p->offsets = calloc((size_t)(p->rows * p->slots + 1), sizeof *p->offsets);
  p->dense = calloc((size_t)(p->rows * p->columns + 1), sizeof *p->dense);
  for (int64_t r = 0; r < p->rows; r++) {
    for (int32_t c = 0; c < p->columns; c++)
      p->dense[r * p->columns + c] = (float)(draw(2001) - 1000) / 256.0f;
    for (int32_t s = 0; s < p->slots; s++) {
      const dpi_feature_info* f = &p->of_slot[s];
      const int64_t length = bags && f->kind == DPI_FEATURE_SEQUENCE ? draw(4) : 1;
      for (int64_t i = 0; i < length; i++) {
        p->ids[p->nnz] = draw(f->vocab_size);
        p->weights[p->nnz] = bags && f->weighted ? (float)(1 + draw(100)) / 64.0f : 1.0f;
        p->nnz++;
      }
      p->offsets[r * p->slots + s + 1] = p->nnz;
    }
  }
}

/* Which feature each slot of the part holds; with `split` the parts' own slots. */
static int describe(const dpi_model* model, const dpi_model_info* info, int split, int shared, part* p) {
  dpi_error e = {sizeof e, 0, 0, 0, 0, 0, ""};
  p->slots = !split ? info->num_slots : shared ? info->num_shared_slots : info->num_item_slots;
  p->columns = !split ? info->dense_dim : shared ? info->shared_dense_dim : info->item_dense_dim;
  if (p->slots > MAX_SLOTS) return 1;
  for (int32_t i = 0; i < info->num_features; i++) {
    dpi_feature_info f = {sizeof f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (dpi_model_get_feature(model, i, &f, &e) != DPI_OK) return 1;
    const int32_t slot = split ? f.part_slot : f.slot;
    if (slot >= 0 && (!split || (f.shared != 0) == (shared != 0))) p->of_slot[slot] = f;
  }
  return 0;
}

static int score(dpi_model* model, const char* mode, int64_t rows) {
  static part item, shared;
  static int64_t shared_offsets[SHARED_ROWS + 1];
  dpi_error e = {sizeof e, 0, 0, 0, 0, 0, ""};
  dpi_model_info info = {0};
  const int bags = strcmp(mode, "single") != 0, split = strcmp(mode, "shared") == 0;
  info.struct_size = sizeof info;
  if (dpi_model_get_info(model, &info, &e) != DPI_OK) return 1;
  dpi_batch b;
  memset(&b, 0, sizeof b);
  b.struct_size = sizeof b;
  item.rows = rows;
  if (describe(model, &info, split, 0, &item) || describe(model, &info, split, 1, &shared)) return 1;
  if (split) {
    shared.rows = SHARED_ROWS;
    fill(&shared, bags);
    for (int s = 1; s <= SHARED_ROWS; s++) shared_offsets[s] = rows * s / SHARED_ROWS;
    b.shared_rows = SHARED_ROWS;
    b.shared_offsets = shared_offsets;
    b.shared_dense = shared.columns > 0 ? shared.dense : NULL;
    b.shared_ids = shared.ids;
    b.shared_bag_offsets = shared.offsets;
    b.shared_weights = shared.weights;
    b.shared_nnz = shared.nnz;
  }
  fill(&item, bags);
  b.rows = rows;
  b.dense = item.columns > 0 ? item.dense : NULL;
  b.ids = item.ids;
  b.offsets = bags ? item.offsets : NULL;
  b.weights = bags ? item.weights : NULL;
  b.nnz = item.nnz;
  const size_t count = (size_t)(rows * info.num_heads);
  float* out = calloc(count + 1, sizeof *out);
  if (dpi_predict(model, &b, out, count, NULL, &e) != DPI_OK) {
    fprintf(stderr, "%s\n", e.message);
    return 1;
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &out[i], sizeof bits);
    printf("%08x", (unsigned)bits);
  }
  putchar('\n');
  return 0;
}

int main(int argc, char** argv) {
  dpi_error e = {sizeof e, 0, 0, 0, 0, 0, ""};
  dpi_model* model = NULL;
  dpi_options* options = dpi_options_create();
  if (argc != 4) return 2;
  if (dpi_options_set(options, "device", "cpu", &e) != DPI_OK ||
      dpi_model_load(argv[1], options, &model, &e) != DPI_OK) {
    fprintf(stderr, "%s\n", e.message);
    return 1;
  }
  const int status = score(model, argv[2], atoll(argv[3]));
  dpi_model_free(model);
  dpi_options_free(options);
  return status;
}
