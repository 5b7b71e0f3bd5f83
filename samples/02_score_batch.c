/* The smallest program: load a bundle, score two rows of ids and floats, print the scores.
 *
 *   score_batch weights/demo/adult_widedeep.h5
 */
#include <dpi/dpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  dpi_error e = {sizeof e, 0, 0, 0, 0, 0, ""};
  dpi_model_info info = {0};
  dpi_model* model = NULL;
  info.struct_size = sizeof info;
  if (argc != 2) return 1;
  if (dpi_model_load(argv[1], NULL, &model, &e) != DPI_OK || dpi_model_get_info(model, &info, &e) != DPI_OK) {
    fprintf(stderr, "%s\n", e.message);
    return 1;
  }
  dpi_batch batch = {0};
  batch.struct_size = sizeof batch;
  batch.rows = 2;
  batch.nnz = batch.rows * info.num_slots;
  int64_t* ids = calloc((size_t)batch.nnz + 1, sizeof *ids); /* [rows, slots], all 0 here */
  float* dense = calloc((size_t)(batch.rows * info.dense_dim) + 1, sizeof *dense); /* [rows, dense columns] */
  float* score = calloc((size_t)(batch.rows * info.num_heads), sizeof *score);     /* [rows, heads] */
  batch.ids = ids;
  batch.dense = dense;
  const dpi_status s = dpi_predict(model, &batch, score, (size_t)(batch.rows * info.num_heads), NULL, &e);
  for (int64_t r = 0; s == DPI_OK && r < batch.rows; r++) {
    printf("row %lld: %s = %.6f\n", (long long)r, dpi_model_head_name(model, 0),
           (double)score[r * info.num_heads]);
  }
  if (s != DPI_OK) fprintf(stderr, "%s: %s\n", dpi_status_name(s), e.message);
  free(ids);
  free(dense);
  free(score);
  dpi_model_free(model);
  return s == DPI_OK ? 0 : 1;
}
