/* endpoint.h - a name that always answers with its current version: hot swap, rollback, a followed folder.
 * Beside dpi.h, whose conventions hold here too. Since version 1.1 (symbols DPI_1.1).
 *
 *   dpi_endpoint *ctr = NULL;
 *   if (dpi_endpoint_create("ctr", options, &ctr, &e) != DPI_OK) ...;
 *   if (dpi_endpoint_load(ctr, "ctr-monday.h5", 0, &e) != DPI_OK) ...;   (each new bundle, from any thread)
 *   dpi_endpoint_predict(ctr, &batch, score, 2, NULL, &e);               (any number of threads meanwhile)
 *   dpi_endpoint_free(ctr);
 *
 * Thread safety: everything but dpi_endpoint_free may be called from any number of threads at once. A predict
 * waits for no load, switch or rollback. Loads of one endpoint run one after the other, a rollback beside
 * them. After fork() a child gets DPI_E_FORKED (0 where there is no status): create endpoints in the child,
 * where every name is free again. dpi_endpoint_free releases nothing there.
 * Messages of component "endpoint", in the order of what happened:
 *   info   a version serves
 *   warn   a load failed; recording fails; a rollback; a kept version was freed early; a followed folder
 *          cannot be read; a delta in the folder has no base there; a sound file in the folder is not loaded,
 *          and why
 */
#ifndef DPI_ENDPOINT_H
#define DPI_ENDPOINT_H
#include <dpi/dpi.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- endpoints ----------------------------------------------------------------------------------------- */
typedef struct dpi_endpoint dpi_endpoint;

/* name: 1 to 128 bytes. Names are unique within the environment of `options`; a second endpoint of a
 * name is DPI_E_INVALID_ARGUMENT. options may be NULL and may be freed. They hold for every model that the
 * endpoint loads, but memory_limit bounds all its versions together, and progress and cancel flag of
 * dpi_options_set_progress are not used. One thread (dpi-endpoint, all signals but those of faults blocked)
 * frees kept versions and follows a folder. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_create(const char* name, const dpi_options* options,
                                                     dpi_endpoint** out, dpi_error* error) DPI_NOEXCEPT;
/* Stops a load (its caller gets DPI_E_CANCELLED), joins the thread, waits for running predicts. Only
 * predicts and loads that already run may overlap it. Models of dpi_endpoint_acquire stay. */
DPI_API void dpi_endpoint_free(dpi_endpoint* endpoint) DPI_NOEXCEPT;
/* Keys (an unknown one is DPI_E_NOT_FOUND, a bad value DPI_E_INVALID_ARGUMENT), from the next load or look
 * on:
 *   keep_seconds             0 ... 604800     300    how long the previous version stays for a rollback
 *   golden                   on | off         on     recompute golden rows, if any, before a version serves
 *   warm_up_rows             0 ... 1048576    64     dpi_model_warm_up before a version serves; 0 = none
 *   follow_ms                1 ... 3600000    1000   pause between two looks into a followed folder
 *   back_off_ms              1 ... 86400000   60000  the longest pause; each error doubles follow_ms
 *   update.bytes_per_second  0 ... 2^40       0      bytes that a load may read and copy; 0 = no limit
 *   update.spare_rows        0 ... 100        1      percent of free rows behind a table in memory
 *   record.path              path | off       off    file of requests and scores (weights/RECORD.md)
 *   record.share             0 ... 1          0.01   share of requests that are recorded
 *   record.bytes             65536 ... 2^40   2^28   most bytes of a file; then it becomes PATH.1
 *   record.bytes_per_second  0 ... 2^40       2^22   most bytes recorded per second; 0 = no limit
 * keep_seconds: a kept version goes earlier, with a message, if a new one does not fit beside it. back_off_ms
 * also bounds how long until a file is tried again. update.bytes_per_second counts tables, keys, deltas, and
 * what is hashed and folded. update.spare_rows: for rows that deltas change, of tables of 4 MiB or more.
 * record.*: at once. A path begins or ends recording: a thread (dpi-record) writes, for `dpi replay`, what
 * drawn calls copy into a buffer of 8 MiB. A file that is there becomes PATH.1 if it is a record file; else,
 * or if another recorder writes it, DPI_E_INVALID_ARGUMENT, and nothing is recorded. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_set(dpi_endpoint* endpoint, const char* key, const char* value,
                                                  dpi_error* error) DPI_NOEXCEPT;

/* Loads a bundle or a delta beside the version that serves, and switches to it once it has passed: digests,
 * signature (option require_signature), what callers rely on, memory, golden rows, warm-up. Returns when the
 * new version serves and the version kept before is freed. A failed load leaves everything as it was; error
 * and dpi_endpoint_status_json have the reason.
 * number: the version's, 1 ... 9223372036854775807; 0 = one more than any that served. A number above that
 * maximum, or of a version that serves or is kept, is DPI_E_INVALID_ARGUMENT.
 * What callers rely on (else DPI_E_UNSUPPORTED, by name): the same features in number, order, name, kind,
 * part (shared or not) and dim, ids or keys as before; weights and raw values taken as before; no id or
 * missing value refused that was taken, so vocabularies may grow, and shrink where a rule covers ids outside;
 * the same heads in number, order and name. The first version sets it. A version that accepts more widens it.
 * A log callback that hears of an endpoint, or of a load of it, may not load, follow or subscribe with it:
 * DPI_E_INVALID_ARGUMENT. Where both versions do not fit into memory_limit, or into free memory, the load is
 * DPI_E_OUT_OF_MEMORY with the numbers.
 *
 * The first bytes of `path` say whether it is a bundle or a delta (weights/DELTA.md). A delta gives the
 * version that the whole new bundle would give. It starts from the version that serves; from another one it
 * is DPI_E_BAD_MODEL, which names both. One already applied (the last 4096 are known) is DPI_OK and changes
 * nothing, nor the number. A delta is read and checked whole before anything changes. Tables that it does
 * not name are those of the version before: neither read nor copied, while store.share is on and
 * require_signature is off. With require_signature the delta and the resulting version must both be signed,
 * and everything is read and hashed. Of other tables in memory, each MiB in which a row changes is read and
 * hashed; only changed rows are copied from the file. A table whose zero rows a mask asks for is read whole.
 * Changed rows lie in spare rows until no version reads the old ones, and are then copied over them.
 * A table is made anew in memory if more rows change than are free, if padding's row changes, if rows move as
 * keys come and go, or if weights change that are folded into its rows.
 * Applied deltas stay open as a chain, with 8 to 16 bytes for each row that they name. After 64 deltas, or
 * once they have more bytes than a quarter of the bundle and 64 MiB, the chain is copied to one unnamed file
 * beside the last delta. If that fails the chain goes on, with a message, up to 256 deltas and open files;
 * the next delta is DPI_E_IO, and the copy is tried again. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_load(dpi_endpoint* endpoint, const char* path, uint64_t number,
                                                   dpi_error* error) DPI_NOEXCEPT;
/* The version before the current one serves again at once. The current one is freed when its calls have
 * ended, and a followed folder does not bring it back. DPI_E_NOT_FOUND if none is kept. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_rollback(dpi_endpoint* endpoint, dpi_error* error) DPI_NOEXCEPT;

/* dpi_predict and dpi_predict_flat on the version that is current when the call begins. It scores all rows of
 * the call; the run options' version, or *version (NULL = not wanted), receives its number. DPI_E_NOT_FOUND
 * before the first load. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_predict(dpi_endpoint* endpoint, const dpi_batch* batch,
                                                      float* out, size_t out_len, const dpi_run_options* run,
                                                      dpi_error* error) DPI_NOEXCEPT;
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_predict_flat(
    dpi_endpoint* endpoint, int64_t rows, const float* dense, size_t dense_len, int64_t dense_stride,
    const int64_t* ids, size_t ids_len, const int64_t* offsets, size_t offsets_len, const float* weights,
    size_t weights_len, int32_t layout, float* out, size_t out_len, uint64_t deadline_ns,
    const volatile int32_t* cancel, uint64_t* version, dpi_error* error) DPI_NOEXCEPT;
/* The current version as a model, for what belongs to one: schema, encoders, contexts, rows, tables,
 * counters. dpi_model_free gives it back. It and everything made of it work until then, whatever the endpoint
 * loads. Its memory stays too, and memory_limit does not count it once the endpoint has dropped the version.
 * dpi_model_info has its number. Ids that its dpi_rows encoded are valid for this version only. Its calls
 * contend on one counter: to predict on the current version, use dpi_endpoint_predict. DPI_E_NOT_FOUND
 * before the first load. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_acquire(dpi_endpoint* endpoint, dpi_model** out,
                                                      dpi_error* error) DPI_NOEXCEPT;
/* Number of the current version, 0 = none. One read: to see whether an acquired model is current. */
DPI_API uint64_t dpi_endpoint_version(const dpi_endpoint* endpoint) DPI_NOEXCEPT;
/* Returns when a version of this number or a higher one serves. deadline_ns: as in dpi_run_options;
 * DPI_E_TIMEOUT once it passed. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_wait(dpi_endpoint* endpoint, uint64_t number,
                                                   uint64_t deadline_ns, dpi_error* error) DPI_NOEXCEPT;

/* From now on the endpoint's thread looks into `folder` and loads the file v<number>.h5 (v0007.h5) or
 * v<number>.delta of the highest number above all that served. It reaches a delta by the shortest chain from
 * the version that serves, else from a bundle of the folder; versions on the way do not serve. Numbers order
 * files; hashes in their heads say which starts from which. The status lists a delta that nothing leads to,
 * with both hashes, and each look tries it again. A process that starts anew reaches the same version from
 * the same files, bit for bit: no other state is kept.
 * Files must come whole, by rename. A file that is refused, as by dpi_endpoint_load, is listed in the
 * status, and the next lower number gets its turn. It is tried again when it is replaced; after a pause if
 * the error was not the file's (memory, I/O); and after a rollback if it was DPI_E_UNSUPPORTED. A missing
 * folder is looked for again. Other names in the folder are ignored. Another call follows another folder. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_follow(dpi_endpoint* endpoint, const char* folder,
                                                     dpi_error* error) DPI_NOEXCEPT;
/* No look begins after this; a running load finishes. This and dpi_endpoint_follow end a subscription. */
DPI_API void dpi_endpoint_unfollow(dpi_endpoint* endpoint) DPI_NOEXCEPT;

/* Follows `folder`, and a thread (dpi-stream) writes deltas of a stream there: v<number>.delta with the next
 * number, written through to its disk and named by rename. The folder must exist, on a local disk, and serves
 * one subscription. `source` is kafka://host:port[,host:port]/topic[/partition], then ? and key=value pairs
 * separated by &, with %41 for a byte:
 *   group        dpi-<endpoint>-<host name>   whose offsets are committed. Each endpoint needs its own, since
 *                                             each gets every delta
 *   properties   none                         file of key=value lines for librdkafka: TLS, SASL, passwords
 *                                             (they are never shown)
 *   max_bytes    67108864                     of a delta, 1024 ... 1073741824. The client queues as much, and
 *                                             an answer of as much may be under way
 * The plugin libdpi_kafka.so (package libdpi1-kafka) is opened then; DPI_E_NOT_FOUND says what is missing. A
 * wrong setting is an error of this call. A broker that does not answer is not: it is tried again, and
 * "client" of the status reports it.
 * A message is validated whole first. The folder's end is the version of its newest whole bundle and the
 * deltas behind it. A delta that starts from the folder's end is written there; its offset is committed when
 * the endpoint serves it. Others:
 *   no delta, or damaged      skipped, counted as "skipped", reported
 *   there already             skipped, counted as "duplicates"
 *   starts from elsewhere     held: the stream is read from its oldest message on for one that fits; messages
 *                             before it are passed over ("passed_over"). If there is none, "state" is "gap",
 *                             nothing is committed, and the search begins again when the folder gets another
 *                             whole bundle. A delta above max_bytes, or of a newer format, is held too
 *   refused by the endpoint   "state" is "refused" until the endpoint takes the delta, or serves a whole
 *                             bundle of a higher number
 * The folder needs a whole bundle to begin with. A later whole bundle needs a number above the deltas'.
 * Deltas below a whole bundle are removed once it, or a delta behind it, serves. After dpi_endpoint_rollback
 * the stream stands still until a whole bundle of a higher number serves.
 * A delta may come in several messages: header dpi-part "1/3", "2/3", "3/3", one after the other. Another
 * call ends the previous subscription. In a log callback this is DPI_E_INVALID_ARGUMENT (dpi_endpoint_load),
 * and dpi_endpoint_unsubscribe and dpi_endpoint_unfollow do nothing. */
DPI_API DPI_NODISCARD dpi_status dpi_endpoint_subscribe(dpi_endpoint* endpoint, const char* source,
                                                        const char* folder, dpi_error* error) DPI_NOEXCEPT;
/* Ends it without waiting for a broker. The folder keeps its files and is still followed. */
DPI_API void dpi_endpoint_unsubscribe(dpi_endpoint* endpoint) DPI_NOEXCEPT;

/* An object; a key without a value is left out.
 *   name, loads, failed_loads, rollbacks, highest_served (number)
 *   failures    failed loads by code
 *   counters    of calls on all versions so far: calls, rows, nonfinite_rows, waits, errors (by code)
 *   memory      of all versions: held_host_bytes and held_device_bytes, allocated and not yet given back;
 *               forecast_bytes of those that serve or are kept, contexts included
 *   version     of the current version, 0 if none; with it digest, path, since_ms (of the epoch), bytes
 *               (forecast, all contexts), unhashed_bytes (of these, still to hash for the next delta)
 *   recording   once record.path was set: path, share, recorded, bytes, dropped (full, rate, large, failed),
 *               code and error of the last failure
 *   kept        the same of the kept version, and seconds_left
 *   loading     path, stage, done and total of a running load
 *   last_load   path, version, at_ms, seconds, code and error (0 and "" if it served)
 *   history     the last 32 events, oldest first: event (load, failed_load, rollback), path, version, from
 *               (of a rollback), at_ms, seconds, times (the same failure, one after the other), code, error
 *   follows     folder, code and error of the last look, and refused: one object per file with path, version,
 *               tries, code, error; not_taken: up to 32 with path, version, reason
 *   stream      of a subscription: source, group, state (starting, no_bundle, reading, searching, gap,
 *               waiting, refused, error) with code and error, waits_for (a version), offset (all below it is
 *               done), committed, end, lag_messages, lag_seconds (age of the oldest message read and not
 *               done), staleness_seconds (since the message of the version that serves), versions_behind (in
 *               the folder), applied, duplicates, skipped, passed_over, removed (deltas of the folder), gap
 *               (offset, messages, error), last_skipped (offset, code, error), client (code, error: what is
 *               wrong with the brokers now) */
DPI_API size_t dpi_endpoint_status_json(const dpi_endpoint* endpoint, char* buf, size_t cap) DPI_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif /* DPI_ENDPOINT_H */
