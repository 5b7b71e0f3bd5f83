// Measured choices: text files, one per kind of GPU, made by the tuning tool (tests/gpu/tools/tune.cpp) and
// read when a device is opened. What they do not say is left to the rules and estimates of
// kernels/cuda/common/estimates.hpp. A table for another kind of GPU is left alone with a note, lines about
// another version of cuBLASLt too; a malformed table is refused.
//
//   dpi-tuning 2
//   device NVIDIA H200
//   capability 90
//   multiprocessors 132
//   cublaslt 130100
//   # precision end out in rows implementation tile algorithm microseconds
//   fp16 plain 400 432 64 cublaslt-fp16 - 0123..(128 hex digits) 4.2
//   fp32 fused 624 624 2048 own-3xtf32 128 - 90.3
//   small_batch fp16 494544 tensor 8 8 256 off 6.3
//   lookup 2048 16 yes no f32 f16 rows 8 0 256 keep off plain 5.4
//
// Lines of small batches: tuning/small_batch_line.hpp, of lookups: tuning/lookup_line.hpp.
//
// A GPU of the same capability with as many multiprocessors is of the table's kind, whatever its name: an
// H100 may use what an H200 measured. Tables of version 1 have no multiprocessors: there the name has to be
// the device's. Device * is any device: for tables without algorithms. end: plain = bias and ReLU at most,
// else fused. rows: that the line was measured with (kernels/cuda/common/tuned_rows.hpp has which calls it
// serves). tile: 32, 64, 128 of own kernels; staged: x is copied first.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/tuning/gemm_choice.hpp"
#include "backend/cuda/tuning/lookup_line.hpp"
#include "backend/cuda/tuning/small_batch_line.hpp"
#include "base/status.hpp"

namespace dpi::backend {

struct TuningEntry {
  GemmPrecision precision = GemmPrecision::kFp32;
  GemmShape shape;
  GemmChoice choice;  // workspace is not stored: the library says it
  double microseconds = 0;
};

struct TuningHeader {
  std::string device;
  int capability = 0;
  size_t lt_version = 0;    // 0 = made without cuBLASLt
  int multiprocessors = 0;  // 0 = not known: a table of version 1
};

class TuningTable {
 public:
  TuningTable() = default;
  explicit TuningTable(TuningHeader header) : header_(std::move(header)) {}

  /// `name` for error texts. kInvalidArgument with the line at the first thing that is not as stated above.
  static Result<TuningTable> parse(std::string_view text, const std::string& name);
  std::string text() const;

  const TuningHeader& header() const { return header_; }
  const std::vector<TuningEntry>& entries() const { return entries_; }
  void add(const TuningEntry& e) { entries_.push_back(e); }
  const std::vector<small_batch::TuningLine>& small_batches() const { return small_batches_; }
  void add(const small_batch::TuningLine& t) { small_batches_.push_back(t); }
  /// In the order of their lines; the table owns them.
  kernels::cuda::LookupTuning lookups() const {
    return {lookups_.data(), static_cast<int32_t>(lookups_.size())};
  }
  void add(const LookupLine& line) {
    lookups_.push_back(line.entry);
    lookup_lines_.push_back(line);
  }
  /// Leaves out the lines about products of cuBLASLt; how many there were.
  size_t drop_library_lines();
  /// The entry of this layer that is nearest in rows (tuned_rows.hpp); null = none is near enough.
  const TuningEntry* find(const GemmShape& shape, GemmPrecision precision) const;

 private:
  /// An error about a line after the header, or null.
  const char* add_line(const std::vector<std::string>& words);

  TuningHeader header_;
  std::vector<TuningEntry> entries_;
  std::vector<small_batch::TuningLine> small_batches_;
  std::vector<kernels::cuda::LookupTuningEntry> lookups_;
  std::vector<LookupLine> lookup_lines_;
};

/// Tables that are compiled in: kernels/cuda/tuning/*.txt.
struct EmbeddedTable {
  const char* name;
  const char* text;
};
extern const EmbeddedTable kEmbeddedTables[];
extern const int kEmbeddedTableCount;

/// Option `tuning`: "off", "default" (the embedded table of this kind of device, if any) or a path. Null
/// without an error when there is no table for `device`. *note: what of a path's table is not used, and why.
Result<std::shared_ptr<const TuningTable>> load_tuning(const std::string& option, const TuningHeader& device,
                                                       std::string* note);

}  // namespace dpi::backend
