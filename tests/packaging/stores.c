/* Opens plugins as the library does: stores KIND FILE... with the KIND store or stream. Every symbol is
   bound, each names itself as its file does, refuses another number of the interface, and all are of one
   build of it. Their interface, dpi_store.h or dpi_stream.h, is not installed: what is asked here is its
   first members, behind which lies room for the rest. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct api {
  uint32_t abi_version, struct_size;
  const char* name;
  char functions[1024];
};

static const char* open_plugin(const char* kind, const char* file, const char* layout) {
  static struct api api;
  char init_name[64], layout_name[64];
  snprintf(init_name, sizeof init_name, "dpi_%s_init_v1", kind);
  snprintf(layout_name, sizeof layout_name, "dpi_%s_layout_v1", kind);
  void* plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) return fprintf(stderr, "%s\n", dlerror()), NULL;
  int32_t (*init)(uint32_t, struct api*) = (int32_t (*)(uint32_t, struct api*))dlsym(plugin, init_name);
  const char* (*of)(void) = (const char* (*)(void))dlsym(plugin, layout_name);
  if (init == NULL || of == NULL) return fprintf(stderr, "%s: %s\n", file, dlerror()), NULL;
  const uint32_t own = (uint32_t)strtoul(of(), NULL, 10); /* its layout begins with its number */
  if (init(own + 1, &api) == 0)
    return fprintf(stderr, "%s: another number of the interface is taken\n", file), NULL;
  if (own == 0 || init(own, &api) != 0 || api.abi_version != own)
    return fprintf(stderr, "%s: its own number is refused\n", file), NULL;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "/libdpi_%s.so", api.name);
  const char* base = strrchr(file, '/');
  if (base == NULL || strcmp(base, wanted) != 0)
    return fprintf(stderr, "%s: calls itself %s\n", file, api.name), NULL;
  if (layout != NULL && strcmp(layout, of()) != 0)
    return fprintf(stderr, "%s: of another build, %s\n", file, of()), NULL;
  printf("%s %s\n", api.name, of());
  return of();
}

int main(int count, char** files) {
  const char* layout = NULL;
  for (int i = 2; i < count; i++)
    if ((layout = open_plugin(files[1], files[i], layout)) == NULL) return 1;
  return layout == NULL;
}
