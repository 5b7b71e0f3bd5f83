// Tables of which a delta changes some rows, made from what the version before holds: rows that did not
// change are copied in memory, the others read from the bundle, one by one. A table that cannot be made so is
// read whole (table_loader.cpp). Where the store has the rows of the version before and spare rows behind
// them (store/resident/spare_rows.hpp) only those that change are read.
//
// Rows that are read one by one are not digested again: the delta was, whole, when it was opened.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/load/derived_sums.hpp"
#include "runtime/load/load_watch.hpp"
#include "runtime/options/options.hpp"
#include "store/table_store.hpp"

namespace dpi {

class TablePatcher {
 public:
  /// base: null = there is nothing to copy from.
  TablePatcher(const Bundle& bundle, const Plan& plan, const LoadBase* base, TableStore& store,
               LoadWatch* watch);

  /// patch() makes table `table` of the plan: nothing need stream by for it.
  bool patches(size_t table) const { return patched_[table]; }
  /// Names, for each row behind the rows of a bundle's table, the row of the file that it copies.
  void set_pads(size_t source, std::vector<int64_t> from) { pads_[source] = std::move(from); }
  /// After set_pads. Every table that it makes.
  Status patch();

 private:
  bool is_in_memory(int32_t source) const;
  bool can_patch(size_t table) const;
  RowHistory::Run run_of(int32_t source, int64_t row) const;
  Status patch_table(size_t table);
  Status patch_derived(size_t table);
  Status put_spare(size_t table);
  Status add_source(const PlanTable& t, int32_t source, int64_t first, int64_t n, DerivedSums* d);
  Status read_rows(int32_t source, int64_t first, int64_t n, std::vector<std::byte>* to) const;
  Status read_file_rows(const TableSpec& spec, int64_t first, size_t n, std::byte* to) const;
  Status read_scales(int32_t source, int64_t first, int64_t n, std::vector<float>* to) const;
  Status ingest_scales(size_t table);
  kernels::DType stored_type(int32_t source) const;

  const Bundle& bundle_;
  const Plan& plan_;
  const LoadBase* base_;
  TableStore& store_;
  LoadWatch* watch_;
  std::vector<bool> patched_;               // by table of the plan
  std::vector<int32_t> table_of_;           // by table of the bundle: that of the plan which holds it, or -1
  std::vector<std::vector<int64_t>> pads_;  // by table of the bundle
  RowNarrower narrower_;
  std::vector<std::byte> bytes_;
  std::vector<float> rows_, scales_;
};

}  // namespace dpi
