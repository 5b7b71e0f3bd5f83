// The models and endpoints of an environment that its metrics are about, each under a label of its own. They
// come when they are loaded and go before they are freed; calls never look here.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace dpi {

class MetricsPage;

class Observed {
 public:
  virtual ~Observed() = default;
  /// Writes its families. label: under which it was added.
  virtual void write_metrics(const std::string& label, MetricsPage* page) const = 0;
};

class ObservedSet {
 public:
  /// Until remove(). kind: labels of one kind differ. One that another has already gets "#2" or a higher
  /// number behind it.
  void add(const Observed& one, const std::string& kind, const std::string& label);
  /// Returns when nobody writes its metrics any more. Of what was never added nothing.
  void remove(const Observed& one);
  /// Adding and removing wait meanwhile.
  void write_all(MetricsPage* page) const;

  void before_fork() { mutex_.lock(); }
  /// A child begins with none: the models are its parent's.
  void after_fork(bool child) {
    if (child) all_.clear();
    mutex_.unlock();
  }

 private:
  using Key = std::pair<std::string, std::string>;  // kind, label
  mutable std::mutex mutex_;
  std::map<Key, const Observed*> all_;
};

}  // namespace dpi
