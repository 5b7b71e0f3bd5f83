// XXH3 from its header, compiled for AVX2 function by function: the file itself is for any processor, so that
// nothing else that it instantiates can be linked in place of the same function elsewhere.
#include "bundle/data_digest.hpp"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define XXH_INLINE_ALL
#define XXH_VECTOR 2  // XXH_AVX2
#include <xxhash.h>
static_assert(XXH_VECTOR == XXH_AVX2);

namespace dpi {

namespace {

void* create() {
  XXH3_state_t* const state = XXH3_createState();
  if (state != nullptr) XXH3_64bits_reset(state);
  return state;
}
void free_state(void* state) { XXH3_freeState(static_cast<XXH3_state_t*>(state)); }
void add(void* state, const void* bytes, size_t count) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, count);
}
uint64_t value(const void* state) { return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state)); }

constexpr DataDigest::Form kAvx2 = {create, free_state, add, value};

}  // namespace

}  // namespace dpi

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace dpi {

const DataDigest::Form* DataDigest::avx2() { return __builtin_cpu_supports("avx2") ? &kAvx2 : nullptr; }

}  // namespace dpi

#else

namespace dpi {
const DataDigest::Form* DataDigest::avx2() { return nullptr; }
}  // namespace dpi

#endif
