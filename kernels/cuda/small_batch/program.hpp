// The program of the small-batch kernel: gather, every Dense layer and the op Tail of a model in one kernel.
// Made on the host by sdk/src/backend/cuda/small_batch when a model is loaded, read by the kernel of
// small_batch/launch.cu.
//
// A tile of 16 rows belongs to a cluster of 1, 2, 4 or 8 blocks ("ranks"). All values of the tile live in
// shared memory, a full copy in every rank: who computes a column stores it into all copies. A program is a
// list of levels; what one level writes the next may read, a cluster barrier lies between them.
//
//   gather    every rank looks up the rows of its own inputs. Their ids are staged before, each read once;
//             so are numbers, where inputs are read in place, across the bus
//   products  Dense: the tiles of 32 output columns are divided among the ranks, a tile's depth among the
//             warps of its rank; each warp reads its weights as one stream, in the order it needs them
//   tasks     all else, row by row: rank r does the rows r, r + ranks, ...
//
// Each rank has a program of its own (one block of bytes, copied to shared memory at the start). Offsets
// named `*_at` count bytes from the start of the program, or of the rank's shared memory, where it says so;
// -1 = absent.
#pragma once

#include <cstdint>

#include <dpi/kernels/elementwise.hpp>
#include <dpi/kernels/multi_lookup.hpp>

namespace dpi::kernels::cuda::small_batch {

constexpr int kTileRows = 16;     // of a tile
constexpr int kTileColumns = 32;  // of a product's tile
constexpr int kBlockDepth = 16;   // of a block of weights
constexpr int kPatchPitch = 36;   // floats between rows of a warp's patch of sums
constexpr int kPatchBytes = kTileRows * kPatchPitch * 4;
constexpr int kMaxRanks = 8;
constexpr int kMaxWarps = 16;
constexpr int kMaxOutputs = 16;
constexpr int kMaxInputs = 224;  // inputs, and tables, of one launch

/// Staged words of a row, at most, of a program whose launches read inputs in place.
constexpr int kMaxInPlaceColumns = 256;

/// Precision of products: operands are rounded to it, sums are float32.
enum class Mode : int32_t { kF32 = 0, kTf32 = 1, kF16 = 2, kBf16 = 3, kF32Split = 4 };

/// Bytes of one block of 32 columns x 16 of the depth in the stream of weights, and in shared memory, where
/// the rows of tensor-core tiles are 16 bytes apart to spread them over the banks.
constexpr int element_bytes(Mode m) { return m == Mode::kF16 || m == Mode::kBf16 ? 2 : 4; }
constexpr int block_bytes(Mode m) { return kTileColumns * kBlockDepth * element_bytes(m); }
constexpr int stage_bytes(Mode m) {
  return m == Mode::kF32 ? block_bytes(m) : block_bytes(m) + kTileColumns * 16;
}

/// A range of columns of a value in shared memory: its float32 image, its image in the product's 16-bit type,
/// or both. Offsets count from the start of shared memory and include the first column.
struct View {
  int32_t wide_at = -1;
  int32_t narrow_at = -1;
  int32_t wide_pitch = 0;  // elements between rows
  int32_t narrow_pitch = 0;
};

/// One field, scalar table, or tensor that the gather fetches: `width` columns of each row.
struct Record {
  View dst;
  int32_t input = 0;    // of the launch
  int32_t table = -1;   // of the launch; -1: the input's floats
  int32_t staged = -1;  // one id per row, or numbers: its first row of staged words; -1: read from the input
  int32_t width = 0;
  int32_t vec_at = -1;  // floats: one value times this vector of `width`; program
  int32_t pooling = 0;
  int32_t mask = 0;
  int32_t pad_id = 0;
  int32_t max_len = 0;
  float eps = 0;
  float empty = 0;
};

/// A column of an input of which 16 words are staged: ids or floats.
struct StagedColumn {
  int32_t input = 0;   // of the launch
  int32_t column = 0;  // of the input
  int32_t rank = 0;    // that needs them
  int32_t at = 0;      // that rank's shared memory
};

/// 32 vectors of four columns of a record, one per lane: vector first + lane of row-major
/// [16][ceil(width/4)].
struct Item {
  int32_t record_at = 0;
  int32_t first = 0;
};

struct Segment {
  UnaryAttrs act;
  int32_t end = 0;
};

struct Dense {
  View mul;
  View add;
  View dst;
  int32_t n = 0;
  int32_t padded = 0;  // columns n .. padded - 1 of dst become 0
  int32_t bias_at = -1;
  int32_t p0_at = -1;
  int32_t p1_at = -1;
  int32_t p2_at = -1;
  int32_t segments_at = 0;
  int32_t n_segments = 0;
  int32_t output = -1;  // of the launch
};

/// The work of one warp in a product: 32 columns x `blocks` blocks of the depth.
struct Unit {
  int32_t x_at = -1;  // shared memory; -1: nothing in this round
  int32_t pitch = 0;
  int32_t blocks = 0;
};

/// 32 columns whose sums lie in the patches first_patch .. + slices - 1, to be added in this order.
struct Tile {
  int32_t dense_at = 0;
  int32_t column = 0;
  int32_t first_patch = 0;
  int32_t slices = 0;
};

struct Round {
  int32_t units_at = 0;  // one per warp
  int32_t tiles_at = 0;
  int32_t n_tiles = 0;
};

enum class TaskKind : int32_t {
  kChannels = 0,
  kElementwise = 1,
  kFm = 2,
  kCrossV1Closed = 3,
  kTail = 4,
  kCopy = 5
};

struct Task {
  TaskKind kind = TaskKind::kCopy;
  int32_t op_at = 0;
};

struct Level {
  int32_t rounds_at = 0;
  int32_t n_rounds = 0;
  int32_t tasks_at = 0;
  int32_t n_tasks = 0;
};

/// Channels of a lookup from what the gather left: scalar rows, numerics, the vectors of FM fields.
struct Scalar {
  View x;
  int32_t first_channel = 0;
  int32_t count = 0;
};
struct Numeric {
  View x;
  int32_t coef_at = 0;  // lin[n_channels]
};
/// `count` vectors of FM, each `apart` columns after the one before. Float32 images only.
struct FmRun {
  View x;
  int32_t count = 0;
  int32_t apart = 0;
  int32_t vec_at = -1;  // numerics: x are their values, to be multiplied with these vectors [count][fm_dim]
};
struct Channels {
  View dst;
  int32_t n_channels = 0;
  int32_t bias_at = -1;
  int32_t scalars_at = 0;
  int32_t n_scalars = 0;
  int32_t numerics_at = 0;
  int32_t n_numerics = 0;
  int32_t fm_runs_at = 0;
  int32_t n_fm_runs = 0;
  int32_t fm_channel = -1;
  int32_t fm_dim = 0;
};

struct Elementwise {
  ElementwiseAttrs attrs;
  View inputs[kMaxElementwiseInputs];
  Dims dims[kMaxElementwiseInputs];
  int32_t params_at[kMaxElementwiseSteps][3];
  int32_t single[kMaxElementwiseSteps][3];  // the parameter has one element for all columns
  View dst;
  Dims dst_dims;
  int32_t n = 0;
  int32_t output = -1;
};

struct Fm {
  View x;
  View dst;
  int32_t fields = 0;
  int32_t dim = 0;
  int32_t output = -1;
};

struct CrossV1Closed {
  View p;
  View dst;
  int32_t layers = 0;
  int32_t k_at = 0;
  int32_t y0_at = 0;
  int32_t output = -1;
};

struct Branch {
  View x;
  int32_t n = 0;
  int32_t weight_at = -1;
};
struct Tail {
  UnaryAttrs act;
  float bias = 0;
  int32_t branches_at = 0;
  int32_t n_branches = 0;
  View logit;  // read by later ops
  View value;
  int32_t logit_output = -1;
  int32_t value_output = -1;
};

struct Copy {
  View src;
  View dst;
  int32_t n = 0;
  int32_t padded = 0;
};

/// A warp's weights: blocks one after another, `begin` in units of 16 bytes.
struct WarpWeights {
  int32_t begin = 0;
  int32_t blocks = 0;
};

/// The first bytes of a program.
struct Header {
  int32_t bytes = 0;       // of the whole program, a multiple of 16; it lies at 0 of shared memory
  int32_t words_at = 0;    // shared memory: staged words [columns of this rank][16], 0 at the start
  int32_t columns_at = 0;  // StagedColumn: of numbers, then of ids, as they lie in memory
  int32_t n_number_columns = 0;
  int32_t n_id_columns = 0;
  int32_t shared_out = 0;  // 1: they are those of all ranks, each of which brings some words of each
  int32_t items_at = 0;
  int32_t n_items = 0;
  int32_t levels_at = 0;
  int32_t n_levels = 0;
  int32_t patches_at = 0;  // shared memory: one patch per warp
  int32_t ring_at = 0;     // shared memory: per warp `stages` stages, each of one block of weights
  int32_t stages = 0;      // 2, 3, 4, 6 or 8
  WarpWeights streams[kMaxWarps];
};

}  // namespace dpi::kernels::cuda::small_batch
