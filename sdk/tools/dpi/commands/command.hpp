// The commands of the program `dpi`: what each is asked to do. One file per command; flags.cpp says how one
// asks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/tools/dpi/csv/csv.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"
#include "sdk/tools/dpi/shared/common_flags.hpp"

namespace dpi::tool {

struct InspectArgs {
  CommonFlags common;
  std::string bundle;
  bool graph = false, json = false;
};

struct PlanArgs {
  CommonFlags common;
  std::string bundle, fold, schedule;
  bool dot = false, json = false, implementations = false;
};

struct PredictArgs {
  CommonFlags common;
  std::string bundle, rows, output, label, head;
  bool raw = false, users = false, summary = false, json = false;
  int64_t batch = 256;
  CsvLimits limits;

  bool wants_summary() const { return summary || !label.empty(); }
};

struct DiffArgs {
  CommonFlags common;
  std::string old, next, rows, label, head, request;
  bool raw = false, json = false;
  int64_t batch = 256, worst = 5;
  double limit = -1;  // below 0: none
  CsvLimits limits;

  bool limited() const { return limit >= 0; }
};

struct ReplayArgs {
  CommonFlags common;
  std::string file, bundle;
  bool json = false;
  double limit = -1;  // below 0: none

  bool limited() const { return limit >= 0; }
};

struct VerifyArgs {
  CommonFlags common;
  std::string bundle;
  double tolerance = 0;
  bool sha256 = false, json = false;
};

struct BenchArgs {
  CommonFlags common;
  std::string bundle;
  std::vector<int64_t> batches = {1, 16, 64, 256, 1024};
  std::vector<int> callers = {1};
  std::vector<int64_t> users;  // empty: rows without a shared part
  int64_t pool = 32768;        // rows that calls draw from
  double seconds = 1;
  bool profile = false, json = false;
};

struct DevicesArgs {
  std::string backend_dir;
  bool json = false;
};

struct SignArgs {
  std::string bundle, key, remove;
};

struct StoreArgs {
  std::string action, bundle, rocksdb, redis, backend_dir;
  std::vector<std::string> tables, settings, deltas;
  std::string require_signature;  // of deltas
  uint64_t bytes_per_second = 0;  // that update writes at most; 0 = any
  bool json = false;
};

struct HotKeysArgs {
  CommonFlags common;
  std::string bundle, out;
  std::vector<std::string> data, tables;
  int64_t top = 0;                      // rows of each table, 0 = all
  uint64_t bytes = 0;                   // of rows of all tables, 0 = all
  uint64_t memory = uint64_t{1} << 30;  // that counting may take
  bool raw = false, json = false;
  CsvLimits limits;
};

struct RepackArgs {
  std::string input, output, key, python = "python3";
  int64_t limit = 0;  // bytes that the data may unpack to; 0 = the package's own limit
  bool no_golden = false, json = false;
};

struct DeltaArgs {
  std::string base, next, output, key, require_signature, python = "python3";
  std::vector<std::string> deltas;
  bool json = false;
};

/// They return an exit code or throw CommandError.
int inspect(const InspectArgs& args);
int plan(const PlanArgs& args);
int predict(const PredictArgs& args);
int diff(const DiffArgs& args);
int replay(const ReplayArgs& args);
int verify(const VerifyArgs& args);
int bench(const BenchArgs& args);
int devices(const DevicesArgs& args);
int keygen(const std::string& path);
int sign(const SignArgs& args);
int repack(const RepackArgs& args);
int delta_make(const DeltaArgs& args);
int delta_show(const DeltaArgs& args);
int delta_apply(const DeltaArgs& args);
int store(const StoreArgs& args);
int store_update(const StoreArgs& args);
int hot_keys(const HotKeysArgs& args);
int print_version(bool as_json);

}  // namespace dpi::tool
