// The one file that compiles CLI11: its header takes longer than most files of ours.
#include "sdk/tools/dpi/commands/flags.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/first_word.hpp"
#include "sdk/tools/dpi/commands/help_texts.hpp"
#include "sdk/tools/dpi/commands/option_list.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

/// CLI11's own check tells the largest double.
CLI::Validator above_zero() {
  return {[](std::string& text) {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && value > 0 ? std::string() : "expected a number above 0, got '" + text + "'";
          },
          "POSITIVE"};
}

CLI::Validator not_negative() {
  return {[](std::string& text) {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && value >= 0 ? std::string()
                                           : "expected a number from 0 on, got '" + text + "'";
          },
          "NONNEGATIVE"};
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

void add_csv_limits(CLI::App* sub, CsvLimits* limits) {
  sub->add_option("--max-cell-bytes", limits->cell_bytes, "refuse a longer cell")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--max-row-bytes", limits->row_bytes, "refuse a longer row")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--max-columns", limits->columns, "refuse a row of more cells")
      ->check(above_zero())
      ->capture_default_str();
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
  add_csv_limits(sub, &args->limits);
  add_common_flags(sub, &args->common);
  sub->callback([args, run] {
    if (args->json && !args->wants_summary())
      throw CLI::ValidationError("--json", "is the form of a summary: give --summary or --label too");
    *run = [args] { return predict(*args); };
  });
}

void add_diff(CLI::App* app, Command* run) {
  auto args = std::make_shared<DiffArgs>();
  CLI::App* sub = app->add_subcommand("diff", "Compare the scores of two bundles on the rows of a CSV file");
  sub->footer(kDiffFooter);
  sub->add_option("old", args->old, "the bundle that scores are compared with")->required();
  sub->add_option("new", args->next, "the other bundle")->required();
  sub->add_option("rows", args->rows, "a CSV file")->required();
  sub->add_flag("--raw", args->raw, "cells are raw values, read by the bundles' encoders");
  sub->add_option("--request", args->request, "column whose value says which request a row is of");
  sub->add_option("--label", args->label, "column with the label, 0 or 1: AUC and log loss of both");
  sub->add_option("--head", args->head, "which head the label belongs to (default: the first of the old)");
  sub->add_option("--worst", args->worst, "how many of the rows that moved most are shown")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  sub->add_option("--limit", args->limit, "exit status 4 when a score moved by more")->check(not_negative());
  sub->add_flag("--json", args->json, "as JSON");
  sub->add_option("--batch", args->batch, "rows per call")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  add_csv_limits(sub, &args->limits);
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return diff(*args); }; });
}

void add_replay(CLI::App* app, Command* run) {
  auto args = std::make_shared<ReplayArgs>();
  CLI::App* sub =
      app->add_subcommand("replay", "Score recorded requests again and compare scores and latency");
  sub->footer(kReplayFooter);
  sub->add_option("file", args->file, "a file that an endpoint recorded (record.path)")->required();
  sub->add_option("bundle", args->bundle, "the model")->required();
  sub->add_option("--limit", args->limit, "exit status 4 when a score moved by more")->check(not_negative());
  sub->add_flag("--json", args->json, "as JSON");
  add_common_flags(sub, &args->common);
  sub->callback([args, run] { *run = [args] { return replay(*args); }; });
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
  add_diff(app, run);
  add_replay(app, run);
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
