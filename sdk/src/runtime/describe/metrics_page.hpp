// Text for Prometheus: exposition format 0.0.4, or OpenMetrics 1.0. Samples are gathered under their family,
// since a family's samples must stand together, and models and endpoints write theirs one after another.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.hpp"

namespace dpi {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class MetricsPage {
 public:
  struct Form {
    bool open_metrics = false;
    bool fine = false;  // every bound of a histogram, sixteen to an octave; else four
  };
  explicit MetricsPage(const Form& form) : form_(form) {}

  /// name: without _total.
  void counter(const std::string& name, std::string_view help, const MetricLabels& labels,
               const std::string& value);
  void gauge(const std::string& name, std::string_view help, const MetricLabels& labels,
             const std::string& value);
  /// unit: what a value of 1 is worth, 1e-9 for nanoseconds in a family of seconds. first: the exponent of
  /// two of the first bound; smaller values count there.
  template <int kBits>
  void histogram(const std::string& name, std::string_view help, const MetricLabels& labels,
                 const HistogramSums<kBits>& sums, double unit, int first);
  /// 0.5, 0.9, 0.99 and 0.999 of all values so far; nothing where there are none.
  template <int kBits>
  void quantiles(const std::string& name, std::string_view help, const MetricLabels& labels,
                 const HistogramSums<kBits>& sums, double unit);

  /// Everything that `json` counts, an object of counts as dpi_model_counters_json writes it: a number is a
  /// family dpi_KEY, an object has its keys as a label, a list its elements' names. Keys in `without` are
  /// left out.
  void counters(const std::string& json, const MetricLabels& labels,
                const std::vector<std::string>& without = {});

  std::string text() const;

 private:
  struct Family {
    std::string type, help, samples;
  };
  std::string& family(const std::string& name, const char* type, std::string_view help);
  void sample(std::string* to, const std::string& name, const MetricLabels& labels, const std::string& value);
  static MetricLabels with(MetricLabels labels, const char* name, std::string value);
  static std::string number(double v);

  const Form form_;
  std::map<std::string, Family> families_;
};

template <int kBits>
void MetricsPage::histogram(const std::string& name, std::string_view help, const MetricLabels& labels,
                            const HistogramSums<kBits>& sums, double unit, int first) {
  using Buckets = LogLinear<kBits>;
  std::string& to = family(name, "histogram", help);
  const uint64_t least = uint64_t{1} << first;
  uint64_t below = 0;
  for (size_t i = 0; i < Buckets::kOverflow; ++i) {
    below += sums.bucket(i);
    const uint64_t upper = Buckets::upper(i), quarter = std::bit_floor(upper) / 4;
    if (upper < least || (!form_.fine && quarter > 1 && upper % quarter != 0)) continue;
    const double bound = static_cast<double>(upper) * unit;
    sample(&to, name + "_bucket", with(labels, "le", number(bound)), std::to_string(below));
  }
  const std::string all = std::to_string(sums.count());
  sample(&to, name + "_bucket", with(labels, "le", "+Inf"), all);
  sample(&to, name + "_sum", labels, number(static_cast<double>(sums.sum()) * unit));
  sample(&to, name + "_count", labels, all);
}

template <int kBits>
void MetricsPage::quantiles(const std::string& name, std::string_view help, const MetricLabels& labels,
                            const HistogramSums<kBits>& sums, double unit) {
  if (sums.count() == 0) return;
  std::string& to = family(name, "gauge", help);
  for (const double q : {0.5, 0.9, 0.99, 0.999})
    sample(&to, name, with(labels, "q", number(q)), number(sums.quantile(q) * unit));
}

}  // namespace dpi
