// The kernels of gpu_ceilings as C++ for the emulated device.
#include "tests/gpu/tools/ceilings.cu"
