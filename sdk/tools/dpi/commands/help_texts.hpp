// The texts of --help behind the flags: what each command does, with examples.
#pragma once

namespace dpi::tool {

inline constexpr const char* kFooter = R"(Examples:
  dpi inspect model.h5
  dpi predict model.h5 rows.csv --raw --label clicked --summary
  dpi predict model.h5 rows.csv > scores.csv
  dpi diff monday.h5 tuesday.h5 rows.csv --request session
  dpi replay requests.rec tuesday.h5
  dpi plan model.h5 --dot | dot -Tsvg > plan.svg
  dpi verify model.h5 --device cpu
  dpi bench model.h5 --batch 1,64,1024 --callers 1,2
'dpi COMMAND --help' says more.

Exit status: 0 done; 1 wrong usage; 2 the model refused the rows (the text names file:line:column, column = number of the cell);
3 the bundle cannot be read or is not supported; 4 verification failed; 5 no such device or store, or it failed; 6 any other error.)";

inline constexpr const char* kInspectFooter =
    R"(Prints provenance, features with their rules, tables, heads, and a forecast of the model's memory. It does not load tables.

Examples:
  dpi inspect model.h5
  dpi inspect model.h5 --graph
  dpi inspect model.h5 --json | jq .memory)";

inline constexpr const char* kPlanFooter =
    R"(Prints the plan: ops in issue order with streams and events, values with their offsets in memory, tables, and what each pass did
or refused. --implementations also loads the model and prints the kernel of each op on --device, and why others were refused.

Examples:
  dpi plan model.h5 --schedule depth
  dpi plan model.h5 --fold off --json
  dpi plan model.h5 --dot | dot -Tsvg > plan.svg
  dpi plan model.h5 --device cpu --implementations)";

inline constexpr const char* kPredictFooter =
    R"(CSV (RFC 4180): the header holds feature names in any order. An empty cell is a missing value. A bag is a|b|c, with weights
a:w|b:w. The elements of a vector are in columns name[0], name[1], ... Cells are ids and numbers. With --raw the bundle's encoders
read them, and a bag is split at the bundle's own separator if it states one, instead of at |. Columns that are not features are
ignored with a note.

At the end the program prints how many values of each feature were unknown, out of range or missing, and warns if half of them or more
were: on stderr, or in the summary (--json: of every feature). A value that cannot be read ends the program, with line and column.

--users: adjacent rows with equal values of all user features are one user's candidates, computed once. Scores stay the same.

Scores: CSV, one column per head, %.9g. The file of --output appears only after every row was scored. On standard output a refused row
ends the scores; if it is among the first --batch rows, nothing is written. The same holds for --output in a folder where the program
may not create a file: it writes in place.

Examples:
  dpi predict model.h5 rows.csv > scores.csv
  dpi predict model.h5 rows.csv --raw --label clicked --summary
  dpi predict model.h5 rows.csv --users --batch 512
  zcat rows.csv.gz | dpi predict model.h5 - --output scores.csv)";

inline constexpr const char* kDiffFooter =
    R"(Scores the rows of a CSV file with both bundles and compares heads of the same name: means, |new - old|, and the rows that moved most
with the cells of their features. The CSV form is that of dpi predict; a column need only be a feature of one of the two. The models are
loaded one after the other, and the file is read three times. Memory: a score takes 4 bytes of a model, a row 16.

--request names the column that says which request a row is of. Pairs of rows of a request that the old model scores differently are
counted, those that the new one puts the other way round, and requests whose first row is another. A pair that the new model scores
equally has not changed places.

--label prints AUC and log loss of both. --limit ends with exit status 4 when a score moved by more: for a script that decides on a swap.

Examples:
  dpi diff monday.h5 tuesday.h5 rows.csv
  dpi diff monday.h5 tuesday.h5 rows.csv --raw --request session --label clicked
  dpi diff model.h5 smaller.h5 rows.csv --limit 0.01 --json)";

inline constexpr const char* kReplayFooter =
    R"(Scores the requests of a record file (endpoint settings record.*; format: weights/RECORD.md) with the bundle, one call each, and
compares the scores with those recorded: rows with the same bits, means, |replayed - recorded|, and the latency of both. The same bundle
gives the same bits on the same machine with the same options; requests that shared a batcher's chunk do so with determinism=strict.
Another bundle must have the same schema: features, vocabularies, encoders and heads.

A file that is still being written, or whose writer was killed, is replayed up to its last whole request, and the output says so. A
damaged file is refused, with the byte (exit status 2).

--limit ends with exit status 4 when a score moved by more: for a script that decides on a swap.

Examples:
  dpi replay requests.rec monday.h5
  dpi replay requests.rec tuesday.h5 --limit 0.05 --json
  dpi replay requests.rec monday.h5 --device ref)";

inline constexpr const char* kVerifyFooter =
    R"(Checks digest and hash of every byte and loads the model. Then it scores the golden rows and compares scores and logits with those
that the training framework recorded: |ours - golden| <= tolerance max(1, |golden|), with the bundle's tolerance for the row. It also
encodes the raw cells of golden rows, and compares every id and float.

Examples:
  dpi verify model.h5
  dpi verify model.h5 --device ref --json
  dpi verify model.h5 --sha256
  dpi verify model.h5 --option require_signature=team.key.pub)";

inline constexpr const char* kBenchFooter =
    R"(Scores random rows (the same on every run) and measures each dpi_predict call. --callers is the number of host threads that call at
once, --threads the threads that share one call. --profile runs the model op by op, on its own context, and prints the share of the call
that ops take. The rest is checking and packing rows, copies and waiting. With --users its call has the last number of users. Calls go
through a pool of rows, batch after batch, so table rows are as cold as in a service. --pool 1 scores one batch again, out of the caches.

--users measures each batch twice: with the users' features given once per user (the shared part), and repeated on every row. 'faster' is
the speed-up by the fastest call of each, measured in turns. 'counted' is the speed-up that the plan's multiply-adds allow if those on
shared rows run once per user.

Examples:
  dpi bench model.h5
  dpi bench model.h5 --batch 1,16,256,4096 --callers 1,2 --device cpu
  dpi bench ranking.h5 --batch 500 --users 1,8
  dpi bench model.h5 --batch 256 --profile)";

inline constexpr const char* kKeygenFooter =
    R"(Writes FILE, the secret key, readable by its owner only, and FILE.pub. Services that load bundles need only the public key.

Example:
  dpi keygen team.key)";

inline constexpr const char* kSignFooter =
    R"(Checks every hash of the bundle and adds a signature by the key, in place of an older one by the same key. Signatures by
other keys stay, so a bundle can be signed with the next key before services drop the old one.

Examples:
  dpi sign model.h5 --key team.key
  dpi sign model.h5 --remove 6f0c9f1d23ab57e48d1c0b9a7e5f4321
  dpi verify model.h5 --option require_signature=team.key.pub)";

inline constexpr const char* kRepackFooter =
    R"(Makes a bundle from an HDF5 file that has a bundle's contents: edited with h5py, chunked, compressed, or of an older format. It runs
the Python package dpi_export, which is installed beside this program. A separate process, which may neither open a file nor reach the
network, reads IN. Golden rows are recomputed unless --no-golden is given. OUT appears whole or not at all.

Examples:
  dpi repack edited.h5 model.h5
  dpi repack old.h5 model.h5 --key team.key --json)";

inline constexpr const char* kDeltaFooter =
    R"(A delta holds the changes between two versions of one model: rows of tables, keys, dense weights, new entries of vocabularies. The
old bundle and the delta give the new bundle, bit for bit, with its signatures. A bundle's version is a hash of its contents: dpi inspect
prints it. A delta names its base and its new version, and dpi delta apply refuses a bundle of another version.

Examples:
  dpi delta make monday.h5 tuesday.h5 tuesday.delta --key team.key
  dpi delta show tuesday.delta
  dpi delta apply monday.h5 tuesday.delta wednesday.delta --output wednesday.h5
'dpi delta COMMAND --help' says more.)";

inline constexpr const char* kDeltaMakeFooter =
    R"(Compares the two bundles block by block; it does not read tables whose hashes are equal. It refuses changes that a delta cannot
carry: another schema or graph, other shapes, fewer rows of a table with row numbers, vocabulary entries that moved. It runs the Python
package dpi_export, which is installed beside this program. OUT appears whole or not at all.

Examples:
  dpi delta make monday.h5 tuesday.h5 tuesday.delta
  dpi delta make monday.h5 tuesday.h5 tuesday.delta --key team.key --json)";

inline constexpr const char* kDeltaShowFooter =
    R"(Checks every digest, list and shape of the delta, and prints what it changes. No bundle is needed.

Examples:
  dpi delta show tuesday.delta
  dpi delta show tuesday.delta --require-signature team.key.pub --json | jq .tables)";

inline constexpr const char* kDeltaApplyFooter =
    R"(Applies the deltas to BASE, in their order, and writes the new bundle. Each delta must start from the version that the one before
produces. A delta already applied to BASE is reported and skipped, so an interrupted command can be repeated. Every byte of the result is
compared with the hashes that the exporter wrote. OUTPUT may be BASE: a rename replaces it when the new bundle is complete and on disk.
The disk needs room for the new bundle beside OUTPUT. Memory does not depend on the size of the tables.

Examples:
  dpi delta apply monday.h5 tuesday.delta --output tuesday.h5
  dpi delta apply model.h5 tuesday.delta wednesday.delta --output model.h5 --require-signature team.key.pub)";

inline constexpr const char* kStoreFooter =
    R"(Keeps a bundle's tables in RocksDB (a folder) or Redis (a server or a cluster), named by table and content: bundles with different
tables do not disturb each other. Bundles with external tables read them there (store.rocksdb_path, store.redis_address). The actions:
load    writes missing tables, resumes after an interruption, and rewrites rows that Redis has lost, also while models read
stat    counts rows and names missing ones (exit code 5), the sequence number and the writer
verify  reads every row back and compares it with the bundle's
update  changes rows of complete tables in place by a chain of deltas, while models read them. The bundle is the one whose tables were
        loaded, or a later version of the chain. Repeat the command after an interruption. --bytes-per-second spares the store's readers
drop    removes the tables

Examples:
  dpi store load model.h5 --rocksdb /srv/rows
  dpi store verify model.h5 --rocksdb /srv/rows --table user
  dpi store load model.h5 --redis 10.0.0.1:6379,10.0.0.2:6379 --setting password=secret
  dpi store update monday.h5 --delta tuesday.delta --delta wednesday.delta --redis 10.0.0.1:6379 --bytes-per-second 20000000
  dpi store drop model.h5 --redis 10.0.0.1:6379 --json
  dpi store hot-keys --help)";

inline constexpr const char* kHotKeysFooter =
    R"(Reads requests from CSV files in the form of dpi predict, and writes a list of the table rows that they look up, hottest first.
A load with option store.hot_keys=FILE fills the host tier with these rows. Ids are counted as lookups see them: after encoders (--raw),
rules for missing and unknown values, and cuts of bags. A list is valid for this bundle's tables only; it changes no score.

Counting takes at most --memory bytes, shared by the tables. If a table has more rows in use than fit, the rarest are dropped, and
its counts may be too low; the program prints the largest error. The model is loaded with a host tier of 64 MiB unless an --option
store.* says otherwise, so its tables need not fit into memory.

Examples:
  dpi store hot-keys model.h5 --data monday.csv tuesday.csv --out model.hot
  dpi store hot-keys model.h5 --data rows.csv --raw --table user --top 1000000 --out model.hot
  zcat log.csv.gz | dpi store hot-keys model.h5 --data - --bytes 2000000000 --out model.hot --json
  dpi predict model.h5 rows.csv --option store.host_bytes=2000000000 --option store.hot_keys=model.hot)";

}  // namespace dpi::tool
