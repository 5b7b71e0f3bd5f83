#include "backend/cuda/layer/native_status.hpp"

#include "backend/cuda/layer/device_layer.hpp"

namespace dpi::backend {

Status native_status(int code, const std::string& what) {
  const Code kind = layer::is_out_of_memory(code) ? Code::kOutOfMemory : Code::kDevice;
  return Status(kind, what + ": " + layer::error_text(code)).native(code);
}

}  // namespace dpi::backend
