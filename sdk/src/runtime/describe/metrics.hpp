// All models and endpoints of an environment as one page of metrics.
#pragma once

#include <string>

#include "base/environment.hpp"
#include "runtime/describe/metrics_page.hpp"

namespace dpi {

std::string metrics_text(const Environment& environment, const MetricsPage::Form& form);

}  // namespace dpi
