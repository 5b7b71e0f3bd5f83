// One prepared op of the cpu backend: the owned description, the weights it packed and the implementation it
// chose.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "backend/cpu/weight_block.hpp"
#include "base/status.hpp"
#include "kernels/cpu/tables.hpp"
#include "ops/owned_op.hpp"

namespace dpi::backend {

struct CpuOp;
using CpuRun = void (*)(const CpuOp& op, const dpi_op_call& call);

/// Some columns of a product.
struct OpPart {
  int32_t index = 0, count = 1;
};
using CpuRunPart = void (*)(const CpuOp& op, const dpi_op_call& call, OpPart part);

struct CpuOp {
  OwnedOp op;
  const kernels::cpu::Functions* f = nullptr;
  CpuRun run = nullptr;
  CpuRunPart run_part = nullptr;  // null = whole only
  int32_t parts = 1;              // at most
  WeightBlock packed;  // Linear, Dense: the weight as `weights` reads it, group by group; of a Linear with
                       // `once` and of Recurrent gemm_pack of the weights, one behind the other
  kernels::cpu::GemmWeights weights;  // of `packed`; scratch comes with the call
  size_t packed_bytes = 0;
  int64_t (*scratch)(int64_t rows, int64_t k) = nullptr;  // of a product with narrow weights
  int64_t product_rows = 0, product_k = 0;                // of it: rows per row of a call, their width
  size_t scratch_per_call = 0;  // bytes that one call of `run` needs, whatever its rows
  std::string report;           // "chosen: ...; refused: ..."
};

/// Chooses the implementation and packs weights. `op` has passed check_op.
Status choose(CpuOp& op, kernels::cpu::Isa isa, kernels::cpu::Weights weights);

/// Bytes of scratch that a call of `rows` rows needs.
size_t scratch_bytes(const CpuOp& op, int64_t rows);

}  // namespace dpi::backend
