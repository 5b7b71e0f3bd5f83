#include "backend/cuda/layer/packer.hpp"

#include "backend/cuda/layer/device_layer.hpp"
#include "backend/cuda/layer/native_status.hpp"

namespace dpi::backend {

Status Packer::upload(const std::string& what, void** out) const {
  int code = layer::device_alloc(std::max<size_t>(bytes_.size(), 1), out);
  if (code == 0) code = layer::copy_now(*out, bytes_.data(), bytes_.size());
  return code == 0 ? ok_status() : native_status(code, what);
}

}  // namespace dpi::backend
