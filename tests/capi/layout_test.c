/* The released layout of every public struct, in C99: what compiled callers rely on. A size may grow only
 * with a new minor version. */
#include <dpi/dpi.h>
#include <stdio.h>

#define CHECK_AT(type, member, offset)                                                                 \
  do {                                                                                                 \
    if (offsetof(type, member) != (offset)) {                                                          \
      printf(#type "." #member " is at %zu, released at %d\n", offsetof(type, member), (int)(offset)); \
      faults++;                                                                                        \
    }                                                                                                  \
  } while (0)
#define CHECK_SIZE(type, size)                                                         \
  do {                                                                                 \
    if (sizeof(type) != (size)) {                                                      \
      printf("sizeof(" #type ") is %zu, released as %d\n", sizeof(type), (int)(size)); \
      faults++;                                                                        \
    }                                                                                  \
  } while (0)

int main(void) {
  int faults = 0;
  CHECK_SIZE(dpi_error, 512);
  CHECK_AT(dpi_error, code, 4);
  CHECK_AT(dpi_error, row, 8);
  CHECK_AT(dpi_error, feature, 16);
  CHECK_AT(dpi_error, native_code, 24);
  CHECK_AT(dpi_error, in_shared, 28);
  CHECK_AT(dpi_error, message, 32);
  CHECK_SIZE(dpi_model_info, 88);
  CHECK_AT(dpi_model_info, num_heads, 32);
  CHECK_AT(dpi_model_info, max_rows, 48);
  CHECK_AT(dpi_model_info, content_digest, 72);
  CHECK_AT(dpi_model_info, version, 80);
  CHECK_SIZE(dpi_feature_info, 56);
  CHECK_AT(dpi_feature_info, vocab_size, 32);
  CHECK_AT(dpi_feature_info, weighted, 52);
  CHECK_SIZE(dpi_batch, 136);
  CHECK_AT(dpi_batch, rows, 8);
  CHECK_AT(dpi_batch, dense, 16);
  CHECK_AT(dpi_batch, dense_stride, 24);
  CHECK_AT(dpi_batch, ids, 32);
  CHECK_AT(dpi_batch, offsets, 40);
  CHECK_AT(dpi_batch, weights, 48);
  CHECK_AT(dpi_batch, nnz, 56);
  CHECK_AT(dpi_batch, layout, 64);
  CHECK_AT(dpi_batch, memory, 68);
  CHECK_AT(dpi_batch, shared_rows, 72);
  CHECK_AT(dpi_batch, shared_offsets, 80);
  CHECK_AT(dpi_batch, shared_nnz, 128);
  CHECK_SIZE(dpi_memory_hooks, 32);
  CHECK_AT(dpi_memory_hooks, alloc, 8);
  CHECK_AT(dpi_memory_hooks, free, 16);
  CHECK_AT(dpi_memory_hooks, user, 24);
  CHECK_SIZE(dpi_run_options, 48);
  CHECK_AT(dpi_run_options, deadline_ns, 8);
  CHECK_AT(dpi_run_options, cancel, 16);
  CHECK_AT(dpi_run_options, logits, 24);
  CHECK_AT(dpi_run_options, logits_len, 32);
  CHECK_AT(dpi_run_options, version, 40);
  CHECK_SIZE(dpi_context_view, 64);
  CHECK_AT(dpi_context_view, dense, 24);
  CHECK_AT(dpi_context_view, out, 56);
  if (DPI_BATCH_1_0_SIZE != sizeof(dpi_batch) || DPI_ERROR_1_0_SIZE != sizeof(dpi_error)) faults++;
  if (DPI_E_INTERNAL != 15 || DPI_LAYOUT_SLOT_MAJOR != 1 || DPI_FEATURE_DENSE != 3 || DPI_LOG_OFF != 4)
    faults++;
  if (dpi_version() != DPI_VERSION_NUMBER) faults++;
  printf("%d layout faults\n", faults);
  return faults == 0 ? 0 : 1;
}
