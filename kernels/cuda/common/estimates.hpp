// Every number that decides by speed, in one place, for the kernels and for the host code above them
// (sdk/src/backend/cuda). Where a comment says so it was measured on an H200, where it says "from" it is
// computed from that GPU's data sheet; all others are assumed. A wrong one costs time, never a result. A
// tuning table (sdk/src/backend/cuda/tuning/tuning.hpp) goes before these numbers; the commands named below,
// run on a machine with a GPU (tests/gpu/README.md), measure what a table or a better number here needs.
// Sizes of the GPU itself are not estimates: the device says them (DeviceSize).
#pragma once

#include <cstdint>

namespace dpi::kernels::cuda {

/// The size of a GPU, read when a device is opened. The default is the smallest possible.
struct DeviceSize {
  int32_t multiprocessors = 1;
  int32_t threads_per_multiprocessor = 2048;

  int64_t threads() const { return int64_t{multiprocessors} * threads_per_multiprocessor; }
};

namespace estimates {

// ---- fused lookup. Measured by: dpi_gpu_lookup (stage A5 of tests/gpu), which times every variant.

/// Blocks get smaller until each multiprocessor has this many.
constexpr int64_t kLookupBlocksPerMultiprocessor = 2;
/// A thread keeps 8 rows in flight instead of 4 once the batch fills the GPU this many times over with
/// threads that copy one vector each.
constexpr int64_t kLookupDeepCopyFills = 8;
/// Warps that sum rows or pool bags get one in this many of the threads that fill the GPU: their kernels need
/// more registers than a copy.
constexpr int64_t kLookupWarpShare = 2;
/// A bag of more positions than this is pooled by all groups of its warp together.
constexpr int32_t kLookupLongBag = 64;
/// An output of at most so many bytes is still in L2 when the next op reads it (an H200 has 50 MiB), so a
/// tuning table's streaming stores, measured without a next op, are not followed.
constexpr int64_t kLookupKeptBytes = int64_t{32} << 20;

// ---- Dense. Measured by: dpi_gpu_tune --gemm --out TABLE (stage A5), which times every implementation.

/// Layers with fewer inputs or outputs than this are not worth tensor cores.
constexpr int64_t kGemmTinyIn = 32;
constexpr int64_t kGemmTinyOut = 16;
/// From so many rows on the batch alone fills the GPU.
constexpr int64_t kGemmManyRows = 256;

// ---- the small-batch kernel, in microseconds unless said otherwise. Measured on an H200, phase by phase,
// for DeepFM and DCNv2 of the paper in nine shapes; the kernel has lost latency since, which these numbers do
// not know yet. The whole is measured by: gpu_bench with small_batch=on and off (stage B4 of tests/gpu).

/// Start, first copies, ids; the gather, and more for each item of 32 vectors of a warp.
constexpr double kSmallBatchStart = 3.1;
constexpr double kSmallBatchGather = 2.4;
constexpr double kSmallBatchItem = 0.65;
/// Barrier of a cluster.
constexpr double kSmallBatchBarrier = 0.9;
/// Rows of tasks that are not products, by one warp of a level: the first, whose code is cold, and each
/// other.
constexpr double kSmallBatchTask = 2.2;
constexpr double kSmallBatchNextTask = 0.5;
/// A round of products: whatever its size.
constexpr double kSmallBatchRound = 0.2;
/// One block of 16 x 32 x 16 products: after the one before it in a warp; among all of a multiprocessor's
/// with tensor cores; without, from: 128 multiply-adds a clock.
constexpr double kSmallBatchWarpBlock = 0.1;
constexpr double kSmallBatchTensorBlock = 0.025;
constexpr double kSmallBatchPlainBlock = 0.038;
/// From the start of a copy of weights to its end.
constexpr double kSmallBatchCopy = 0.5;
/// Epilogue: four columns of a thread, and a tile of columns on its way to one rank.
constexpr double kSmallBatchPass = 0.75;
constexpr double kSmallBatchTileToRank = 0.036;
/// A larger cluster is taken when it is estimated to need less than this share of the time.
constexpr double kSmallBatchClusterGain = 0.95;
/// One op of the plan run by itself, as a node of a graph: launch to launch. On an H200 a Dense layer of 400
/// inputs took 6.1, a tail 6.5, without the gap between them; the rest is assumed. More for a product without
/// tensor cores.
constexpr double kSmallBatchMicrosPerOp = 8.0;
constexpr double kSmallBatchMicrosPerPlain = 2.2;
/// Rows, at most: beyond, its clusters do not all run at once.
constexpr int64_t kSmallBatchMostRows = 256;
/// Does its start overlap the end of the kernel that fetches the input? Off: the gain is a guess.
constexpr bool kSmallBatchOverlap = false;

}  // namespace estimates
}  // namespace dpi::kernels::cuda
