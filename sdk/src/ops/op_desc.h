// One op as the engine describes it to a backend, and one call of it: plain C structs, part of the interface
// of backend/abi/dpi_backend.h. Ops carry the attribute structs of <dpi/kernels/*.hpp>; the order of inputs,
// outputs and params per kind is in table.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <dpi/kernels/op.hpp>
#include <dpi/kernels/tensor.hpp>

extern "C" {

// One value as an op sees it when it is prepared.
struct dpi_value_desc {
  dpi::kernels::Dims dims;
  int32_t is_bags;  // ids: dims unused
  int32_t is_constant;
  int64_t row_stride;  // elements between rows of this value in its buffer; 0 for constants; the same at
                       // every call
  dpi::kernels::DType dtype;  // kF32 unless the plan narrows activations (DPI_BACKEND_HALF)
};

struct dpi_table_desc {
  int64_t rows;
  int32_t dim;
  dpi::kernels::DType dtype;
};

// One op of the plan. attrs points to the op's attribute struct (EmbedAttrs, DenseAttrs ...); params are host
// memory. A backend that needs either after op_prepare returns copies it. Order of inputs, outputs and params
// per kind: table.cpp.
struct dpi_op_desc {
  uint32_t struct_size;
  dpi::kernels::OpKind kind;
  const char* name;
  const void* attrs;
  const dpi_value_desc* inputs;
  const dpi_value_desc* outputs;
  const dpi::kernels::Param* params;
  const dpi_table_desc* tables;
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t n_params;
  int32_t n_tables;
  int64_t max_rows;  // largest batch the op will see (sizes scratch)
};

// Reads that a lookup refused, because an id lies outside its table or offsets fall. The engine has checked
// every id before; so anything here means that memory was overwritten. The caller sets count to 0 and first
// to all ones before.
struct dpi_lookup_faults {
  uint64_t count;
  uint64_t first;  // smallest row << 20 | operand
};

// One execution of a prepared op. All pointers are the backend's own memory; scratch has op_scratch_bytes(op)
// bytes and is not shared with any op that may run at the same time.
struct dpi_op_call {
  int64_t rows;
  const dpi::kernels::Operand* inputs;
  dpi::kernels::Tensor* outputs;
  const dpi::kernels::TableView* tables;
  const int32_t* row_map;  // item row -> shared row, for BroadcastRows and `shared`; null = identity
  void* scratch;
  dpi_lookup_faults* faults;  // the start of a dpi_call_faults in backend memory, or null: not counted
  // 1: an enqueue of this op took this call before, and since then only counts of rows and addresses (none of
  // them null) changed, so what depends on neither need not be looked at again.
  int32_t checked;
  int32_t reserved;  // 0
};

}  // extern "C"
