// Faults that ops of a watched call (option debug.timestamps) met and could not report by a status.
#pragma once

#include "ops/op_desc.h"

extern "C" {

// saturated: elements of 16-bit outputs at the end of their type's range, where what was finite and beyond it
// ends, or infinite. The caller sets it to 0 before.
struct dpi_call_faults {
  dpi_lookup_faults lookups;
  uint64_t saturated;
};

}  // extern "C"
