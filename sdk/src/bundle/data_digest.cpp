#include "bundle/data_digest.hpp"

#include <xxhash.h>

#include <new>

namespace dpi {

namespace {

XXH3_state_t* state_of(void* state) { return static_cast<XXH3_state_t*>(state); }

constexpr DataDigest::Form kPlain = {
    .create = []() -> void* {
      XXH3_state_t* const state = XXH3_createState();
      if (state != nullptr) XXH3_64bits_reset(state);
      return state;
    },
    .free = [](void* state) { XXH3_freeState(state_of(state)); },
    .add = [](void* state, const void* bytes,
              size_t count) { XXH3_64bits_update(state_of(state), bytes, count); },
    .value = [](const void* state) -> uint64_t {
      return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state));
    },
};

}  // namespace

const DataDigest::Form& DataDigest::plain() { return kPlain; }

DataDigest::DataDigest(const Form* form)
    : form_(form != nullptr     ? *form
            : avx2() != nullptr ? *avx2()
                                : kPlain),
      state_(form_.create(), form_.free) {
  if (state_ == nullptr) throw std::bad_alloc();
}

}  // namespace dpi
