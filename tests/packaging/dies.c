/* A service that dies within a call of the library: in its own callback, while a model is loaded. */
#include <dpi/dpi.h>
#include <stdlib.h>

static void die(void* user, const char* stage, uint64_t done, uint64_t total) {
  (void)user;
  (void)stage;
  (void)done;
  (void)total;
  abort();
}

int main(int argc, char** argv) {
  dpi_options* options = dpi_options_create();
  dpi_model* model = NULL;
  if (argc != 2 || options == NULL) return 2;
  if (dpi_options_set_progress(options, die, NULL, NULL, NULL) != DPI_OK) return 3;
  return (int)dpi_model_load(argv[1], options, &model, NULL);
}
