// Option user_cache_bytes while a model loads.
#include "base/host_share.hpp"
#include "runtime/engine/engine_loader.hpp"

namespace dpi {

namespace {

Status refused(Code code, const std::string& why) { return {code, "option 'user_cache_bytes' " + why}; }

/// A shared feature whose rows a store may change while the model serves; empty = none.
std::string moving_feature(const Plan& plan) {
  for (const Placement& p : plan.placements) {
    const FeatureSpec& f = plan.features[static_cast<size_t>(p.feature)];
    if (f.space == RowSpace::kShared) return f.name;
  }
  return "";
}

}  // namespace

Status EngineLoader::check_user_cache() {
  const uint64_t bytes = engine_.options_.user_cache_bytes;
  if (bytes == 0) return {};
  if (!engine_.host_memory())
    return refused(Code::kUnsupported, std::string("keeps what the processor computed; '") +
                                           engine_.api().name + "' has memory of its own: leave it out");
  const std::string moving = moving_feature(engine_.plan_);
  if (!moving.empty())
    return refused(Code::kUnsupported, "cannot keep what is computed of shared feature '" + moving +
                                           "': its rows lie in the host tier, where a store may change them; "
                                           "set table.NAME.tier to resident or leave the option out");
  engine_.user_part_ = user_part(engine_.plan_);
  if (!engine_.user_part_.any())
    return refused(Code::kInvalidArgument, "finds nothing to keep: no op of model '" + engine_.plan_.name +
                                               "' depends on shared features alone; leave it out");
  const UserCacheSizes sizes = UserCacheSizes::make(engine_.schema_, engine_.user_part_, bytes);
  if (sizes.entries > 0) return {};
  return refused(Code::kInvalidArgument, "is " + std::to_string(bytes) + ", but one user of model '" +
                                             engine_.plan_.name + "' takes " +
                                             std::to_string(sizes.entry_bytes()));
}

Status EngineLoader::make_user_cache() {
  if (!engine_.user_part_.any()) return {};
  const UserCacheSizes sizes =
      UserCacheSizes::make(engine_.schema_, engine_.user_part_, engine_.options_.user_cache_bytes);
  const uint64_t left = usable_memory();
  if (left != 0 && sizes.bytes() > left)
    return refused(Code::kOutOfMemory, "takes " + std::to_string(sizes.bytes()) +
                                           " bytes, but there is only " + std::to_string(left) +
                                           " of host memory; nothing was loaded");
  DPI_ASSIGN_OR_RETURN(engine_.user_cache_, UserCache::create(engine_.api(), engine_.device(), sizes,
                                                              [this] { return watch_->advance(0); }));
  return {};
}

}  // namespace dpi
