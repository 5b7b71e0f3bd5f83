// A backend of nothing: built several times with another TINY_FORM, for the plugin loader's tests. It runs no
// ops.
#include <cstring>

#include "backend/abi/dpi_backend.h"

#define TINY_EXPORT extern "C" __attribute__((visibility("default")))
#define TINY_VALID 0
#define TINY_NO_INIT 1
#define TINY_NO_SCORE 2
#define TINY_OLD_ABI 3
#define TINY_REFUSES_ABI 4
#define TINY_SCORE_ZERO 5
#define TINY_OTHER_NAME 6
#define TINY_SHORT_STRUCT 7
#define TINY_OPEN_FAILS 8
#define TINY_NO_LAYOUT 9
#define TINY_OTHER_LAYOUT 10  // compiled with a header in which two members changed places

namespace {

[[maybe_unused]] int32_t tiny_open(const dpi_backend_options*, dpi_backend_device** out,
                                   dpi_backend_error* err) {
  if (TINY_FORM == TINY_OPEN_FAILS) {
    err->native_code = 35;
    std::strcpy(err->message, "the driver is too old");
    return 8;  // DPI_E_NO_DEVICE
  }
  static char device;
  *out = reinterpret_cast<dpi_backend_device*>(&device);
  return 0;
}

[[maybe_unused]] void tiny_close(dpi_backend_device*) {}

}  // namespace

#if TINY_FORM != TINY_NO_LAYOUT
TINY_EXPORT const char* dpi_backend_layout_v1() { return DPI_BACKEND_LAYOUT; }
#endif

#if TINY_FORM != TINY_NO_INIT
TINY_EXPORT int32_t dpi_backend_init_v1(uint32_t, dpi_backend_api* out) {
  if (TINY_FORM == TINY_REFUSES_ABI) return 14;  // DPI_E_VERSION
  out->abi_version = TINY_FORM == TINY_OLD_ABI ? DPI_BACKEND_ABI + 1 : DPI_BACKEND_ABI;
  out->struct_size = TINY_FORM == TINY_SHORT_STRUCT ? 16 : sizeof(*out);
  out->name = TINY_FORM == TINY_OTHER_NAME ? "someone_else" : TINY_NAME;
  out->open = tiny_open;
  out->close = tiny_close;
  return 0;
}
#endif

#if TINY_FORM != TINY_NO_SCORE
TINY_EXPORT int32_t dpi_backend_score_v1(char* why, size_t cap) {
  if (TINY_FORM != TINY_SCORE_ZERO) return 10;
  std::strncpy(why, "no such accelerator here", cap - 1);
  return 0;
}
#endif
