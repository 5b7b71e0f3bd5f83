// The C API's handles with owners, an error with canaries around it, and an environment whose memory is
// bounded and counted.
#pragma once

#include <dpi/dpi.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "support/outcome.hpp"

namespace dpi::fuzz {

struct Free {
  void operator()(dpi_model* m) const { dpi_model_free(m); }
  void operator()(dpi_options* o) const { dpi_options_free(o); }
  void operator()(dpi_context* c) const { dpi_context_free(c); }
  void operator()(dpi_rows* r) const { dpi_rows_free(r); }
  void operator()(dpi_env* e) const { dpi_env_free(e); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

struct Error : dpi_error {
  Error() : dpi_error{} { struct_size = sizeof(dpi_error); }
};

/// What models of its environment may take in large blocks. Every block has to come back.
struct MemoryBudget {
  size_t most = 0, taken = 0;

  static void* alloc(void* user, size_t bytes, size_t alignment, int32_t kind) {
    auto* self = static_cast<MemoryBudget*>(user);
    expect(bytes > 0 && (alignment & (alignment - 1)) == 0,
           "a block of some bytes at a power of two is asked for");
    expect(kind >= DPI_BLOCK_TABLES && kind <= DPI_BLOCK_STAGING, "the block is of a known kind");
    if (bytes > self->most - self->taken) return nullptr;
    self->taken += bytes;
    const size_t step = alignment < sizeof(void*) ? sizeof(void*) : alignment;
    return std::aligned_alloc(step, (bytes + step - 1) / step * step);
  }
  static void free(void* user, void* block, size_t bytes, int32_t) {
    auto* self = static_cast<MemoryBudget*>(user);
    expect(bytes <= self->taken, "a block is given back once, with its size");
    self->taken -= bytes;
    std::free(block);
  }
};

/// A new environment over `budget`, which has to outlive every model of it.
Owned<dpi_env> make_env(MemoryBudget* budget);

/// Sets an option whose key and value are right.
void set(dpi_options* options, const char* key, const std::string& value);

dpi_model_info info_of(const dpi_model* model);
dpi_feature_info feature_of(const dpi_model* model, int32_t index);

/// The whole text of a *_json function: asks for its size first, and checks that both calls agree.
template <class Call>
std::string text_of(Call call) {
  const size_t bytes = call(nullptr, 0);
  expect(bytes > 0, "a text has a size");
  std::string text(bytes, '\x7f');
  expect(call(text.data(), text.size()) == bytes, "a text has the same size when asked again");
  expect(text.back() == '\0' && text.find('\0') == bytes - 1, "a text ends with its only NUL");
  text.pop_back();
  return text;
}

}  // namespace dpi::fuzz
