/* Opens the plugins for stores as the library does: stores FILE... Every symbol is bound, each names itself
   as its file does, refuses another number of the interface, and all are of one build of it. Their interface,
   dpi_store.h, is not installed: what is asked here is its first members, behind which lies room for the
   rest. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct api {
  uint32_t abi_version, struct_size;
  const char *name, *settings;
  char functions[1024];
};

static const char* open_store(const char* file, const char* layout) {
  static struct api api;
  void* plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) return fprintf(stderr, "%s\n", dlerror()), NULL;
  int32_t (*init)(uint32_t, struct api*) =
      (int32_t (*)(uint32_t, struct api*))dlsym(plugin, "dpi_store_init_v1");
  const char* (*of)(void) = (const char* (*)(void))dlsym(plugin, "dpi_store_layout_v1");
  if (init == NULL || of == NULL) return fprintf(stderr, "%s: %s\n", file, dlerror()), NULL;
  if (init(2, &api) == 0)
    return fprintf(stderr, "%s: another number of the interface is taken\n", file), NULL;
  if (init(1, &api) != 0 || api.abi_version != 1)
    return fprintf(stderr, "%s: its own number is refused\n", file), NULL;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "/libdpi_%s.so", api.name);
  const char* base = strrchr(file, '/');
  if (base == NULL || strcmp(base, wanted) != 0)
    return fprintf(stderr, "%s: calls itself %s\n", file, api.name), NULL;
  if (layout != NULL && strcmp(layout, of()) != 0)
    return fprintf(stderr, "%s: of another build, %s\n", file, of()), NULL;
  printf("%s %s: %s\n", api.name, of(), api.settings);
  return of();
}

int main(int count, char** files) {
  const char* layout = NULL;
  for (int i = 1; i < count; i++)
    if ((layout = open_store(files[i], layout)) == NULL) return 1;
  return layout == NULL;
}
