/* metrics.h - counters and latencies for a monitoring system, and the calls that were slow.
 * Beside dpi.h, whose conventions hold here too. Since version 1.2 (symbols DPI_1.2).
 *
 *   size_t need = dpi_metrics(NULL, 0, buf, cap);   (more than cap: it was cut; take more room and ask again)
 *
 * The library measures each call that had a context and whose batch passed its first checks: the calls that
 * the counter `calls` counts. A call writes lines of its own context only, and takes no lock for it; reading
 * does not slow running calls.
 */
#ifndef DPI_METRICS_H
#define DPI_METRICS_H
#include <dpi/endpoint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- metrics ------------------------------------------------------------------------------------------- */
enum {
  DPI_METRICS_OPENMETRICS = 1, /* OpenMetrics 1.0, which ends in "# EOF"; else Prometheus text format 0.0.4 */
  DPI_METRICS_FINE = 2         /* every bound of the histograms, 16 to an octave; else 4                    */
};
/* All models and endpoints of an environment (NULL = the process's own) as text for Prometheus. A model has
 * the label model: its name in the bundle, with "#2" or a higher number behind it if another model has that
 * label. An endpoint has the label endpoint and counts over all versions; its versions are not listed as
 * models. Families:
 *   dpi_call_seconds      histogram   a call, from its wish for a context to its scores
 *   dpi_wait_seconds      histogram   of that, the wait for a context, or in a batcher until its chunk runs
 *   dpi_call_rows         histogram   rows of a call
 *   dpi_chunk_rows        histogram   rows of a batcher's chunk, whose requests count as calls
 *   dpi_stage_seconds     histogram   one call in sixteen, by stage: resolve, fetch, lookup, compute, copy.
 *                         Of one chunk in sixteen, each request: its own resolve, the chunk's other stages
 *   dpi_call_quantile_seconds, dpi_stage_quantile_seconds   gauges: quantiles of all calls so far, within
 *                         5 %; label q: 0.5, 0.9, 0.99, 0.999
 *   dpi_model_host_bytes, dpi_model_device_bytes            tables and weights
 *   and what dpi_model_counters_json counts: dpi_ and the key, with _total if it only grows; _ms and _us are
 *   given in _seconds. After a swap those of features, tiers and stores are the new version's.
 * Bounds are powers of two, each octave divided evenly by 4, or by 16 with DPI_METRICS_FINE, from 1.024 us
 * or 1 row on. Control characters in names of models and endpoints are escaped as in dpi_error. Buffer and
 * result as those of the *_json functions; a flag that this version does not know gives 0. After fork() a
 * child's page is empty until it loads a model. */
DPI_API size_t dpi_metrics(dpi_env* env, uint32_t flags, char* buf, size_t cap) DPI_NOEXCEPT;

/* With option slow_us above 0: the last 64 calls that took as long, oldest first. A list of objects:
 *   at_ms         when it ended, in milliseconds of the epoch
 *   code          its status
 *   version       that scored it
 *   took_us       the call
 *   wait_us       of that, the wait for a context, or in a batcher until its chunk runs
 *   resolve_us, fetch_us, lookup_us, compute_us, copy_us
 *                 its stages, on the calling thread; but for resolve the chunk's, if it shared one
 *   rows, shared_rows
 *   tier_misses   ids whose row the host tier did not have
 *   ids           an object: by feature, how many ids the call gave
 * No values are kept. With the option every call is timed stage by stage, and one that was slow takes a lock
 * of the model to be kept. Off by default: the list is empty then. */
DPI_API size_t dpi_model_slow_json(const dpi_model* model, char* buf, size_t cap) DPI_NOEXCEPT;
/* The same over all versions of an endpoint. */
DPI_API size_t dpi_endpoint_slow_json(const dpi_endpoint* endpoint, char* buf, size_t cap) DPI_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif /* DPI_METRICS_H */
