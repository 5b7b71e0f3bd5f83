// The unwinder that g++ 12 links into what is shipped calls _dl_find_object, which glibc has since 2.35: for
// that alone nothing would load on a system with 2.34. Here is the same by way of dl_iterate_phdr, hidden. It
// waits for the loader's lock, so it is slower; only a throw comes here, and no predict throws.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !DLFO_STRUCT_HAS_EH_DBASE && !DLFO_STRUCT_HAS_EH_COUNT

struct search {
  uintptr_t address;
  struct dl_find_object* result;
};

// The object's loaded segments from first to last, and its .eh_frame_hdr; 1 ends the iteration.
static int look_at(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct search* wanted = data;
  uintptr_t first = UINTPTR_MAX, last = 0, frame = 0;
  int inside = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
    if (segment->p_type == PT_GNU_EH_FRAME) frame = start;
    if (segment->p_type != PT_LOAD) continue;
    if (wanted->address >= start && wanted->address < end) inside = 1;
    if (start < first) first = start;
    if (end > last) last = end;
  }
  if (!inside) return 0;
  memset(wanted->result, 0, sizeof *wanted->result);
  wanted->result->dlfo_map_start = (void*)first;
  wanted->result->dlfo_map_end = (void*)last;
  wanted->result->dlfo_eh_frame = (void*)frame;
  return frame != 0 ? 1 : 2;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void* address, struct dl_find_object* result) {
  struct search wanted = {(uintptr_t)address, result};
  return dl_iterate_phdr(look_at, &wanted) == 1 ? 0 : -1;
}

#else  // an older glibc, whose unwinder asks for no such function; or a processor for which it tells more
typedef int dpi_nothing_here;
#endif
