/// Runs one OpCase on a backend through dpi_backend_api, in memory that shows every stray read and write:
/// outputs, paddings between rows and scratch start as NaN, each buffer lies between guard bands.
#pragma once

#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"
#include "support/op_case.hpp"

namespace dpi::test {

/// How the operands lie in memory.
struct Placement {
  const char* name = "plain";
  int64_t row_padding = 0;    // floats after each row of outputs; not 0: after an input's row some more
  size_t base_offset = 0;     // bytes off the backend's alignment, a multiple of 4
  int32_t alias_input = -1;   // this input shares its memory with output 0
  bool dense_inputs = false;  // row_padding is for outputs only
};

/// Plain, padded rows on an unaligned base, padded outputs alone, and in place where the op's header allows
/// it and the shapes do.
std::vector<Placement> placements_of(const OpCase& c);

/// The outputs without padding; an absent one is empty. Fails when the backend refuses, or when the run wrote
/// where it must not.
Result<std::vector<std::vector<float>>> run_case(const dpi_backend_api& api, dpi_backend_device* device,
                                                 const OpCase& c, const Placement& placement);

}  // namespace dpi::test
