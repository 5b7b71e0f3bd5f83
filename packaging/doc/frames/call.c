/* The frame of the fragments in C: a loaded model, two rows for it, room for their scores. Fragments may leave by `goto done`. */
#include <dpi/dpi.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int use(dpi_model *m, const dpi_model_info *info, dpi_batch batch, float *scores, size_t n) {
  dpi_error e = DPI_ERROR_INIT;
  int status = 0;
  (void)m, (void)info, (void)batch, (void)scores, (void)n, (void)e;
  {
@@
  }
  return status;
}

int main(void) {
  dpi_error e = DPI_ERROR_INIT;
  dpi_model *m = NULL;
  dpi_model_info info = {0};
  dpi_batch batch = DPI_BATCH_INIT;
  int status = 1;
  info.struct_size = sizeof info;
  if (dpi_model_load("adult_widedeep.h5", NULL, &m, &e) != DPI_OK || dpi_model_get_info(m, &info, &e) != DPI_OK) {
    fprintf(stderr, "%s\n", e.message);
    return 1;
  }
  batch.rows = 2;
  batch.nnz = batch.rows * info.num_slots;
  int64_t *ids = calloc((size_t)batch.nnz, sizeof *ids);
  float *dense = calloc((size_t)(batch.rows * info.dense_dim), sizeof *dense);
  float *scores = calloc((size_t)(batch.rows * info.num_heads), sizeof *scores);
  batch.ids = ids;
  batch.dense = dense;
  status = use(m, &info, batch, scores, (size_t)(batch.rows * info.num_heads));
  free(ids), free(dense), free(scores);
  dpi_model_free(m);
  return status;
}
