// What the parts of gpu_tiers share: tables in host memory whose rows say which they are, ids, memory, and a
// way to bring the rows of a batch from the ids in host memory to one block on the device. Rows are numbered
// over all tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/layer/device_layer.hpp"
#include "kernels/cuda/lookup/lookup.hpp"

namespace dpi::gpu {

namespace layer = backend::layer;

inline void need(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": " + layer::error_text(code));
}

/// Device memory, or host memory that kernels reach.
class Memory {
 public:
  enum Where { kDevice, kPinned, kManaged };
  explicit Memory(size_t bytes, Where where = kDevice);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
  template <class T>
  T* as() const {
    return static_cast<T*>(p_);
  }

 private:
  void* p_ = nullptr;
  Where where_;
};

/// Tables one after another in one block; element v of row r is a float that only says (r, v).
struct Tables {
  std::vector<int64_t> rows;   // of each
  std::vector<int64_t> first;  // row numbers
  int64_t total = 0;
  int32_t dim = 16;  // floats of a row
  std::unique_ptr<Memory> host;

  Tables(const std::vector<int64_t>& sizes, int32_t d);
  int64_t row_bytes() const { return int64_t{dim} * 4; }
  size_t bytes() const { return static_cast<size_t>(total * row_bytes()); }
  int32_t fields() const { return static_cast<int32_t>(rows.size()); }
  const char* row(int64_t r) const { return host->as<char>() + r * row_bytes(); }
  /// Row numbers, hottest first: ids are numbered by falling frequency.
  template <class F>
  void hottest_first(F take) const {
    const int64_t most = *std::max_element(rows.begin(), rows.end());
    for (int64_t id = 0; id < most; ++id) {
      for (size_t t = 0; t < rows.size(); ++t) {
        if (id < rows[t] && !take(t, first[t] + id)) return;
      }
    }
  }
};

/// Row numbers of some batches, [sets][fields][batch], in pinned memory.
struct Ids {
  int64_t sets = 0, batch = 0;
  int32_t fields = 0;
  std::unique_ptr<Memory> rows;

  /// path: int64 [sets, batch, fields], each an id of its table.
  Ids(const std::string& path, int64_t n_sets, int64_t n_batch, const Tables& tables);
  int64_t per_set() const { return batch * fields; }
  const int32_t* of(int64_t set, int32_t field = 0) const {
    return rows->as<int32_t>() + set * per_set() + field * batch;
  }
};

/// What a way needs of the machine.
struct Device {
  void* stream = nullptr;
  void* from = nullptr;
  void* to = nullptr;
  kernels::cuda::DeviceSize size;
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
};

/// Rows of a batch as floats [batch, columns()], field by field.
class Way {
 public:
  Way(const Device& device, const Tables& tables, const Ids& ids);
  virtual ~Way() = default;
  /// The rows of a set; they are there when it returns.
  virtual void run(int64_t set) = 0;
  /// Microseconds of the device alone in the last run; negative where the host takes part.
  virtual double device_us() { return -1; }
  /// The share of lookups that found their row in device memory, in the set that ran last; of the chain the
  /// share of its unique keys. Negative where nobody can know.
  virtual double hits(int64_t) { return -1; }
  /// Is a copy of the row to be read? Copies are the row negated, so that a comparison sees where it was
  /// read.
  virtual bool copied(int64_t) { return false; }

  int64_t columns() const { return columns_; }
  std::vector<float> read() const;
  /// NaN everywhere.
  void clear() const;

 protected:
  const Device& device_;
  const Tables& tables_;
  const Ids& ids_;
  int64_t columns_;
  Memory out_;
};

/// budget: bytes of device memory for rows, where the way has one. shares: allocations of the device that a
/// range is made of.
struct WayOptions {
  std::string name;
  int64_t budget = 0;
  int32_t shares = 4;
};

/// resident, cached, mapped, uvm, chain, peers; throws std::invalid_argument at another name.
std::unique_ptr<Way> make_way(const WayOptions& options, const Device& device, const Tables& tables,
                              const Ids& ids);
std::unique_ptr<Way> make_chain(int64_t budget, const Device& device, const Tables& tables, const Ids& ids);

}  // namespace dpi::gpu
