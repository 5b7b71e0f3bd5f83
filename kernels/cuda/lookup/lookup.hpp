// The fused lookup of all tables: its implementations, how one is chosen, and what it needs. Called by the
// backend (cuda_op.cpp) and by the tool that measures the implementations. All of them write the same one-hot
// columns, bit for bit; sums (chan, and columns pooled from bags) may differ in their last bits between 4 and
// 8 elements per access and the input-first form. Under one variant a row's bits depend on that row alone:
// neither on the batch nor on the run.
//
// Ids and offsets are checked again here, although the engine has done so: an id outside [0, rows) reads as a
// row of zeros, a bag whose offsets fall, are negative or pass the bag's end is empty. Both are counted where
// LookupFaults is given. So memory that was overwritten is never an address.
#pragma once

#include <cstddef>
#include <cstdint>

#include <dpi/kernels/multi_lookup.hpp>

#include "kernels/cuda/common/estimates.hpp"

namespace dpi::kernels::cuda {

using Stream = void*;  // cudaStream_t, or the emulation's stream

enum class LookupKind : int32_t {
  kAuto = 0,
  kCopy =
      1,  // output-first copy, a thread per output vector; sums per row in further blocks, rows read again
  kRows = 2,        // a warp per row: copy and sums in one pass over the rows
  kInputFirst = 3,  // a launch per table, a thread per bag: the scheme of existing frameworks, for
                    // measurements only; see has_input_first
};

/// One way to run the lookup. 0 = by rule, also for what the shapes do not allow.
struct LookupVariant {
  LookupKind kind = LookupKind::kAuto;
  int32_t vector = 0;     // elements per access: 4, or 8 (always with a 16-bit out)
  int32_t ilp = 0;        // kCopy: rows in flight per thread, 4 or 8
  int32_t block = 0;      // threads per block: 0 = by rule, else 32, 64, 128 or 256
  int32_t hint = 0;       // RowHint of common/loads.hpp
  int32_t sort_bags = 0;  // 1: bags of written-only fields are taken by length, longest first
  int32_t stores = 0;     // 1: what is written to out leaves L2 first, for outputs that L2 does not hold
};

/// The entry that fits and is nearest in rows decides (common/tuned_rows.hpp), of equal ones the first;
/// fields of -1 fit anything. Where a row's bits must not depend on its batch, entries that ask rows must not
/// change kind or vector.
struct LookupTuningEntry {
  int64_t rows = -1;  // that it was measured with
  int32_t dim = -1;   // of the fields that most columns come from
  int32_t sums = -1;  // 1: with channels
  int32_t bags = -1;  // 1: with pooled fields
  DType table = DType::kF32;
  int32_t any_table = 1;  // 1: `table` is not asked
  DType out = DType::kF32;
  int32_t any_out = 1;
  LookupVariant variant;
};

/// Measured choices, before the rules. Host memory that outlives the calls.
struct LookupTuning {
  const LookupTuningEntry* entries = nullptr;
  int32_t count = 0;
};

/// Device memory. The caller sets count to 0 and first to all ones before, and reads both after.
struct LookupFaults {
  unsigned long long count;  // reads refused; an id that is read several times counts as often
  unsigned long long first;  // smallest row << 20 | operand
};

struct LookupOptions {
  LookupVariant variant;
  const LookupTuning* tuning = nullptr;
  DeviceSize device;  // of the stream's device
  /// lookup_scratch_bytes of device memory, aligned to 256; may be null when that is 0. With less than that
  /// the lookup does without sorting, and fails (cudaErrorInvalidValue) where it cannot do without.
  void* scratch = nullptr;
  size_t scratch_bytes = 0;
  LookupFaults* faults = nullptr;
};

/// Is kInputFirst compiled in (CMake option DPI_MEASURE)? Where it is not, asking for it fails.
bool has_input_first();

/// "auto", "output_first" or "input_first", as the option `debug.lookup` has it.
LookupVariant lookup_variant_named(const char* name);

/// The variant that a call runs when `asked` leaves something open.
LookupVariant choose_lookup(const MultiLookupArgs& a, const LookupVariant& asked, const LookupTuning* tuning,
                            const DeviceSize& device = {});

/// Enough for calls of at most `rows` rows under any choice that `asked` leaves open.
size_t lookup_scratch_bytes(const MultiLookupAttrs& attrs, int64_t rows, const LookupVariant& asked);

/// The variants worth measuring for these args on this device, at most `max`: their number.
int lookup_variants(const MultiLookupArgs& a, const DeviceSize& device, LookupVariant* out, int max);

/// "rows vector=4 ilp=4 block=256 ...", into text.
void lookup_variant_text(const LookupVariant& v, char* text, size_t cap);

int multi_lookup(const MultiLookupArgs& a, const LookupOptions& options, Stream stream);

}  // namespace dpi::kernels::cuda
