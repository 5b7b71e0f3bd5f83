// A whole model for a tile of 16 rows in one kernel: see small_batch/program.hpp. One launch per call of a
// small batch: no value between the ops goes to memory, and the scores are written where the caller reads
// them.
#include "kernels/cuda/small_batch/launch.hpp"

#include "kernels/cuda/small_batch/gather.hpp"
#include "kernels/cuda/small_batch/product.hpp"
#include "kernels/cuda/small_batch/tasks.hpp"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <cstdlib>

#include "kernels/emu/device_emu.hpp"
#endif

namespace dpi::kernels::cuda::small_batch {
namespace {

constexpr int kSmallCapacity = 64;

/// Everything that changes from call to call, as kernel arguments: nothing is copied before a launch.
template <int kCapacity>
struct alignas(16) KernelArgs {
  Input inputs[kCapacity];
  TableView tables[kCapacity];
  Output outputs[kMaxOutputs];
  const char* programs;
  const char* weights;
  int64_t rows;
  int32_t program_bytes;
  int32_t shared_bytes;
  int32_t ranks;
  int32_t n_inputs;
  int32_t n_tables;
  int32_t zero_at;
  int32_t zero_bytes;
  int32_t views_at;
  int32_t outputs_at;
};
static_assert(sizeof(KernelArgs<kMaxInputs>) <= 32764, "kernel arguments have 32764 bytes");

using Vector = Pack<float, 4>;

/// Starts the copy of the program: a group of copies older than those of weights.
__device__ void start_program(const ThreadInfo& p, const char* from, int32_t bytes) {
  DPI_UNROLL_BY(4)
  for (int32_t i = p.thread; i < bytes / 16; i += p.threads)
    copy16_async(shared_at<Vector>(p, 0) + i, from + int64_t{i} * 16, 16);
  end_copy_group();
}

__device__ void clear(const ThreadInfo& p, int32_t at, int32_t bytes) {
  DPI_UNROLL_BY(4)
  for (int32_t i = p.thread; i < bytes / 16; i += p.threads) shared_at<Vector>(p, at)[i] = {};
}

/// Views of the call's arguments, in shared memory.
struct CallViews {
  const Input* inputs;
  const TableView* tables;
};

/// Inputs, tables and outputs of the call on their way to shared memory. As arguments they are constants, of
/// which a warp waits for one line after another, out of L2 at the start of a kernel; here all are read at
/// once, as memory.
class ViewCopy {
 public:
  template <class Args>
  __device__ ViewCopy(const ThreadInfo& p, const Args& a)
      : from_{as_memory(a.inputs), as_memory(a.tables), as_memory(a.outputs)},
        to_{a.views_at, a.views_at + staged_bytes(a.n_inputs, 0), a.outputs_at},
        first_{0, staged_bytes(a.n_inputs, 0) / 16, staged_bytes(a.n_inputs, a.n_tables) / 16},
        n_(first_[2] + kMaxOutputs * static_cast<int32_t>(sizeof(Output)) / 16) {
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      const int32_t i = p.thread + k * p.threads;
      if (i < n_) words_[k] = *source(i);
    }
  }

  __device__ void finish(const ThreadInfo& p) const {
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      const int32_t i = p.thread + k * p.threads;
      if (i < n_) *target(p, i) = words_[k];
    }
    for (int32_t i = p.thread + kTogether * p.threads; i < n_; i += p.threads) *target(p, i) = *source(i);
  }

  __device__ CallViews views(const ThreadInfo& p) const {
    return {shared_at<Input>(p, to_[0]), shared_at<TableView>(p, to_[1])};
  }

 private:
  static constexpr int kTogether = 2;

  /// Hides where the pointer is from, so that what it points to is not read as a constant.
  static __device__ const Word4* as_memory(const void* argument) {
#ifdef __CUDACC__
    asm volatile("" : "+l"(argument));
#endif
    return static_cast<const Word4*>(argument);
  }

  __device__ const Word4* source(int32_t i) const {
    return i >= first_[2]   ? from_[2] + (i - first_[2])
           : i >= first_[1] ? from_[1] + (i - first_[1])
                            : from_[0] + i;
  }
  __device__ Word4* target(const ThreadInfo& p, int32_t i) const {
    return i >= first_[2] ? shared_at<Word4>(p, to_[2]) + (i - first_[2]) : shared_at<Word4>(p, to_[0]) + i;
  }

  const Word4* from_[3];
  int32_t to_[3];
  int32_t first_[3];
  int32_t n_;
  Word4 words_[kTogether];
};
static_assert(sizeof(Input) % 16 == 0 && sizeof(TableView) % 16 == 0 && sizeof(Output) % 16 == 0);

template <Mode kMode>
__device__ void run_level(const ThreadInfo& p, const Header& h, const Level& level,
                          WeightStream<kMode>* weights, const Output* outputs) {
  using Element = typename Math<kMode>::Element;
  run_tasks<Element>(p, level, outputs);
  for (int32_t i = 0; i < level.n_rounds; ++i) {
    const Round round = shared_at<Round>(p, level.rounds_at)[i];
    if (i > 0) __syncthreads();  // until finish_round has read the patches, they must not be overwritten
    multiply_unit(p, h, shared_at<Unit>(p, round.units_at)[p.warp], weights);
    __syncthreads();
    finish_round<Element>(p, h, round, outputs);
  }
}

template <class Args>
__device__ ThreadInfo place_of(const Args& a, char* shared) {
  ThreadInfo p;
  p.rank = a.ranks > 1 ? cluster_rank() : 0;
  p.ranks = a.ranks;
  p.rank_bytes = a.shared_bytes;
  p.thread = static_cast<int32_t>(threadIdx.x);
  p.threads = static_cast<int32_t>(blockDim.x);
  p.warp = p.thread / kWarp;
  p.warps = p.threads / kWarp;
  p.lane = p.thread % kWarp;
  p.first_row = int64_t{cluster_tile(a.ranks)} * kTileRows;
  p.rows = static_cast<int32_t>(a.rows - p.first_row < kTileRows ? a.rows - p.first_row : kTileRows);
#ifdef __CUDACC__
  p.shared = shared;
#else
  p.shared = shared + int64_t{p.rank} * a.shared_bytes;
#endif
  return p;
}

/// grid: tiles x ranks blocks of 32 * warps threads; clusters of `ranks` blocks.
template <Mode kMode, int kCapacity>
__global__ void __launch_bounds__(kMaxWarps* kWarp, 1)
    small_batch_kernel(const __grid_constant__ KernelArgs<kCapacity> a) {
  using Element = typename Math<kMode>::Element;
  DPI_SHARED_DYNAMIC(char, shared, a.shared_bytes* a.ranks);
  const ThreadInfo p = place_of(a, shared);
  const char* program = a.programs + int64_t{p.rank} * a.program_bytes;
  // All reads are started before the first is waited for.
  start_program(p, program, a.program_bytes);
  const StreamStart stream = stream_start(p, *reinterpret_cast<const Header*>(program));
  const ViewCopy copy(p, a);
  clear(p, a.zero_at, a.zero_bytes);
  WeightStream<kMode> weights(p, stream, a.weights);
  copy.finish(p);
  const CallViews views = copy.views(p);
  weights.wait_for_older();
  __syncthreads();
  const Header& h = *shared_at<Header>(p, 0);
  wait_for_predecessor();  // nothing before this reads what another kernel wrote
  stage_words(p, h, views);
  cluster_sync(p);  // every rank has started and cleared its memory: from here on others may write to it
  gather<Element>(p, h, views);
  for (int32_t l = 0; l < h.n_levels; ++l) {
    cluster_sync(p);  // also the last one: nobody leaves while others write to its memory
    run_level<kMode>(p, h, shared_at<Level>(p, h.levels_at)[l], &weights, shared_at<Output>(p, a.outputs_at));
  }
}

template <int kCapacity>
void fill(const Shape& shape, const Call& call, KernelArgs<kCapacity>* a) {
  for (int32_t i = 0; i < shape.n_inputs; ++i) a->inputs[i] = call.inputs[i];
  for (int32_t i = 0; i < shape.n_tables; ++i) a->tables[i] = call.tables[i];
  for (int32_t i = 0; i < call.n_outputs; ++i) a->outputs[i] = call.outputs[i];
  a->programs = call.programs;
  a->weights = call.weights;
  a->rows = call.rows;
  a->program_bytes = shape.program_bytes;
  a->shared_bytes = shape.shared_bytes;
  a->ranks = shape.ranks;
  a->n_inputs = shape.n_inputs;
  a->n_tables = shape.n_tables;
  a->zero_at = shape.zero_at;
  a->zero_bytes = shape.zero_bytes;
  a->views_at = shape.views_at;
  a->outputs_at = shape.outputs_at;
}

/// Calls f with the kernel of the shape.
template <int kCapacity, class F>
int with_mode(const Shape& shape, const F& f) {
  switch (shape.mode) {
    case Mode::kTf32:
      return f(small_batch_kernel<Mode::kTf32, kCapacity>);
    case Mode::kF16:
      return f(small_batch_kernel<Mode::kF16, kCapacity>);
    case Mode::kBf16:
      return f(small_batch_kernel<Mode::kBf16, kCapacity>);
    case Mode::kF32Split:
      return f(small_batch_kernel<Mode::kF32Split, kCapacity>);
    default:
      return f(small_batch_kernel<Mode::kF32, kCapacity>);
  }
}

bool is_small(const Shape& shape) {
  return shape.n_inputs <= kSmallCapacity && shape.n_tables <= kSmallCapacity;
}

#ifdef __CUDACC__

/// A launch of `blocks` blocks; `attributes` has room for two.
cudaLaunchConfig_t launch_config(const Shape& shape, unsigned blocks, cudaLaunchAttribute* attributes) {
  cudaLaunchConfig_t c = {};
  c.gridDim = dim3(blocks);
  c.blockDim = dim3(static_cast<unsigned>(shape.warps * kWarp));
  c.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  c.attrs = attributes;
  if (shape.ranks > 1) {
    attributes[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[c.numAttrs].val.clusterDim = {static_cast<unsigned>(shape.ranks), 1, 1};
    ++c.numAttrs;
  }
  if (shape.overlap) {
    attributes[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[c.numAttrs].val.programmaticStreamSerializationAllowed = 1;
    ++c.numAttrs;
  }
  return c;
}

template <class Kernel>
int allow_kernel(Kernel kernel, const Shape& shape, int32_t* clusters) {
  Limits limits;
  int n = 0;
  auto code = static_cast<cudaError_t>(limits_of_device(&limits));
  // The most there is: another model that runs the same kernel may ask for less.
  if (code == cudaSuccess)
    code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limits.shared_bytes);
  if (code == cudaSuccess && shape.ranks > 1) {
    cudaLaunchAttribute attributes[2];
    const cudaLaunchConfig_t c = launch_config(shape, static_cast<unsigned>(shape.ranks), attributes);
    code = cudaOccupancyMaxActiveClusters(&n, kernel, &c);
  } else if (code == cudaSuccess) {
    code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, shape.warps * kWarp,
                                                         static_cast<size_t>(shape.shared_bytes));
    n *= limits.processors;
  }
  *clusters = n;
  return told(static_cast<int>(code));
}

template <int kCapacity>
int start_kernel(const Shape& shape, const Call& call, unsigned tiles, Stream stream) {
  KernelArgs<kCapacity> a = {};
  fill(shape, call, &a);
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t c = launch_config(shape, tiles * static_cast<unsigned>(shape.ranks), attributes);
  c.stream = static_cast<cudaStream_t>(stream);
  return with_mode<kCapacity>(
      shape, [&](auto kernel) { return told(static_cast<int>(cudaLaunchKernelEx(&c, kernel, a))); });
}

#else

template <class Kernel>
int allow_kernel(Kernel, const Shape& shape, int32_t* clusters) {
  *clusters = emu::properties().multiprocessors / shape.ranks;
  return 0;
}

template <int kCapacity>
int start_kernel(const Shape& shape, const Call& call, unsigned tiles, Stream stream) {
  KernelArgs<kCapacity> a = {};
  fill(shape, call, &a);
  const dim3 block(static_cast<unsigned>(shape.warps * kWarp), static_cast<unsigned>(shape.ranks));
  return with_mode<kCapacity>(shape,
                              [&](auto kernel) { return launch(kernel, dim3(tiles), block, stream, a); });
}

#endif

}  // namespace

#ifdef __CUDACC__

int limits_of_device(Limits* out) {
  int device = 0;
  int shared = 0;
  int processors = 0;
  int clusters = 0;
  cudaFuncAttributes kernel{};
  cudaError_t code = cudaGetDevice(&device);
  const auto ask = [&](int* value, cudaDeviceAttr what) {
    if (code == cudaSuccess) code = cudaDeviceGetAttribute(value, what, device);
  };
  ask(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  ask(&processors, cudaDevAttrMultiProcessorCount);
  ask(&clusters, cudaDevAttrClusterLaunch);
  if (code == cudaSuccess)
    code = cudaFuncGetAttributes(&kernel, small_batch_kernel<Mode::kF32, kSmallCapacity>);
  *out = {};
  out->shared_bytes = shared;
  out->processors = processors;
  // Code of an older architecture, made for this GPU by the driver, knows no clusters.
  out->max_ranks = clusters != 0 && kernel.ptxVersion >= 90 ? kMaxRanks : 1;
  return told(static_cast<int>(code));
}

#else

/// The emulated device's limits, but with few warps, because each emulated thread costs time. DPI_EMU_RANKS
/// and DPI_EMU_WARPS in the environment: the cluster size to use, the warps of a block.
int limits_of_device(Limits* out) {
  *out = {};
  const emu::Properties device = emu::properties();
  const char* ranks = std::getenv("DPI_EMU_RANKS");
  const char* warps = std::getenv("DPI_EMU_WARPS");
  out->shared_bytes = device.shared_bytes;
  out->processors = device.multiprocessors;
  out->max_ranks = kMaxRanks;
  out->warps = warps != nullptr ? std::atoi(warps) : 4;
  out->ranks = ranks != nullptr ? std::atoi(ranks) : 0;
  return 0;
}

#endif

bool has_fetch_in_place() {
#ifdef DPI_MEASURE
  return true;
#else
  return false;
#endif
}

int allow(const Shape& shape, int32_t* clusters) {
  const auto ask = [&](auto kernel) { return allow_kernel(kernel, shape, clusters); };
  return is_small(shape) ? with_mode<kSmallCapacity>(shape, ask) : with_mode<kMaxInputs>(shape, ask);
}

int start(const Shape& shape, const Call& call, Stream stream) {
  if (call.rows <= 0) return 0;
  const unsigned tiles = blocks_for(call.rows, kTileRows, 0x7fffffff);
  return is_small(shape) ? start_kernel<kSmallCapacity>(shape, call, tiles, stream)
                         : start_kernel<kMaxInputs>(shape, call, tiles, stream);
}

}  // namespace dpi::kernels::cuda::small_batch
