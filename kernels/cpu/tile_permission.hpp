// The kernel's permission to use AMX tile registers. It is the process's, and is never given back: from then
// on the kernel refuses signal stacks (sigaltstack) that have no room for the registers, 8 KiB more than
// others. Thread-safe.
#pragma once

namespace dpi::kernels::cpu {

/// Does the processor have tile registers, with products of bf16 and int8? Asks for nothing.
bool processor_has_tiles();

/// Asks for the permission, once more where it was refused before. False = refused: tiles_refusal() says why.
bool ask_for_tiles();

/// Why the kernel lets this process use no tile registers; null = it does, or was not asked and offers them.
const char* tiles_refusal();

}  // namespace dpi::kernels::cpu
