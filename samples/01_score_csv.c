/* Scores the rows of a raw CSV file, the way a service would score requests: raw values go in by feature
 * name, the bundle's own encoders turn them into ids and floats.
 *
 *   score_csv weights/demo/adult_widedeep.h5 weights/demo/adult_test.csv > scores.csv
 *
 * Plain CSV only: UTF-8, commas, no quotes. Columns that are no feature are ignored, but one must be; bags
 * are written a|b|c. One line per row: the heads' scores.
 */
#include <dpi/dpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 1024, MAX_LINE = 1 << 16, ROWS_PER_CALL = 256 };

static int fail(const dpi_error* e) {
  fprintf(stderr, "%s: %s\n", dpi_status_name(e->code), e->message);
  return 1;
}

/* Cuts `line` at commas, in place. Returns the number of cells. */
static int split(char* line, char** cells) {
  int n = 0;
  line[strcspn(line, "\r\n")] = '\0';
  for (char* at = line; n < MAX_COLUMNS; at++) {
    cells[n++] = at;
    at = strchr(at, ',');
    if (at == NULL) break;
    *at = '\0';
  }
  return n;
}

/* One cell into the open row; `a|b|c` appends each element of a sequence. */
static dpi_status set_cell(dpi_rows* rows, int32_t feature, int32_t kind, char* cell, dpi_error* e) {
  if (kind != DPI_FEATURE_SEQUENCE) return dpi_rows_set_text(rows, feature, cell, -1, e);
  for (char* at = cell; *at != '\0';) {
    const size_t len = strcspn(at, "|");
    const dpi_status s = dpi_rows_set_text(rows, feature, at, (int64_t)len, e);
    if (s != DPI_OK) return s;
    at += len + (at[len] == '|');
  }
  return DPI_OK;
}

/* Scores and prints what has been collected. */
static dpi_status flush_rows(dpi_rows* rows, int32_t heads, float* out, size_t out_len, dpi_error* e) {
  const int64_t n = dpi_rows_count(rows);
  if (n == 0) return DPI_OK;
  const dpi_status s = dpi_rows_predict(rows, out, out_len, NULL, e);
  if (s != DPI_OK) return s;
  for (int64_t r = 0; r < n; r++) {
    for (int32_t h = 0; h < heads; h++) printf("%s%.9g", h > 0 ? "," : "", (double)out[r * heads + h]);
    putchar('\n');
  }
  dpi_rows_clear(rows);
  return DPI_OK;
}

static int score(dpi_model* model, FILE* csv) {
  static char line[MAX_LINE];
  char* cells[MAX_COLUMNS];
  int32_t feature[MAX_COLUMNS], kind[MAX_COLUMNS];
  dpi_error e = {sizeof e, 0, 0, 0, 0, 0, ""};
  dpi_model_info info = {0};
  dpi_rows* rows = NULL;
  info.struct_size = sizeof info;
  if (dpi_model_get_info(model, &info, &e) != DPI_OK || dpi_rows_create(model, &rows, &e) != DPI_OK)
    return fail(&e);
  const size_t out_len = (size_t)ROWS_PER_CALL * (size_t)info.num_heads;
  float* out = malloc(out_len * sizeof *out);
  int status = out == NULL || fgets(line, sizeof line, csv) == NULL;
  const int bom = status == 0 && strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
  const int columns = status == 0 ? split(line + bom, cells) : 0;
  int known = 0;
  for (int c = 0; c < columns; c++) {
    dpi_feature_info f = {sizeof f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    feature[c] = dpi_model_feature_index(model, cells[c]);
    kind[c] = feature[c] >= 0 && dpi_model_get_feature(model, feature[c], &f, &e) == DPI_OK ? f.kind : -1;
    known += kind[c] >= 0;
  }
  if (known == 0) {
    fputs(
        "the header names no feature of the model: expected UTF-8 text with commas, not ';', tabs, UTF-16 or "
        "gzip\n",
        stderr);
    status = 1;
  }
  for (int row = 2; status == 0 && fgets(line, sizeof line, csv) != NULL; row++) {
    if (split(line, cells) != columns) {
      fprintf(stderr, "line %d: the header has %d cells, this line another number\n", row, columns);
      status = 1;
      break;
    }
    if (dpi_rows_begin(rows, &e) != DPI_OK) status = fail(&e);
    for (int c = 0; c < columns && status == 0; c++) {
      if (kind[c] >= 0 && set_cell(rows, feature[c], kind[c], cells[c], &e) != DPI_OK) status = fail(&e);
    }
    if (status == 0 && dpi_rows_count(rows) == ROWS_PER_CALL &&
        flush_rows(rows, info.num_heads, out, out_len, &e) != DPI_OK) {
      status = fail(&e);
    }
  }
  if (status == 0 && flush_rows(rows, info.num_heads, out, out_len, &e) != DPI_OK) status = fail(&e);
  free(out);
  dpi_rows_free(rows);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s BUNDLE CSV\n", argv[0]);
    return 1;
  }
  dpi_error e = {sizeof e, 0, 0, 0, 0, 0, ""};
  dpi_model* model = NULL;
  dpi_options* options = dpi_options_create();
  const char* device = getenv("DPI_DEVICE"); /* cpu, cuda, auto or ref */
  if (device != NULL && dpi_options_set(options, "device", device, &e) != DPI_OK) return fail(&e);
  if (dpi_model_load(argv[1], options, &model, &e) != DPI_OK) return fail(&e);
  dpi_options_free(options);
  FILE* csv = fopen(argv[2], "r");
  if (csv == NULL) {
    perror(argv[2]);
    return 1;
  }
  const int status = score(model, csv);
  fclose(csv);
  dpi_model_free(model);
  return status;
}
