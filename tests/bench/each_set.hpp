// Every instruction set that this processor runs.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "kernels/cpu/tables.hpp"

namespace dpi::test {

/// Calls body(functions) for each.
template <class Body>
void for_each_set(Body&& body) {
  namespace cpu = kernels::cpu;
  for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::Isa::kAvx2, cpu::Isa::kAvx512, cpu::Isa::kNeon}) {
    if (!cpu::isa_supported(isa)) continue;
    CAPTURE(std::string(cpu::isa_name(isa)));
    body(cpu::functions(isa));
  }
}

}  // namespace dpi::test
