// What brings an endpoint to its next version, and the one place where a model is made of it. Today that is a
// whole bundle. A delta is the same with `base`, the version that it changes: it is found by list_updates,
// chosen by next_update and made into a model by build_model. All else (contract, warm-up, the switch,
// rollback, the status) does not ask how a version came.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/endpoint/contract.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

struct Update {
  std::string path;
  uint64_t number = 0;  // of the version that it makes; 0 = one more than any before
  uint64_t base = 0;    // of the version that it needs; 0 = none: it is a whole bundle
};

/// Reads, checks and prepares the model. `callers`: what it must keep to, null = nothing yet; looked at
/// before tables are read.
Result<std::unique_ptr<Model>> build_model(const Update& update, const ModelOptions& options,
                                           const Contract* callers);

/// An update as it lies in a folder. Another file under its name is another one.
struct FoundUpdate {
  Update update;
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0, changed_ns = 0;

  bool same_file(const FoundUpdate& o) const {
    return device == o.device && inode == o.inode && bytes == o.bytes && changed_ns == o.changed_ns;
  }
};

/// Files of the folder named v<number>.h5, digits only, number 1 or more; anything else is not looked at.
/// Highest number first.
Result<std::vector<FoundUpdate>> list_updates(const std::string& folder);

}  // namespace dpi
