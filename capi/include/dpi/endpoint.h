/* endpoint.h - a named place that always answers with its current version: hot swap, rollback, a folder that is followed. Beside dpi.h, whose
 * conventions hold here too. Since version 1.1 (symbols DPI_1.1).
 *
 *   dpi_endpoint *ctr = NULL;
 *   if (dpi_endpoint_create("ctr", options, &ctr, &e) != DPI_OK) ...;
 *   if (dpi_endpoint_load(ctr, "ctr-monday.h5", 0, &e) != DPI_OK) ...;     (and whenever there is a new bundle, from any thread)
 *   dpi_endpoint_predict(ctr, &batch, score, 2, NULL, &e);                  (from any number of threads, also meanwhile)
 *   dpi_endpoint_free(ctr);
 *
 * Thread safety: everything but dpi_endpoint_free may be called from any number of threads at once. A predict waits for no load, switch or
 * rollback. Loads of one endpoint run one after the other, a rollback beside them.
 * After fork() a child gets DPI_E_FORKED (0 where there is no status): make endpoints in the child. Its environment has none then, and takes
 * every name. dpi_endpoint_free gives nothing back there.
 * Messages of component "endpoint": info: a version serves; warn: a load failed, a rollback, a kept version that went before its time, a
 * followed folder that cannot be read, a delta of it that nothing leads to.
 */
#ifndef DPI_ENDPOINT_H
#define DPI_ENDPOINT_H
#include <dpi/dpi.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- endpoints --------------------------------------------------------------------------------------------------------- */
typedef struct dpi_endpoint dpi_endpoint;

/* name: 1 to 128 bytes, one endpoint of a name in each environment (of `options`; DPI_E_INVALID_ARGUMENT for a second). options may be NULL and may
 * be freed: those of all models that the endpoint loads. Its memory_limit stands for all versions that are there at once, in place
 * of one model; progress and cancel flag of dpi_options_set_progress are not used. One thread (dpi-endpoint, all signals but those of faults
 * blocked) frees kept versions and follows a folder. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_create(const char* name, const dpi_options* options, dpi_endpoint** out,
                                                     dpi_error* error) DPI_NOEXCEPT;
/* Stops a load (its caller gets DPI_E_CANCELLED), joins the thread, waits for predicts that run. No other call may begin or, predicts and
 * loads excepted, run then. Models of dpi_endpoint_acquire stay. */
DPI_API void dpi_endpoint_free(dpi_endpoint* endpoint) DPI_NOEXCEPT;
/* Keys (an unknown one is DPI_E_NOT_FOUND, a bad value DPI_E_INVALID_ARGUMENT), from the next load or look on:
 *   keep_seconds   0 ... 604800     300     how long the version before stays for dpi_endpoint_rollback; it goes earlier, with a message, where a new
 *                                           version does not fit beside it
 *   golden         on | off         on      recompute the bundle's golden rows before a version serves; a bundle may have none
 *   warm_up_rows   0 ... 1048576    64      dpi_model_warm_up of so many rows before a version serves; 0 = none
 *   follow_ms      1 ... 3600000    1000    pause between two looks into a followed folder
 *   back_off_ms    1 ... 86400000   60000   the longest such pause, and the longest until a file is tried again: pauses double after errors
 *   update.bytes_per_second  0 ... 2^40  0  that a load reads and copies at most of tables, keys, deltas, what it hashes and folds; 0 = as fast as it goes
 *   update.spare_rows  0 ... 100    1       percent of its rows that a table in memory of 4 MiB or more has free behind them, for rows that deltas change */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_set(dpi_endpoint* endpoint, const char* key, const char* value, dpi_error* error) DPI_NOEXCEPT;

/* `path` is a bundle, or a delta (weights/DELTA.md): which, its first bytes say. A delta gives the version that the whole new bundle would give;
 * what else is said here of bundles holds for both.
 * A delta starts from the version that serves: from another one it is DPI_E_BAD_MODEL and names both. One that was had already (the last 4096
 * are known) is DPI_OK and changes nothing, the number neither. It is read and checked whole before anything changes. Tables that it does not
 * name are those of the version before: neither read nor copied where store.share is on. Where require_signature is set the delta and the
 * version that it gives must both be signed, and everything is read and hashed.
 * Of a table in memory of which some rows change only these are read (a mask may not ask which of its rows are zero). They lie in spare rows until no
 * version reads the old ones at home, and are copied there then. A table is made anew, in memory, from the old one and what changes, where more
 * rows change than are free, padding's row does, rows move as keys come and go, or weights change that are folded into its rows.
 * Deltas are kept open, a chain, with 8 to 16 bytes for each row that they name: after 64, or more bytes than a quarter of the bundle (64 MiB at the
 * least), the chain is copied to one file without a name, where the last delta lies. Where that fails it goes on, with a message, up to 256
 * deltas, which are as many open files: the next one is DPI_E_IO, and the chain is tried to be copied again.
 *
 * Loads a bundle beside the version that serves, and switches to it when it has passed: digests, signature (option require_signature), what
 * callers rely on, memory, golden rows, warm-up. Returns when the new version serves and the one that is dropped for it is freed. What
 * fails leaves everything as it was; the reason is in error and in dpi_endpoint_status_json. number: what the version is called, 1 ...
 * 9223372036854775807; 0 = one more than any that served. A higher one, or one that serves or is kept already, is DPI_E_INVALID_ARGUMENT.
 * What callers rely on (else DPI_E_UNSUPPORTED, by name): the same features in number, order, name, kind, part (shared or not) and dim, ids
 * or keys as before; weights and raw values taken as before; no id or missing value refused that was taken, so vocabularies may grow, and
 * shrink where ids outside follow a rule; the same heads in number, order and name. The first version sets it, each one may widen it.
 * A log callback that hears of an endpoint, or of a load of it, may not load, follow or subscribe with it: DPI_E_INVALID_ARGUMENT.
 * Where both versions do not fit into memory_limit, or into free memory, the load is DPI_E_OUT_OF_MEMORY with the numbers. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_load(dpi_endpoint* endpoint, const char* path, uint64_t number, dpi_error* error) DPI_NOEXCEPT;
/* The version before the current one serves again, at once; the current one is freed when its calls have ended, and a followed folder does not
 * bring it back. DPI_E_NOT_FOUND when none is kept. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_rollback(dpi_endpoint* endpoint, dpi_error* error) DPI_NOEXCEPT;

/* dpi_predict and dpi_predict_flat on the version that is current when the call begins; all rows of a call are scored by it, and the run
 * options' version, or *version (NULL = not wanted), says which. DPI_E_NOT_FOUND as long as nothing was loaded. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_predict(dpi_endpoint* endpoint, const dpi_batch* batch, float* out, size_t out_len,
                                                      const dpi_run_options* run, dpi_error* error) DPI_NOEXCEPT;
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_predict_flat(dpi_endpoint* endpoint, int64_t rows, const float* dense, size_t dense_len,
                                                           int64_t dense_stride, const int64_t* ids, size_t ids_len, const int64_t* offsets,
                                                           size_t offsets_len, const float* weights, size_t weights_len, int32_t layout,
                                                           float* out, size_t out_len, uint64_t deadline_ns, const volatile int32_t* cancel,
                                                           uint64_t* version, dpi_error* error) DPI_NOEXCEPT;
/* The current version as a model, for what belongs to one: schema, encoders, contexts, rows, tables, counters. dpi_model_free gives it back; it
 * and whatever was made of it work until then, whatever the endpoint loads, and so does its memory stay, which memory_limit does not count once
 * the endpoint has dropped the version. Its number is in dpi_model_info. Ids that dpi_rows has encoded are its version's. Counts on a line
 * that callers share: for a predict on what is current there is dpi_endpoint_predict. DPI_E_NOT_FOUND as long as nothing was loaded. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_acquire(dpi_endpoint* endpoint, dpi_model** out, dpi_error* error) DPI_NOEXCEPT;
/* Number of the current version, 0 = none: one load, to see whether an acquired model is current. */
DPI_API uint64_t dpi_endpoint_version(const dpi_endpoint* endpoint) DPI_NOEXCEPT;
/* Returns when a version of this number or a higher one serves. deadline_ns: as in dpi_run_options; DPI_E_TIMEOUT when it passed. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_wait(dpi_endpoint* endpoint, uint64_t number, uint64_t deadline_ns, dpi_error* error) DPI_NOEXCEPT;

/* From now on the endpoint's thread looks into `folder` and loads the file v<number>.h5 (v0007.h5), or v<number>.delta, of the highest number, if that
 * is above all that ever served. To a delta it goes by the fewest deltas of the folder from what serves, else from a bundle of the folder; versions
 * on the way do not serve. Numbers order them, what starts from what their heads say by hashes. A delta that nothing leads to is told
 * with both hashes, and looked at again each time. So a process that starts anew comes to the same version, bit for bit, by the same
 * files: no state of its own is kept.
 * Files are to come by rename, whole. One that is refused, as by dpi_endpoint_load, is told in the status; the next lower number
 * gets its turn, and the file is tried again when it is replaced, after a pause where the file is not at fault, and after a
 * rollback where it was DPI_E_UNSUPPORTED. A folder that is not there is
 * looked for on. Any other name in the folder is not looked at. Another call follows another folder. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_follow(dpi_endpoint* endpoint, const char* folder, dpi_error* error) DPI_NOEXCEPT;
/* No look begins after this; a load that runs is finished. This and dpi_endpoint_follow end a subscription. */
DPI_API void dpi_endpoint_unfollow(dpi_endpoint* endpoint) DPI_NOEXCEPT;

/* Follows `folder`, and has a thread (dpi-stream) that brings deltas there from a stream, each as v<number>.delta with the next number, written through
 * to its disk and named by rename. `source` is kafka://host:port[,host:port]/topic[/partition], behind a ? key=value parted by &, %41 for a byte:
 *   group        dpi-<endpoint>-<host name>   whose offsets are committed: one of its own for each endpoint, since each gets every delta
 *   properties   none                         a file of key=value lines for librdkafka: TLS, SASL, passwords (they are never shown)
 *   max_bytes    67108864                     of a delta, 1024 ... 1073741824; the client queues as much, and an answer of as much may be under way
 * The plugin libdpi_kafka.so (package libdpi1-kafka) is opened then; DPI_E_NOT_FOUND says what is missing. A wrong setting is an error of this call, a broker
 * that does not answer is not: it is tried again, and "client" of the status tells. The folder has to be there, on a local disk, for one subscription.
 * A message is validated whole before anything else. One that starts from the version that the folder ends with (its newest whole bundle and the
 * deltas behind it) is written there; when the endpoint serves it, its offset is committed. Others:
 *   no delta, or damaged       passed over, counted as "skipped", told
 *   there already              passed over, counted as "duplicates"
 *   starts from elsewhere      held: the stream is read from its oldest message on for one that fits, which makes those before it old ones
 *                              ("passed_over"). There is none: "state" is "gap", nothing is committed, and the search begins again when the folder gets
 *                              another whole bundle. Longer than max_bytes, or of a newer format: held too
 *   refused by the endpoint    "state" is "refused": it waits until the endpoint takes the delta, or serves a whole bundle of a higher number
 * The folder needs a whole bundle to begin with; a new one takes a number above the deltas'. Deltas below a whole bundle are removed when that,
 * or what follows on it, serves. After dpi_endpoint_rollback the stream stands still until a whole bundle of a higher number serves.
 * A delta in several messages: header dpi-part "1/3", "2/3", "3/3", one after the other. Another call ends the subscription before.
 * In a log callback this is DPI_E_INVALID_ARGUMENT (dpi_endpoint_load), and dpi_endpoint_unsubscribe and dpi_endpoint_unfollow do nothing. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_subscribe(dpi_endpoint* endpoint, const char* source, const char* folder,
                                                        dpi_error* error) DPI_NOEXCEPT;
/* Ends it, and waits for no broker; the folder is followed on. What is in it stays. */
DPI_API void dpi_endpoint_unsubscribe(dpi_endpoint* endpoint) DPI_NOEXCEPT;

/* "name", "loads", "failed_loads", "rollbacks", "failures" (failed loads by code), and of the current version "version" (0: none, and no more of it), "digest", "path", "since_ms" (of the
 * epoch), "bytes" (forecast, all contexts), "unhashed_bytes" (of it, which the endpoint's thread has still to hash for the next delta). "kept": the same of the version that is kept, and "seconds_left". "loading": "path", "stage",
 * "done" and "total" of a load that runs. "last_load": "path", "version", "at_ms", "seconds", "code" and "error" (0 and "" when it
 * served). "follows": "folder", "code" and "error" of the last look, and "refused", one object per file: "path", "version", "tries", "code",
 * "error". "stream": of a subscription "source", "group", "state" (starting, no_bundle, reading, searching, gap, waiting, refused, error), "code" and "error" of it,
 * "waits_for" (a version), "offset" (below it all is done), "committed", "end", "lag_messages", "lag_seconds" (age of the oldest message that is read and not done),
 * "staleness_seconds" (since the message of the version that serves), "versions_behind" (in the folder), "applied", "duplicates", "skipped", "passed_over",
 * "removed" (deltas of the folder), "gap" ("offset", "messages", "error"), "last_skipped" ("offset", "code", "error"), "client" ("code", "error": what is wrong with the
 * brokers now). What there is none of is left out. */
DPI_API size_t dpi_endpoint_status_json(const dpi_endpoint* endpoint, char* buf, size_t cap) DPI_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif /* DPI_ENDPOINT_H */
