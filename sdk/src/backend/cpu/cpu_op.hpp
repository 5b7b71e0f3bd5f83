// One prepared op of the cpu backend: the owned description, the weights it packed and the implementation it
// chose.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"
#include "kernels/cpu/tables.hpp"
#include "ops/owned_op.hpp"

namespace dpi::backend {

/// Floats at a 64-byte boundary.
struct FreeAligned {
  void operator()(float* p) const;
};
using AlignedFloats = std::unique_ptr<float[], FreeAligned>;
AlignedFloats make_aligned(int64_t n);

struct CpuOp;
using CpuRun = void (*)(const CpuOp& op, const dpi_op_call& call);

struct CpuOp {
  OwnedOp op;
  const kernels::cpu::Functions* f = nullptr;
  CpuRun run = nullptr;
  AlignedFloats packed;  // Linear, Dense, Recurrent: gemm_pack of the weights, one behind the other
  size_t packed_bytes = 0;
  size_t scratch_per_call = 0;  // bytes that one call of `run` needs, whatever its rows
  std::string report;           // "chosen: ...; refused: ..."
};

/// Chooses the implementation and packs weights. `op` has passed check_op.
Status choose(CpuOp& op, kernels::cpu::Isa isa);

}  // namespace dpi::backend
