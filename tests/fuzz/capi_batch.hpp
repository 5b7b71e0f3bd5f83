// A batch for a model as decisions of an input make it: right as a rule, wrong in one place now and then.
// Every array is an allocation of exactly the elements that dpi_batch's comments give it.
#pragma once

#include <dpi/dpi.h>

#include <memory>
#include <random>
#include <vector>

#include "fuzz/input.hpp"

namespace dpi::fuzz {

class OddBatch {
 public:
  OddBatch(Input* in, const dpi_model* model);
  const dpi_batch* get() const { return &batch_; }
  int64_t rows() const { return batch_.rows; }

 private:
  template <class T>
  T* keep(size_t n);
  float* floats(size_t n);
  int64_t small(size_t n) { return static_cast<int64_t>(values_() % n); }
  void part(int64_t rows, int64_t slots, int64_t columns, const float** dense, const int64_t** ids,
            const int64_t** offsets, const float** weights, int64_t* nnz);
  void shared(const dpi_model_info& info);
  void spoil();

  Input& in_;
  std::minstd_rand values_;  // ids and floats: an input's bytes are for decisions
  bool odd_ = false;         // some of them are outside their domain
  dpi_batch batch_{};
  std::vector<std::unique_ptr<unsigned char[]>> blocks_;
};

}  // namespace dpi::fuzz
