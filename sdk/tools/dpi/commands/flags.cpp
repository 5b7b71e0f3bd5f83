// The one file that compiles CLI11: its header takes longer than most files of ours.
#include "sdk/tools/dpi/commands/flags.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/first_word.hpp"
#include "sdk/tools/dpi/commands/option_list.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

constexpr const char* kFooter = R"(Examples:
  dpi inspect model.h5
  dpi predict model.h5 rows.csv --raw --label clicked --summary
  dpi predict model.h5 rows.csv > scores.csv
  dpi plan model.h5 --dot | dot -Tsvg > plan.svg
  dpi verify model.h5 --device cpu
  dpi bench model.h5 --batch 1,64,1024 --callers 1,2
'dpi COMMAND --help' says more.

Exit status: 0 done; 1 wrong usage; 2 the model refused the rows (the text names file:line:column, column = number of the cell);
3 the bundle cannot be read or is not supported; 4 verification failed; 5 no such device or store, or it failed; 6 any other error.)";

constexpr const char* kInspectFooter =
    R"(Prints provenance, features with their rules, tables, heads, and a forecast of the model's memory. It does not load tables.

Examples:
  dpi inspect model.h5
  dpi inspect model.h5 --graph
  dpi inspect model.h5 --json | jq .memory)";

constexpr const char* kPlanFooter =
    R"(Prints the plan: ops in issue order with streams and events, values with their offsets in memory, tables, and what each pass did
or refused. --implementations also loads the model and prints the kernel of each op on --device, and why others were refused.

Examples:
  dpi plan model.h5 --schedule depth
  dpi plan model.h5 --fold off --json
  dpi plan model.h5 --dot | dot -Tsvg > plan.svg
  dpi plan model.h5 --device cpu --implementations)";

constexpr const char* kPredictFooter =
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

constexpr const char* kVerifyFooter =
    R"(Checks digest and hash of every byte and loads the model. Then it scores the golden rows and compares scores and logits with those
that the training framework recorded: |ours - golden| <= tolerance max(1, |golden|), with the bundle's tolerance for the row. It also
encodes the raw cells of golden rows, and compares every id and float.

Examples:
  dpi verify model.h5
  dpi verify model.h5 --device ref --json
  dpi verify model.h5 --sha256
  dpi verify model.h5 --option require_signature=team.key.pub)";

constexpr const char* kBenchFooter =
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

constexpr const char* kKeygenFooter =
    R"(Writes FILE, the secret key, readable by its owner only, and FILE.pub. Services that load bundles need only the public key.

Example:
  dpi keygen team.key)";

constexpr const char* kSignFooter =
    R"(Checks every hash of the bundle and adds a signature by the key, in place of an older one by the same key. Signatures by
other keys stay, so a bundle can be signed with the next key before services drop the old one.

Examples:
  dpi sign model.h5 --key team.key
  dpi sign model.h5 --remove 6f0c9f1d23ab57e48d1c0b9a7e5f4321
  dpi verify model.h5 --option require_signature=team.key.pub)";

constexpr const char* kRepackFooter =
    R"(Makes a bundle from an HDF5 file that has a bundle's contents: edited with h5py, chunked, compressed, or of an older format. It runs
the Python package dpi_export, which is installed beside this program. A separate process, which may neither open a file nor reach the
network, reads IN. Golden rows are recomputed unless --no-golden is given. OUT appears whole or not at all.

Examples:
  dpi repack edited.h5 model.h5
  dpi repack old.h5 model.h5 --key team.key --json)";

constexpr const char* kDeltaFooter =
    R"(A delta holds the changes between two versions of one model: rows of tables, keys, dense weights, new entries of vocabularies. The
old bundle and the delta give the new bundle, bit for bit, with its signatures. A bundle's version is a hash of its contents: dpi inspect
prints it. A delta names its base and its new version, and dpi delta apply refuses a bundle of another version.

Examples:
  dpi delta make monday.h5 tuesday.h5 tuesday.delta --key team.key
  dpi delta show tuesday.delta
  dpi delta apply monday.h5 tuesday.delta wednesday.delta --output wednesday.h5
'dpi delta COMMAND --help' says more.)";

constexpr const char* kDeltaMakeFooter =
    R"(Compares the two bundles block by block; it does not read tables whose hashes are equal. It refuses changes that a delta cannot
carry: another schema or graph, other shapes, fewer rows of a table with row numbers, vocabulary entries that moved. It runs the Python
package dpi_export, which is installed beside this program. OUT appears whole or not at all.

Examples:
  dpi delta make monday.h5 tuesday.h5 tuesday.delta
  dpi delta make monday.h5 tuesday.h5 tuesday.delta --key team.key --json)";

constexpr const char* kDeltaShowFooter =
    R"(Checks every digest, list and shape of the delta, and prints what it changes. No bundle is needed.

Examples:
  dpi delta show tuesday.delta
  dpi delta show tuesday.delta --require-signature team.key.pub --json | jq .tables)";

constexpr const char* kDeltaApplyFooter =
    R"(Applies the deltas to BASE, in their order, and writes the new bundle. Each delta must start from the version that the one before
produces. A delta already applied to BASE is reported and skipped, so an interrupted command can be repeated. Every byte of the result is
compared with the hashes that the exporter wrote. OUTPUT may be BASE: a rename replaces it when the new bundle is complete and on disk.
The disk needs room for the new bundle beside OUTPUT. Memory does not depend on the size of the tables.

Examples:
  dpi delta apply monday.h5 tuesday.delta --output tuesday.h5
  dpi delta apply model.h5 tuesday.delta wednesday.delta --output model.h5 --require-signature team.key.pub)";

constexpr const char* kStoreFooter =
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

constexpr const char* kHotKeysFooter =
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

/// CLI11's own check tells the largest double.
CLI::Validator above_zero() {
  return {[](std::string& text) {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && value > 0 ? std::string() : "expected a number above 0, got '" + text + "'";
          },
          "POSITIVE"};
}

void add_common_flags(CLI::App* app, CommonFlags* flags) {
  app->add_option("--device", flags->device, option_help("device"));
  app->add_option("--precision", flags->precision, option_help("precision"));
  app->add_option("--threads", flags->threads, option_help("threads"))->check(above_zero());
  app->add_option("--option", flags->options, "any other as key=value (dpi --options); may be repeated")
      ->allow_extra_args(false);
}

void add_inspect(CLI::App* app, Command* run) {
  auto args = std::make_shared<InspectArgs>();
  CLI::App* sub = app->add_subcommand("inspect", "Show the contents of a bundle");
  sub->footer(kInspectFooter);
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_flag("--graph", args->graph, "the ops, with shapes and row spaces");
  sub->add_flag("--json", args->json, "as JSON");
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return inspect(*args); }; });
}

void add_plan(CLI::App* app, Command* run) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* sub = app->add_subcommand("plan", "Show the plan of a bundle: what runs, in which order");
  sub->footer(kPlanFooter);
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_option("--fold", args->fold, "algebraic folds (default on)")->check(CLI::IsMember({"on", "off"}));
  sub->add_option("--schedule", args->schedule, option_help("debug.schedule"))
      ->check(CLI::IsMember({"breadth", "depth", "single"}));
  sub->add_flag("--implementations", args->implementations, "load the model and name each op's kernel");
  auto* dot = sub->add_flag("--dot", args->dot, "as a graph for Graphviz");
  sub->add_flag("--json", args->json, "as JSON")->excludes(dot);
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return plan(*args); }; });
}

void add_predict(CLI::App* app, Command* run) {
  auto args = std::make_shared<PredictArgs>();
  CLI::App* sub = app->add_subcommand("predict", "Score the rows of a CSV file");
  sub->footer(kPredictFooter);
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_option("rows", args->rows, "a CSV file; - reads standard input")->required();
  sub->add_option("-o,--output", args->output, "write the scores to this file (default -: standard output)");
  sub->add_flag("--raw", args->raw, "cells are raw values, read by the bundle's encoders");
  sub->add_flag("--users", args->users,
                "adjacent rows with equal user features form one user, computed once");
  sub->add_option("--label", args->label, "column with the label, 0 or 1: prints AUC and log loss");
  sub->add_option("--head", args->head, "which head the label belongs to (default: the first)");
  sub->add_flag("--summary", args->summary, "print a summary; scores only with --output");
  sub->add_flag("--json", args->json, "the summary as JSON");
  sub->add_option("--batch", args->batch, "rows per call")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  sub->add_option("--max-cell-bytes", args->limits.cell_bytes, "refuse a longer cell")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--max-row-bytes", args->limits.row_bytes, "refuse a longer row")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--max-columns", args->limits.columns, "refuse a row of more cells")
      ->check(above_zero())
      ->capture_default_str();
  add_common_flags(sub, &args->common);
  sub->callback([args, run] {
    if (args->json && !args->wants_summary())
      throw CLI::ValidationError("--json", "is the form of a summary: give --summary or --label too");
    *run = [args] { return predict(*args); };
  });
}

void add_verify(CLI::App* app, Command* run) {
  auto args = std::make_shared<VerifyArgs>();
  CLI::App* sub = app->add_subcommand("verify", "Check a bundle's digests and recompute its golden rows");
  sub->footer(kVerifyFooter);
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_option("--tolerance", args->tolerance, "instead of the bundle's own")->check(above_zero());
  sub->add_flag("--sha256", args->sha256, "print the file's SHA-256");
  sub->add_flag("--json", args->json, "the result as JSON");
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return verify(*args); }; });
}

void add_bench(CLI::App* app, Command* run) {
  auto args = std::make_shared<BenchArgs>();
  CLI::App* sub = app->add_subcommand("bench", "Measure rows per second and latency");
  sub->footer(kBenchFooter);
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_option("--batch", args->batches, "rows per call, a list")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  sub->add_option("--callers", args->callers, "threads that call at once, a list")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub->add_option("--users", args->users,
                  "users among the rows of a call, a list; each user's features are given once")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  sub->add_option("--pool", args->pool, "number of different rows to score, at least one batch")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  sub->add_option("--seconds", args->seconds, "for each measurement")
      ->check(CLI::Range(0.001, 3600.0) & above_zero())  // the range takes NaN
      ->capture_default_str();
  sub->add_flag("--profile", args->profile, "time per op, for the last batch size");
  sub->add_flag("--json", args->json, "as JSON");
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return bench(*args); }; });
}

void add_devices(CLI::App* app, Command* run) {
  auto args = std::make_shared<DevicesArgs>();
  CLI::App* sub = app->add_subcommand("devices", "List the backends: usable, or refused with the reason");
  sub->footer("Example:\n  dpi devices --json");
  sub->add_option("--backend-dir", args->backend_dir, "absolute folder where plugins are looked for first");
  sub->add_flag("--json", args->json, "as JSON");
  sub->callback([args, run] { *run = [args] { return devices(*args); }; });
}

void add_keygen(CLI::App* app, Command* run) {
  auto path = std::make_shared<std::string>();
  CLI::App* sub = app->add_subcommand("keygen", "Make a key to sign bundles with");
  sub->footer(kKeygenFooter);
  sub->add_option("file", *path, "file for the secret key; it must not exist")->required();
  sub->callback([path, run] { *run = [path] { return keygen(*path); }; });
}

void add_sign(CLI::App* app, Command* run) {
  auto args = std::make_shared<SignArgs>();
  CLI::App* sub = app->add_subcommand("sign", "Sign a bundle, or remove a signature");
  sub->footer(kSignFooter);
  sub->add_option("bundle", args->bundle, "the model; its user block is changed in place")->required();
  sub->add_option("--key", args->key, "a file that dpi keygen wrote");
  sub->add_option("--remove", args->remove, "remove the signature of the key with this id");
  sub->callback([args, run] { *run = [args] { return sign(*args); }; });
}

void add_repack(CLI::App* app, Command* run) {
  auto args = std::make_shared<RepackArgs>();
  CLI::App* sub = app->add_subcommand("repack", "Make a bundle from an HDF5 file with a bundle's contents");
  sub->footer(kRepackFooter);
  sub->add_option("in", args->input, "the HDF5 file")->required();
  sub->add_option("out", args->output, "the bundle to write")->required();
  sub->add_option("--limit", args->limit,
                  "largest unpacked size in bytes (default: 64 times the file and 1 GiB)")
      ->check(above_zero());
  sub->add_option("--key", args->key, "sign with this key file");
  sub->add_option("--python", args->python, "the interpreter that has h5py and numpy")->capture_default_str();
  sub->add_flag("--no-golden", args->no_golden, "do not recompute the golden rows");
  sub->add_flag("--json", args->json, "the result as JSON");
  sub->callback([args, run] { *run = [args] { return repack(*args); }; });
}

void add_delta_make(CLI::App* app, Command* run) {
  auto args = std::make_shared<DeltaArgs>();
  CLI::App* sub = app->add_subcommand("make", "Write the changes between two bundles");
  sub->footer(kDeltaMakeFooter);
  sub->add_option("old", args->base, "the bundle that the delta starts from")->required();
  sub->add_option("new", args->next, "the bundle that it produces")->required();
  sub->add_option("out", args->output, "the delta to write")->required();
  sub->add_option("--key", args->key, "sign with this key file");
  sub->add_option("--python", args->python, "the interpreter that has h5py and numpy")->capture_default_str();
  sub->add_flag("--json", args->json, "the result as JSON");
  sub->callback([args, run] { *run = [args] { return delta_make(*args); }; });
}

void add_delta_show(CLI::App* app, Command* run) {
  auto args = std::make_shared<DeltaArgs>();
  CLI::App* sub = app->add_subcommand("show", "Check a delta and say what it changes");
  sub->footer(kDeltaShowFooter);
  sub->add_option("delta", args->deltas, "the delta")->required()->expected(1);
  sub->add_option(
      "--require-signature", args->require_signature,
      "public keys (64 hex digits or files of dpi keygen), separated by commas: one must have signed");
  sub->add_flag("--json", args->json, "as JSON");
  sub->callback([args, run] { *run = [args] { return delta_show(*args); }; });
}

void add_delta_apply(CLI::App* app, Command* run) {
  auto args = std::make_shared<DeltaArgs>();
  CLI::App* sub = app->add_subcommand("apply", "Make the new bundle from the old one and deltas");
  sub->footer(kDeltaApplyFooter);
  sub->add_option("base", args->base, "the bundle that the first delta starts from")->required();
  sub->add_option("deltas", args->deltas, "the deltas, in their order")->required();
  sub->add_option("-o,--output", args->output, "the bundle to write; may be the base")->required();
  sub->add_option("--require-signature", args->require_signature,
                  "public keys (64 hex digits or files of dpi keygen), separated by commas: one must have "
                  "signed each delta");
  sub->add_flag("--json", args->json, "the result as JSON");
  sub->callback([args, run] { *run = [args] { return delta_apply(*args); }; });
}

void add_delta(CLI::App* app, Command* run) {
  CLI::App* sub = app->add_subcommand("delta", "Changes between versions of a bundle: make, show, apply");
  sub->footer(kDeltaFooter);
  sub->require_subcommand(1);
  add_delta_make(sub, run);
  add_delta_show(sub, run);
  add_delta_apply(sub, run);
}

void add_hot_keys(CLI::App* app, Command* run) {
  auto args = std::make_shared<HotKeysArgs>();
  CLI::App* sub =
      app->add_subcommand("hot-keys", "Count which rows a log looks up, to fill a host tier with them");
  sub->footer(kHotKeysFooter);
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_option("--data", args->data, "CSV files of requests; - reads standard input")->required();
  sub->add_option("-o,--out", args->out, "the list to write")->required();
  sub->add_flag("--raw", args->raw, "cells are raw values, read by the bundle's encoders");
  sub->add_option("--table", args->tables, "only this table; may be repeated")->allow_extra_args(false);
  auto* top = sub->add_option("--top", args->top, "at most this many rows per table")->check(above_zero());
  sub->add_option("--bytes", args->bytes, "the hottest rows of all tables that fit into this many bytes")
      ->check(above_zero())
      ->excludes(top);
  sub->add_option("--memory", args->memory, "memory for counting, in bytes")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_flag("--json", args->json, "the counts as JSON");
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return hot_keys(*args); }; });
}

void add_store(CLI::App* app, Command* run) {
  auto args = std::make_shared<StoreArgs>();
  CLI::App* sub = app->add_subcommand(
      "store", "Put a bundle's tables into RocksDB or Redis, check and update them; make hot-key lists");
  sub->footer(kStoreFooter);
  add_hot_keys(sub, run);
  sub->add_option("action", args->action, "load, stat, verify, update or drop")
      ->check(CLI::IsMember({"load", "stat", "verify", "update", "drop"}));
  sub->add_option("bundle", args->bundle, "the model");
  sub->add_option("--delta", args->deltas, "update: a delta; several in their order")
      ->allow_extra_args(false);
  sub->add_option("--require-signature", args->require_signature,
                  "update: deltas must be signed by this key");
  sub->add_option("--bytes-per-second", args->bytes_per_second,
                  "update: write at most this many bytes of keys and rows (default 0: no limit)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40));
  sub->add_option("--rocksdb", args->rocksdb, "the folder of a RocksDB store");
  sub->add_option("--redis", args->redis, "host:port of a server, or of several nodes, separated by commas");
  sub->add_option("--table", args->tables, "only this table; may be repeated")->allow_extra_args(false);
  sub->add_option("--setting", args->settings, "any other setting of the store as key=value; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--backend-dir", args->backend_dir, "an absolute folder to look for plugins in first");
  sub->add_flag("--json", args->json, "the result as JSON");
  sub->callback([args, sub, run] {
    if (!sub->get_subcommands().empty()) return;
    if (args->action.empty()) throw CLI::RequiredError("action, or hot-keys");
    if (args->bundle.empty()) throw CLI::RequiredError("bundle");
    if ((args->action == "update") == args->deltas.empty())
      throw CLI::ValidationError("--delta", "is required for update, and not allowed for other actions");
    *run = [args] { return args->action == "update" ? store_update(*args) : store(*args); };
  });
}

void add_commands(CLI::App* app, Command* run) {
  add_inspect(app, run);
  add_plan(app, run);
  add_predict(app, run);
  add_verify(app, run);
  add_bench(app, run);
  add_devices(app, run);
  add_keygen(app, run);
  add_sign(app, run);
  add_repack(app, run);
  add_delta(app, run);
  add_store(app, run);
}

}  // namespace

Command parse_command_line(int argc, char** argv, int* exit_code) {
  CLI::App app("DPIFrame: score click-through-rate models", "dpi");
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  bool version = false, json = false, options = false;
  auto* const ask = app.add_flag("--version", version, "Print version and build");
  app.add_flag("--json", json, "the version as JSON")->needs(ask);
  app.add_flag("--options", options, "List the options of models: key, values, default, meaning");
  app.set_help_all_flag("--help-all", "Help of all commands");
  Command run;
  add_commands(&app, &run);
  std::vector<std::string_view> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  check_command_line(names, argc, argv);
  try {
    app.parse(argc, argv);
    if (version) return [json] { return print_version(json); };
    if (options) return print_options;
    if (run == nullptr) throw CLI::RequiredError("a command");
    return run;
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    *exit_code = app.exit(e, out, err) == 0 ? kExitOk : kExitUsage;
    print_lines(stdout, out.str());
    print_lines(stderr, err.str());
    return {};
  }
}

}  // namespace dpi::tool
