// Ranges of addresses of the device layer, over CUDA's virtual memory management. Its functions are the
// driver's; the runtime finds them, so the plugin is linked with no driver.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "backend/cuda/layer/device_layer.hpp"

namespace dpi::backend::layer {
namespace {

constexpr unsigned kSince = 11000;  // all of them are as they were then

int told(cudaError_t code) {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  return code;
}

struct Driver {
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) access = nullptr;
  bool complete = false;
};

template <class F>
bool find(const char* name, F* out) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const int code =
      told(cudaGetDriverEntryPointByVersion(name, &function, kSince, cudaEnableDefault, &result));
  *out = reinterpret_cast<F>(function);
  return code == 0 && result == cudaDriverEntryPointSuccess && function != nullptr;
}

Driver open_driver() {
  Driver d;
  d.complete = find("cuDeviceGetAttribute", &d.attribute) &&
               find("cuMemGetAllocationGranularity", &d.granularity) &&
               find("cuMemAddressReserve", &d.reserve) && find("cuMemAddressFree", &d.free) &&
               find("cuMemCreate", &d.create) && find("cuMemRelease", &d.release) &&
               find("cuMemMap", &d.map) && find("cuMemUnmap", &d.unmap) && find("cuMemSetAccess", &d.access);
  return d;
}

const Driver& driver() {
  static const Driver kDriver = open_driver();
  return kDriver;
}

CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  return p;
}

CUdeviceptr address_of(void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace

bool can_reach(int device, int owner) {
  int yes = 0;
  return device == owner || (told(cudaDeviceCanAccessPeer(&yes, device, owner)) == 0 && yes != 0);
}

int piece_granularity(int device, size_t* bytes) {
  *bytes = 0;
  int supported = 0;
  if (!driver().complete) return 0;
  if (driver().attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) !=
          CUDA_SUCCESS ||
      supported == 0)
    return 0;
  const CUmemAllocationProp p = memory_of(device);
  return driver().granularity(bytes, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
}

int range_reserve(size_t bytes, void** out) {
  CUdeviceptr p = 0;
  const int code = driver().reserve(&p, bytes, 0, 0, 0);
  *out = code == 0 ? reinterpret_cast<void*>(p) : nullptr;
  return code;
}

int range_free(void* p, size_t bytes) { return driver().free(address_of(p), bytes); }

int piece_make(void* at, size_t bytes, int device) {
  const CUmemAllocationProp p = memory_of(device);
  CUmemGenericAllocationHandle handle{};
  if (const int code = driver().create(&handle, bytes, &p, 0); code != 0) return code;
  const int code = driver().map(address_of(at), bytes, 0, handle, 0);
  const int released = driver().release(handle);  // the memory stays as long as it is mapped
  return code != 0 ? code : released;
}

int piece_drop(void* at, size_t bytes) { return driver().unmap(address_of(at), bytes); }

int range_access(void* p, size_t bytes, const int* devices, int n) {
  std::vector<CUmemAccessDesc> all(static_cast<size_t>(n));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    all[i].location.id = devices[i];
    all[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  // One call for the whole range: every call takes room in the links' routing.
  return driver().access(address_of(p), bytes, all.data(), all.size());
}

}  // namespace dpi::backend::layer
