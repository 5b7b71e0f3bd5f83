// The acts of the injection test: every way through the C API that takes memory, reads or calls a device.
#pragma once

#include <string>
#include <vector>

#include "injection/sweep.hpp"

namespace dpi::test {

/// What an act is played with.
struct Cast {
  std::string device;
  std::string bundle;                                      // path
  std::string signed_bundle, public_key;                   // "" without libsodium
  std::vector<std::pair<std::string, std::string>> extra;  // further options
};

struct NamedAct {
  const char* name;
  MakeStage (*make)(const Cast& cast);
};

/// Loads and first predicts: for every bundle.
const std::vector<NamedAct>& main_acts();
/// Everything else: for one bundle per device.
const std::vector<NamedAct>& further_acts();

/// A process that has never called the library: loads and predicts once, with the fault from the first call
/// on. 128 + the status of the first call that failed (0 = none), or 1: what was wrong is printed.
int first_touch(const Cast& cast, const Injection& injection);

}  // namespace dpi::test
