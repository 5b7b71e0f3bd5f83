// Dense on the GPU: which of several implementations computes the product for how many rows. Own kernels
// (kernels/cuda/gemm/gemm.hpp) are always there; cuBLASLt takes part when its library can be opened. The
// choice is made per batch bucket when the op is prepared: by a measured table (tuning/tuning.hpp), else by
// the rules of gemm/rules.cpp. gemm/gemm.cpp packs and chooses, gemm/lt.cpp is what concerns cuBLASLt. Used
// by device/cuda_op.cpp and by the tuning tool (tests/gpu/tools/tune.cpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/layer/lt_api.hpp"
#include "backend/cuda/tuning/gemm_choice.hpp"
#include "kernels/cuda/common/estimates.hpp"
#include "kernels/cuda/gemm/gemm.hpp"
#include "ops/owned_op.hpp"

namespace dpi::backend {

class TuningTable;

/// The native code for "nothing was started that matters, another implementation may do it".
constexpr int kNotTaken = -1;

/// Algorithms asked of cuBLASLt for one shape when they are compared.
constexpr int kMostLtCandidates = 32;

/// State that all Dense ops of one device share.
struct GemmDevice {
  int index = 0;
  GemmPrecision precision = GemmPrecision::kFp32;
  bool strict = false;  // a row's bits must not depend on its batch
  kernels::cuda::DeviceSize size;
  int capability = 0;            // 90 = sm_90, 0 = emulated
  const lt::Api* api = nullptr;  // null: `lt_reason` says why
  lt::Handle handle = nullptr;
  std::string lt_reason;
  std::shared_ptr<const TuningTable> tuning;  // null = none
  std::string tuning_note;                    // what of a table that was asked for is not used

  GemmDevice() = default;
  GemmDevice(const GemmDevice&) = delete;
  GemmDevice& operator=(const GemmDevice&) = delete;
  ~GemmDevice();
};

/// `tuning`: "default", "off" or a path. A table that cannot be read fails; one for another device is left.
Result<std::shared_ptr<const GemmDevice>> open_gemm_device(int index, int32_t precision, bool strict,
                                                           const std::string& tuning);

/// Implementations that give `precision`, the default for small shapes first.
std::vector<GemmImpl> impls_for(GemmPrecision precision);
/// The implementation where nothing was measured. `lt`: cuBLASLt can be used.
GemmImpl default_impl(const GemmShape& shape, GemmPrecision precision, bool lt, bool strict);
kernels::cuda::GemmTile default_tile(const GemmShape& shape, int multiprocessors);

/// A prepared Dense op. Immutable, for any number of threads.
class Gemm {
 public:
  /// Packs weights, asks cuBLASLt, runs each of its algorithms once. `op`: kDense, params in host memory.
  /// beyond_half: x may hold the largest values of fp16, because what was there is beyond them (an empty bag
  /// of max pooling, -1e9). cuBLASLt makes infinities of sums that fp16 does not hold, so then it leaves
  /// float32.
  static Result<std::unique_ptr<Gemm>> make(const OwnedOp& op, std::shared_ptr<const GemmDevice> device,
                                            bool beyond_half = false);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// "own-simt (rows 1-8), cublaslt-fp16 (9-2048); refused: ..."
  std::string report() const;
  size_t scratch_bytes(int64_t rows) const;
  size_t weight_bytes() const { return memory_bytes_; }
  /// `a` as dense_args makes it, bias and params on the device. The native code of the launch.
  int start(const kernels::DenseArgs& a, void* scratch, void* stream) const;

  // For the tuning tool.
  GemmShape shape(int64_t rows) const;
  std::vector<GemmChoice> candidates(int64_t rows) const;
  size_t scratch_bytes(const GemmChoice& choice, int64_t rows) const;
  /// Like start, with this choice; kNotTaken where the library refuses or a call's memory does not suit it.
  int run(const GemmChoice& choice, const kernels::DenseArgs& a, void* scratch, void* stream) const;

 private:
  struct Bucket {
    int64_t rows = 0;  // the last that takes the choice
    GemmChoice choice;
  };
  /// The descriptors of one cuBLASLt product.
  struct LtProblem;

  Gemm(const OwnedOp& op, std::shared_ptr<const GemmDevice> device, bool beyond_half);
  Status pack(const OwnedOp& op);
  void choose_all();
  GemmChoice choose(int64_t rows);
  GemmChoice own_choice(GemmImpl impl, int64_t rows) const;
  bool tuned(int64_t rows, GemmChoice* out);
  void note(const std::string& text);
  const Bucket& bucket_for(int64_t rows) const;

  // gemm/lt.cpp
  bool lt_possible() const { return device_->api != nullptr && !device_->strict && !lt_failed_; }
  std::string lt_refusal() const;
  bool lt_must_stage(GemmImpl impl) const;
  /// Are rows of x whose ends do not fall on 16 bytes to be copied? The default for a choice's `staged`.
  bool lt_should_stage(GemmImpl impl) const;
  bool lt_stages_x(const GemmChoice& c) const { return c.staged || lt_must_stage(c.impl); }
  bool lt_fuses_end(GemmImpl impl) const;
  bool lt_has_sums(GemmImpl impl) const;
  /// Elements of a staged row of x, and of a packed row of weights.
  int64_t lt_packed_row(GemmImpl impl) const;
  /// last: of several products that are added up, the one with the end.
  bool lt_problem(const GemmChoice& choice, int64_t rows, bool last, LtProblem* out) const;
  std::vector<GemmChoice> lt_candidates(GemmImpl impl, bool staged, int64_t rows, int most) const;
  size_t lt_staged_bytes(const GemmChoice& choice, int64_t rows) const;
  size_t lt_sums_bytes(GemmImpl impl, int64_t rows) const;
  bool lt_takes(const GemmChoice& choice, const kernels::DenseArgs& a) const;
  struct LtMemory {
    const void* weights;
    const void* x;
    void* dst;
    void* workspace;
  };
  bool lt_multiply(const GemmChoice& choice, int64_t rows, const LtMemory& m, int64_t slab,
                   void* stream) const;
  /// Starts staging and product; false: the library refused, own kernels may do it all instead.
  bool lt_product(const GemmChoice& choice, const kernels::DenseArgs& a, char* scratch, void* stream) const;
  /// The end that the product did not fuse.
  int lt_finish(const GemmChoice& choice, const kernels::DenseArgs& a, char* scratch, void* stream) const;
  /// Runs every algorithm once, so that its code is loaded before a capture.
  Status try_lt() const;

  std::shared_ptr<const GemmDevice> device_;
  GemmPrecision precision_ = GemmPrecision::kFp32;
  std::string note_;  // why it is not the precision that was asked for, and what was refused
  int64_t in_ = 0;
  int64_t out_ = 0;
  dpi_value_desc x_;
  dpi_value_desc dst_;
  int64_t max_rows_ = 0;
  bool plain_end_ = false;  // one segment of identity or ReLU, no mul, no add
  bool relu_ = false;
  bool has_bias_ = false;
  bool beyond_half_ = false;
  bool lt_failed_ = false;       // when it was tried
  std::vector<Bucket> buckets_;  // ascending rows, never empty

  // Device memory, one block: packed weights as gemm.hpp of the kernels says, or null where no choice of this
  // precision needs them.
  void* memory_ = nullptr;
  size_t memory_bytes_ = 0;
  const void* weights_ = nullptr;          // f32 or 16 bits, by precision
  const void* rounded_weights_ = nullptr;  // of tf32: rounded to it
  const void* split_weights_ = nullptr;    // [hi | lo | hi] a slab, for x as [lo | hi | hi]
  const void* bias_ = nullptr;             // f32
  const void* narrow_bias_ = nullptr;      // 16 bits
};

}  // namespace dpi::backend
