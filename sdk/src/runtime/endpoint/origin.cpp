#include "runtime/endpoint/origin.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "bundle/apply.hpp"
#include "bundle/delta.hpp"
#include "bundle/patch.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

class Opener {
 public:
  Opener(const Update& update, const ModelOptions& options, const OriginWatch& watch, size_t* fault)
      : update_(update), options_(options), watch_(watch), fault_(fault) {}

  Result<NextOrigin> run(const Origin* serving) {
    DPI_ASSIGN_OR_RETURN(bundle_options_, bundle_options(options_));
    if (!update_.whole.empty()) {
      DPI_ASSIGN_OR_RETURN(next_.bundle, Bundle::open(update_.whole, bundle_options_));
      next_.leaves = std::make_shared<LeafHashes>(next_.bundle);
    } else if (serving == nullptr) {
      return bad_model(update_.path +
                       ": is a delta, and the endpoint has no version that it could start from");
    } else {
      next_ = *serving;
      rows_.resize(next_.bundle->manifest().tables.size());
    }
    for (size_t i = 0; i < update_.deltas.size(); ++i) {
      *fault_ = i;
      DPI_RETURN_IF_ERROR(watch_.go_on());
      DPI_ASSIGN_OR_RETURN(const bool new_one, add(update_.deltas[i]));
      if (!new_one) return NextOrigin{};
    }
    *fault_ = update_.deltas.size();
    return NextOrigin{std::make_shared<const Origin>(std::move(next_)), std::move(rows_)};
  }

 private:
  /// False: the delta was applied before.
  Result<bool> add(const std::string& path) {
    DPI_ASSIGN_OR_RETURN(const DeltaEnds ends, Delta::read_ends(path));
    if (ends.base != next_.bundle->content_hash()) {
      if (had(ends.version)) return false;
      return gap(path, ends.base);
    }
    DeltaOptions delta_options;
    delta_options.require_signature = bundle_options_.require_signature;
    delta_options.workers = bundle_options_.workers;
    DPI_ASSIGN_OR_RETURN(std::shared_ptr<const Delta> delta, Delta::open(path, delta_options));
    DPI_RETURN_IF_ERROR(watch_.rate->keep(delta->file_bytes(), watch_.go_on));
    PatchMaps maps;
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes, patched(next_.bundle, delta, &maps));
    DPI_ASSIGN_OR_RETURN(std::shared_ptr<Bundle> bundle,
                         Bundle::open_source(std::move(bytes), path, bundle_options_));
    auto leaves = std::make_shared<LeafHashes>(bundle);
    DPI_RETURN_IF_ERROR(leaves->check(*next_.leaves, maps.data, {bundle_options_.workers, [this](uint64_t n) {
                                                                   return watch_.rate->keep(n, watch_.go_on);
                                                                 }}));
    next_.leaves = std::move(leaves);
    for (size_t t = 0; t < rows_.size(); ++t) rows_[t].add(std::move(maps.tables[t]));
    next_.passed.push_back(next_.bundle->content_hash());
    if (next_.passed.size() > Origin::kMostPassed) next_.passed.erase(next_.passed.begin());
    next_.bundle = std::move(bundle);
    ++next_.deltas;
    next_.delta_bytes += delta->file_bytes();
    DPI_RETURN_IF_ERROR(fold(path));
    return true;
  }

  bool had(const ContentHash& version) const {
    return version == next_.bundle->content_hash() ||
           std::find(next_.passed.begin(), next_.passed.end(), version) != next_.passed.end();
  }

  Status gap(const std::string& path, const ContentHash& base) const {
    return bad_model(path + ": starts from version " + hex_bytes(base) + ", " + next_.bundle->name() +
                     " is version " + hex_bytes(next_.bundle->content_hash()));
  }

  Status fold(const std::string& path) {
    const uint64_t most = std::max(Origin::kLeastFold, next_.bundle->file_bytes() / 4);
    if (next_.deltas < Origin::kLongestChain && next_.delta_bytes <= most) return {};
    auto copy = copy_to_unnamed(next_.bundle, folder_of(path), bundle_options_,
                                [this](uint64_t bytes) { return watch_.rate->keep(bytes, watch_.go_on); });
    if (copy.ok()) {
      next_.bundle = std::move(copy).value();
      next_.leaves->move_to(next_.bundle);
      next_.deltas = 0;
      next_.delta_bytes = 0;
      return {};
    }
    if (copy.status().code() != Code::kIo) return std::move(copy).status();
    const std::string why =
        std::to_string(next_.deltas) + " deltas are not folded: " + copy.status().message();
    if (next_.deltas >= Origin::kMostChain)
      return Status(Code::kIo, path + ": " + why).native(copy.status().native_code());
    watch_.unfold(why);
    return {};
  }

  const Update& update_;
  const ModelOptions& options_;
  const OriginWatch& watch_;
  size_t* fault_;
  BundleOptions bundle_options_;
  Origin next_;
  std::vector<RowHistory> rows_;
};

}  // namespace

Result<NextOrigin> open_update(const Update& update, const ModelOptions& options, const Origin* serving,
                               const OriginWatch& watch, size_t* fault) {
  return Opener(update, options, watch, fault).run(serving);
}

}  // namespace dpi
