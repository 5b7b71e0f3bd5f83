// The handles of one sequence of C API calls, and what is known about them: how many references a model has,
// how many rows are begun. A call gets any handle of a slot, or null; none that was freed, since that is
// undefined.
#pragma once

#include <dpi/dpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "fuzz/input.hpp"
#include "support/handles.hpp"

namespace dpi::fuzz {

/// An error of any struct_size in an allocation of exactly what the header says may be written.
class SizedError {
 public:
  explicit SizedError(Input* in);
  dpi_error* get() { return error_; }
  /// The documented outcomes, for sizes that hold code and text.
  void check(dpi_status status) const;

 private:
  std::unique_ptr<unsigned char[]> memory_;
  dpi_error* error_ = nullptr;
  size_t size_ = 0;
};

struct ModelSlot {
  dpi_model* model = nullptr;
  int references = 0;
};

struct State {
  static constexpr size_t kSlots = 3;
  Input* in = nullptr;
  MemoryBudget* budget = nullptr;
  std::array<dpi_env*, 2> envs{};
  std::array<dpi_options*, kSlots> options{};
  std::array<ModelSlot, kSlots> models{};
  std::array<dpi_context*, kSlots> contexts{};
  std::array<dpi_model*, kSlots> context_models{};  // the model of each, kept alive by it
  std::array<dpi_rows*, kSlots> rows{};
  std::array<dpi_model*, kSlots> rows_models{};

  ~State();
  template <class Slots>
  auto& slot(Slots& slots) {
    return slots[in->below(slots.size())];
  }
  /// A model, or null.
  dpi_model* model() { return slot(models).model; }
  bool drop(ModelSlot* slot);
};

/// One call each, or a few that belong together.
void call_environment(State& s);
void call_options(State& s);
void call_load(State& s);
void call_model(State& s);
void call_predict(State& s);
void call_context(State& s);
void call_rows(State& s);
void call_library(State& s);

/// A struct_size that may be wrong, and the memory for it.
uint32_t odd_struct_size(Input* in, uint32_t right);

}  // namespace dpi::fuzz
