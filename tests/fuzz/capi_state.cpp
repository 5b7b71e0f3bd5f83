#include "fuzz/capi_state.hpp"

#include <cstddef>
#include <cstring>

namespace dpi::fuzz {
namespace {

constexpr uint32_t kSizes[] = {sizeof(dpi_error), 0, 8, 39, 40, 41, 200, 4096, 4097, UINT32_MAX};

/// What may be written, by dpi_error's comment.
size_t writable(uint32_t struct_size) {
  return struct_size == 0 || struct_size > 4096 ? DPI_ERROR_1_0_SIZE : struct_size;
}

}  // namespace

SizedError::SizedError(Input* in) {
  const uint8_t how = in->u8();
  if (how == 255) return;  // null
  const uint32_t size = how < 200 ? sizeof(dpi_error) : kSizes[how % std::size(kSizes)];
  size_ = writable(size);
  memory_ = std::make_unique<unsigned char[]>(size_);
  std::memcpy(memory_.get(), &size, sizeof size);
  error_ = reinterpret_cast<dpi_error*>(memory_.get());
}

void SizedError::check(dpi_status status) const {
  expect_documented(status);
  if (error_ == nullptr || size_ < 48) return;
  Error whole;
  std::memcpy(static_cast<dpi_error*>(&whole), error_, size_ < sizeof whole ? size_ : sizeof whole);
  whole.message[sizeof whole.message - 1] = '\0';
  if (size_ >= sizeof whole) return expect_documented(status, whole);
  const size_t room = size_ - offsetof(dpi_error, message);
  expect(std::memchr(whole.message, '\0', room) != nullptr, "a text that is cut ends with NUL");
  expect(status == DPI_OK || whole.code == status, "a short error has the code");
}

uint32_t odd_struct_size(Input* in, uint32_t right) {
  const uint8_t how = in->u8();
  if (how < 230) return right;
  constexpr uint32_t kOdd[] = {0, 4, 16, 8192, UINT32_MAX};
  return kOdd[how % std::size(kOdd)];
}

bool State::drop(ModelSlot* slot) {
  if (slot->model == nullptr) return false;
  dpi_model_free(slot->model);
  if (--slot->references == 0) slot->model = nullptr;
  return true;
}

State::~State() {
  for (ModelSlot& m : models) {
    while (drop(&m)) {
    }
  }
  for (dpi_rows* r : rows) dpi_rows_free(r);
  for (dpi_context* c : contexts) dpi_context_free(c);
  for (dpi_options* o : options) dpi_options_free(o);
  for (dpi_env* e : envs) dpi_env_free(e);
}

}  // namespace dpi::fuzz
