// An update brings an endpoint to its next version: a whole bundle, or deltas behind one or behind the one
// that serves.
// It is found by list_updates, chosen by UpdateChooser, opened by open_update (origin.hpp) and made into a
// model by build_model. All else (contract, warm-up, the switch, rollback, the status) does not ask how a
// version came.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bundle/delta.hpp"
#include "runtime/endpoint/contract.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

/// The highest number of a version: one more is still a number, and Java has no higher one.
constexpr uint64_t kMostNumber = INT64_MAX;

struct Update {
  std::string path;                 // the file that it is called by: the last of those below
  uint64_t number = 0;              // of the version that it makes; 0 = one more than any before
  std::string whole;                // a bundle; empty = the deltas start from what serves
  std::vector<std::string> deltas;  // in their order

  /// The update in one file: a bundle or a delta, as its first bytes say.
  static Update of_file(const std::string& path, uint64_t number);
};

/// Checks and prepares the model of a bundle that is open. `callers`: what it must keep to, null = nothing
/// yet; looked at before tables are read.
Result<std::unique_ptr<Model>> build_model(const std::shared_ptr<Bundle>& bundle, const std::string& path,
                                           const ModelOptions& options, const Contract* callers);

/// An update as it lies in a folder. Another file under its name is another one.
struct FoundUpdate {
  std::string path;
  uint64_t number = 0;
  bool is_delta = false;
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0, changed_ns = 0;

  bool same_file(const FoundUpdate& o) const {
    return path == o.path && device == o.device && inode == o.inode && bytes == o.bytes &&
           changed_ns == o.changed_ns;
  }
};

/// Files of the folder named v<number>.h5 or v<number>.delta, digits only, number 1 or more; anything else is
/// not looked at. Highest number first, of one number the delta first.
Result<std::vector<FoundUpdate>> list_updates(const std::string& folder);

/// Says by which files a version can be reached. Looks at heads of files only, and at each once.
class UpdateChooser {
 public:
  /// From now on the files are those; what is known of others is forgotten.
  void look_at(std::vector<FoundUpdate> found);
  const std::vector<FoundUpdate>& found() const { return found_; }
  /// found()[i] was not there at the look before.
  bool is_new(size_t i) const { return heads_[i].is_new; }

  /// The way to found()[i]: with the fewest deltas from `serving` (null = nothing serves), else from a bundle
  /// of the folder; deltas may lead back to what serves. usable[j]: found()[j] may be part of it. kBadModel
  /// names both versions where there is no way: a gap. kNotFound: there is none, and the file gives what
  /// serves already.
  Result<Update> way_to(size_t i, const ContentHash* serving, const std::vector<bool>& usable);

 private:
  struct Head {
    FoundUpdate file;
    bool is_new = true;
    bool known = false;  // what follows was read
    Status status;
    DeltaEnds ends;  // of a bundle: version alone
  };
  const Head& head(size_t i);
  bool find_way(size_t target, const ContentHash* serving, const std::vector<bool>& usable,
                std::vector<size_t>* way);

  std::vector<FoundUpdate> found_;
  std::vector<Head> heads_;  // as found_
};

}  // namespace dpi
