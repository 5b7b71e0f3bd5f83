// Checks on this machine the sizes from which threads share calls: estimates come from counts of operations
// (host_flights.hpp), which do not include the cost of waking a thread.
#pragma once

#include "base/status.hpp"
#include "runtime/execute/context.hpp"

namespace dpi {

/// Times calls of some of the batch's rows alone and shared out, in turns, and tells the engine the smallest
/// sizes that gain by it; scores do not depend on them. Takes 60 ms at most and a turn more, which is
/// four calls. What it finds
/// while others call is not believed. out: a score per row and head.
Status check_sharing(const Engine& engine, Context& context, const Batch& batch, float* out);

}  // namespace dpi
