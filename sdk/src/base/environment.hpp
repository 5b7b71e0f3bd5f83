// What models share: the log and the worker threads. A model keeps the environment it was loaded in alive.
// Models loaded without one share the process's, which is never destroyed, so that a thread which outlives
// main() still finds it.
#pragma once

#include <memory>
#include <string_view>

#include "base/log.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"

namespace dpi {

class Environment {
 public:
  static std::shared_ptr<Environment> create();
  /// The process's own.
  static const std::shared_ptr<Environment>& process();

  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// Sets one of the keys that dpi.h lists under dpi_env_set.
  Status set(std::string_view key, std::string_view value);

  LogSink& log() { return log_; }
  /// Has no threads until a model asks for more than one.
  ThreadPool& pool() { return *pool_; }

  /// Around fork(), by the one that forks; an environment may be used in the child.
  void before_fork() { log_.before_fork(); }
  void after_fork(bool child);

 private:
  Environment();

  LogSink log_;
  std::unique_ptr<ThreadPool> pool_ = std::make_unique<ThreadPool>();
};

}  // namespace dpi
