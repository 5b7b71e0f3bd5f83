#include <dpi/metrics.h>

#include "handles.hpp"
#include "runtime/describe/metrics.hpp"
#include "runtime/endpoint/endpoint.hpp"

using dpi::capi::give_text;

namespace {

constexpr uint32_t kKnown = DPI_METRICS_OPENMETRICS | DPI_METRICS_FINE;

template <class Make>
size_t text_of(char* buf, size_t cap, Make&& make) noexcept {
  const dpi::FloatEnvironment standard;
  try {
    return give_text(make(), buf, cap);
  } catch (...) {
    return 0;
  }
}

void clear(char* buf, size_t cap) {
  if (cap > 0 && buf != nullptr) buf[0] = '\0';
}

}  // namespace

extern "C" {

size_t dpi_metrics(dpi_env* env, uint32_t flags, char* buf, size_t cap) noexcept {
  clear(buf, cap);
  if ((flags & ~kKnown) != 0) return 0;
  const dpi::MetricsPage::Form form = {(flags & DPI_METRICS_OPENMETRICS) != 0,
                                       (flags & DPI_METRICS_FINE) != 0};
  return text_of(buf, cap, [&] {
    return dpi::metrics_text(env != nullptr ? *env->environment : *dpi::Environment::process(), form);
  });
}

size_t dpi_model_slow_json(const dpi_model* model, char* buf, size_t cap) noexcept {
  clear(buf, cap);
  if (model == nullptr) return 0;
  const dpi::capi::Visit visit(model);
  if (!visit.ok() || model->model->forked()) return 0;  // a thread that the child has not may hold a lock
  return text_of(buf, cap, [&] { return dpi::SlowCalls::list(model->model->slow_calls()); });
}

}  // extern "C"
