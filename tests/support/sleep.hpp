// A pause of a test.
#pragma once

#include <chrono>
#include <thread>

namespace dpi::test {

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace dpi::test
