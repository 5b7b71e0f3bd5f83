// What the acts have in common: a model that serves all the while, rows to score, the emulated device.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "injection/acts.hpp"
#include "kernels/emu/control.hpp"

namespace dpi::test {

/// Ends the process: the test itself cannot go on.
inline void need(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "the test needs: %s\n", what);
  std::abort();
}

inline void need(dpi_status s, const dpi_error& e) {
  if (s != DPI_OK) std::fprintf(stderr, "%s\n", e.message);
  need(s == DPI_OK, "a call without a fault that works");
}

/// Valid one-hot rows of a model.
struct Request {
  std::vector<int64_t> ids;
  std::vector<float> dense, out, want;
  dpi_batch batch = DPI_BATCH_INIT;

  void make(const dpi_model* m, int64_t rows);
  /// With the fault under way; `want` is what the first call without one gave.
  void predict(Run& run, dpi_model* m, const char* what);
  bool right() const {
    return out.size() == want.size() && std::memcmp(out.data(), want.data(), out.size() * sizeof(float)) == 0;
  }
};

/// A model that serves while the act goes on, in an environment of its own.
class ServingStage : public Stage {
 public:
  /// contexts: option max_contexts of the act's models.
  ServingStage(const Cast& cast, int contexts);
  ~ServingStage() override;
  ServingStage(const ServingStage&) = delete;
  ServingStage& operator=(const ServingStage&) = delete;

  const Cast& cast() const { return cast_; }
  const char* path() const { return cast_.bundle.c_str(); }
  /// Options of the cast in an environment of its own that hears all messages.
  void open_options();
  void close_options();
  void set(const char* key, const char* value);
  dpi_env* env() const { return env_; }
  const dpi_options* options() const { return options_; }
  /// A model without a fault.
  dpi_model* load();
  /// The library keeps what is left of the last 64 models that were freed (capi/src/model.cpp): of each as
  /// many blocks as its contexts want, whatever its device and its bundle. Afterwards there are 64.
  void fill_closed();

  Request few, many;  // one chunk, several
 private:
  std::string served_bits();

  Cast cast_;
  int contexts_;
  dpi_env* env_ = nullptr;
  dpi_options* options_ = nullptr;
  dpi_model* served_ = nullptr;
  Request served_rows_;
  void* plugin_ = nullptr;
};

/// For this process, and those that are forked from it. The bundle should be small.
void fill_closed(const std::string& bundle);

}  // namespace dpi::test
