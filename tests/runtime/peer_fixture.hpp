// A model one of whose tables is large enough for a range over several emulated devices, and requests with
// the scores that a table in one memory gives.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/asked.hpp"
#include "runtime/emu_control.hpp"
#include "runtime/filed_bundle.hpp"
#include "runtime/shared_world.hpp"

namespace dpi::test {

inline constexpr int kDevices = 4;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
/// Rows of 64 bytes, with what rides in them: 18.3 MiB, so that 8 shares have a piece of 2 MiB each, and the
/// last piece is no whole unit.
inline constexpr int64_t kLarge = 300000;

struct Fixture {
  World world;
  WideDeep made{kLarge};
  FiledBundle bundle{made.b, 1};

  ModelPtr model(const Options& more) { return create(bundle, world.options(more)); }
};

inline bool says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

}  // namespace dpi::test
