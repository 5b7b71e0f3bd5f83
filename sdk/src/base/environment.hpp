// State that models share: the log, the worker threads, the source of large blocks of host memory, tables of
// equal content. A model keeps the environment it was loaded in alive. Models loaded without one share the
// process's, which is never destroyed, so that a thread which outlives main() still finds it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>

#include "base/held_bytes.hpp"
#include "base/log.hpp"
#include "base/observed.hpp"
#include "base/shared_parts.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"

namespace dpi {

/// The same as dpi_memory_hooks in dpi.h; all null = the C library. Kinds are DPI_BLOCK_*.
struct MemoryHooks {
  void* (*alloc)(void* user, size_t bytes, size_t alignment, int32_t kind) = nullptr;
  void (*free)(void* user, void* block, size_t bytes, int32_t kind) = nullptr;
  void* user = nullptr;
  std::shared_ptr<HeldBytes> held = nullptr;  // of a model: what its blocks are counted in; null = nowhere
};

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

  /// The hooks for models that are loaded from now on: each keeps a copy.
  void set_memory(const MemoryHooks& hooks);
  MemoryHooks memory() const;

  /// Names of endpoints: false when somebody has this one. A forked child begins with none.
  bool claim_name(const std::string& name);
  void give_name_back(const std::string& name);

  /// Models and endpoints that dpi_metrics writes.
  ObservedSet& observed() { return observed_; }
  const ObservedSet& observed() const { return observed_; }

  LogSink& log() { return log_; }
  /// Has no threads until a model asks for more than one.
  ThreadPool& pool() { return *pool_; }
  /// Tables that several models read.
  SharedParts& parts() { return parts_; }

  /// Around fork(), by the one that forks; an environment may be used in the child.
  void before_fork();
  void after_fork(bool child);

 private:
  Environment();

  ObservedSet observed_;
  LogSink log_;
  SharedParts parts_;
  mutable std::mutex memory_mutex_;  // of the next two
  MemoryHooks memory_;
  std::set<std::string> names_;
  alignas(ThreadPool) std::byte pool_room_[sizeof(ThreadPool)];
  ThreadPool* pool_ = new (pool_room_) ThreadPool;  // see after_fork
};

}  // namespace dpi
