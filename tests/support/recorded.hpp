/// The recorded float64 vectors (op_vectors/record_ops.py) as OpCases, and the check that every test of this
/// folder is made of.
#pragma once

#include <string>
#include <vector>

#include "support/op_case.hpp"

namespace dpi::test {

/// All cases of one op, in the file's order. Throws when the files are missing or not what is expected.
std::vector<OpCase> recorded_cases(const std::string& op);

/// Runs every recorded case of `op` in every placement on the device of this program (device.hpp) and checks
/// it against float64. Each case is a doctest sub-case of its op's: `-sc=Linear,last_31x7_r33 --device=cpu`
/// runs one.
void check_recorded(const std::string& op);

/// Runs the cases in every placement and checks their outputs as check_recorded does.
void check_cases(std::vector<OpCase> cases);

/// Runs the cases on `ref` for their expected outputs, then on the device of this program in every placement.
/// Nothing to do on `ref` itself.
void check_cases_against_ref(std::vector<OpCase> cases);

/// Runs the cases whole and then each of their rows on its own: the bits of every output are the same. Inputs
/// are floats.
void check_rows_alone(std::vector<OpCase> cases);

/// The same as check_cases_against_ref for every recorded case of `op`, its rows repeated to 131.
void check_against_ref(const std::string& op);

}  // namespace dpi::test
