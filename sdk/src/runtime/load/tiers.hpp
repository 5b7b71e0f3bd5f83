// Which of a model's tables have their rows in the host tier, and where in the bundle those rows are.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/options/options.hpp"
#include "store/host_tier/bundle_rows.hpp"

namespace dpi {

/// Adds to what the plan is made with: tables that the options name, large ones where there is a host tier,
/// and external ones. Refused are an option that names a table the bundle has not or asks for a tier that is
/// off, a default for a table that has its own, and an external table that no store brings.
Status choose_tiers(const Manifest& manifest, const ModelOptions& options, PlanOptions* plan);

/// Where the rows of the plan's tiered tables lie: in the bundle's file, those of external ones in the store
/// that the options name, which is opened. kUnsupported when the bundle is not a file, or a mask looks at
/// rows of such a table.
Result<std::unique_ptr<BundleRows>> tier_rows(const Bundle& bundle, const Plan& plan,
                                              const ModelOptions& options);

}  // namespace dpi
