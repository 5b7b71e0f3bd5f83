// What one thread of the soak does, over and over: each action ends the program when its outcome is not the
// promised one.
#pragma once

#include <deque>
#include <random>

#include "soak/subjects.hpp"

namespace dpi::soak {

using Random = std::minstd_rand;

/// Counts of one thread.
struct Done {
  uint64_t actions = 0, predictions = 0, loads = 0, swaps = 0, refusals = 0;
  void add(const Done& other);
};

/// One action on one of the subjects.
void act(std::deque<Subject>& subjects, Random* random, Done* done);

}  // namespace dpi::soak
