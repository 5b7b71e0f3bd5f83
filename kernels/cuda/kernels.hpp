// The kernels of the CUDA backend, one function per op: each starts its kernels on `stream` and gives the
// native code of the launches (0 = started). Called by sdk/src/backend/cuda, built twice: by nvcc for the GPU
// and by an ordinary compiler over kernels/emu for tests.
//
// Arguments are those of <dpi/kernels/*.hpp>. Pointers inside operands, tables and params are device memory;
// the arrays of operands, tables and lookup fields themselves are host memory and are read before the
// function returns. DenseAttrs::segments and ViewAttrs::indices are device memory.
#pragma once

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/concat.hpp>
#include <dpi/kernels/cross_v1.hpp>
#include <dpi/kernels/dense.hpp>
#include <dpi/kernels/elementwise.hpp>
#include <dpi/kernels/embed.hpp>
#include <dpi/kernels/fm.hpp>
#include <dpi/kernels/layer_norm.hpp>
#include <dpi/kernels/linear.hpp>
#include <dpi/kernels/mask.hpp>
#include <dpi/kernels/matmul.hpp>
#include <dpi/kernels/multi_lookup.hpp>
#include <dpi/kernels/recurrent.hpp>
#include <dpi/kernels/reduce.hpp>
#include <dpi/kernels/softmax.hpp>
#include <dpi/kernels/tail.hpp>
#include <dpi/kernels/unary.hpp>
#include <dpi/kernels/view.hpp>
#include <dpi/kernels/where.hpp>

#include "kernels/cuda/lookup/lookup.hpp"

namespace dpi::kernels::cuda {

using Stream = void*;  // cudaStream_t, or the emulation's stream

/// Branches of one Tail.
constexpr int kMaxTailInputs = 64;
/// Row-wise scratch of Recurrent, in floats.
constexpr int64_t recurrent_scratch_floats(int64_t rows, int64_t m) { return rows * 7 * m; }

/// 0 if the kernels can run on the calling thread's current device: a build may lack its architecture.
int probe();

int embed(const EmbedArgs& a, Stream stream);
int mask(const MaskArgs& a, Stream stream);
int linear(const LinearArgs& a, Stream stream);
int matmul(const MatMulArgs& a, Stream stream);
int binary(const BinaryArgs& a, Stream stream);
int unary(const UnaryArgs& a, Stream stream);
int layer_norm(const LayerNormArgs& a, Stream stream);
int softmax(const SoftmaxArgs& a, Stream stream);
int reduce(const ReduceArgs& a, Stream stream);
int concat(const ConcatArgs& a, Stream stream);
int view(const ViewArgs& a, Stream stream);
int recurrent(const RecurrentArgs& a, Stream stream);
int broadcast_rows(const BroadcastRowsArgs& a, Stream stream);
int multi_lookup(const MultiLookupArgs& a, Stream stream);  // with the choices of lookup.hpp: see there
int dense(const DenseArgs& a, Stream stream);
int elementwise(const ElementwiseArgs& a, Stream stream);
int cross_v1(const CrossV1Args& a, Stream stream);
int cross_v1_closed(const CrossV1ClosedArgs& a, Stream stream);
int fm(const FmArgs& a, Stream stream);
int tail(const TailArgs& a, Stream stream);
int where(const WhereArgs& a, Stream stream);

/// Adds to *count (device memory) the elements of a 16-bit value at the end of its type's range or infinite;
/// of other types none are.
int count_saturated(const Tensor& t, uint64_t* count, Stream stream);

}  // namespace dpi::kernels::cuda
