// AUC and log loss, equal to scikit-learn's roc_auc_score and log_loss; percentiles of latencies.
#pragma once

#include <vector>

namespace dpi::tool {

/// Area under the ROC curve as the rank statistic, ties counting half. label: 0 or 1. NaN when only one class
/// occurs or a score is NaN.
double auc(const std::vector<float>& score, const std::vector<float>& label);

/// Mean of -log of the probability given to the true class, scores clipped to [eps, 1 - eps] with double's
/// epsilon. NaN when empty or a score is NaN.
double log_loss(const std::vector<float>& score, const std::vector<float>& label);

/// The value at or below which a fraction p of the samples lies (nearest rank); sorts *samples. NaN when
/// empty.
double percentile(std::vector<double>* samples, double p);

}  // namespace dpi::tool
