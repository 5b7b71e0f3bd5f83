// What loads cost the callers of an endpoint: the p99 of their calls while nothing is loaded, and while
// updates are loaded one after the other at update.bytes_per_second. Callers send at a fixed pace, a share of
// what they could do (open loop: a call that is late does not put off those behind it), and a latency counts
// from when its call was due, so that waiting for a processor is in it. Quiet and busy turns take turns,
// since a machine changes. Beside it the same with callers that never pause.
#include <dpi/endpoint.h>
#include <getopt.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr const char* kHelp =
    "endpoint_update_bench [options] BUNDLE UPDATE...\n"
    "  BUNDLE serves first; UPDATEs (bundles, deltas) are loaded in turn, so the last one has to lead back\n"
    "  --rate N       update.bytes_per_second, 0 = any               50000000\n"
    "  --every S      seconds from the begin of an update to the next at least   1\n"
    "  --callers N    threads that predict                           2\n"
    "  --rows N       of a call                                      64\n"
    "  --share F      of capacity that paced callers ask for         0.3\n"
    "  --seconds S    of a turn                                      4\n"
    "  --rounds N     quiet turns, and busy ones                     4\n"
    "  --device NAME  cpu, cuda                                      cpu\n"
    "  --set KEY=VALUE   an option of dpi_options_set; may come again\n"
    "  --json         one object instead of lines\n"
    "  --help         this\n"
    "Latencies are microseconds. p99 x: the busy turns' p99 over the quiet ones'.\n";

struct Settings {
  std::string rate = "50000000", device = "cpu", bundle;
  double every = 1, share = 0.3, seconds = 4;
  int callers = 2, rows = 64, rounds = 4;
  std::vector<std::string> options, updates;
  bool json = false;
};

double now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

void sleep_us(double us) {
  if (us > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(us * 1e3)));
}

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "endpoint_update_bench: %s\n", text.c_str());
  std::exit(1);
}

void require(dpi_status status, const dpi_error& e) {
  if (status != DPI_OK) fail(e.message);
}

/// Rows of any ids, several batches: rows come from the whole of the tables.
class Requests {
 public:
  Requests(dpi_endpoint* endpoint, int rows, uint64_t seed) : random_(seed) {
    dpi_error e = DPI_ERROR_INIT;
    dpi_model* model = nullptr;
    require(dpi_endpoint_acquire(endpoint, &model, &e), e);
    info_.struct_size = sizeof info_;
    require(dpi_model_get_info(model, &info_, &e), e);
    const auto n = static_cast<size_t>(rows);
    score_.resize(n * static_cast<size_t>(info_.num_heads));
    batches_.resize(kBatches);
    for (Batch& b : batches_) {
      b.ids.resize(n * static_cast<size_t>(info_.num_slots));
      b.dense.resize(n * static_cast<size_t>(info_.dense_dim));
      for (float& v : b.dense) v = static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
      for (int32_t f = 0; f < info_.num_features; ++f) fill(model, f, n, &b);
      b.batch.struct_size = sizeof b.batch;
      b.batch.rows = rows;
      b.batch.ids = b.ids.data();
      b.batch.nnz = static_cast<int64_t>(b.ids.size());
      b.batch.dense = b.dense.data();
    }
    dpi_model_free(model);
  }
  void predict(dpi_endpoint* endpoint) {
    dpi_error e = DPI_ERROR_INIT;
    const dpi_batch& batch = batches_[next_++ % kBatches].batch;
    require(dpi_endpoint_predict(endpoint, &batch, score_.data(), score_.size(), nullptr, &e), e);
  }

 private:
  static constexpr size_t kBatches = 64;
  struct Batch {
    std::vector<int64_t> ids;
    std::vector<float> dense;
    dpi_batch batch{};
  };
  void fill(const dpi_model* model, int32_t feature, size_t rows, Batch* b) {
    dpi_error e = DPI_ERROR_INIT;
    dpi_feature_info f{};
    f.struct_size = sizeof f;
    require(dpi_model_get_feature(model, feature, &f, &e), e);
    for (size_t r = 0; f.slot >= 0 && r < rows; ++r)
      b->ids[r * static_cast<size_t>(info_.num_slots) + static_cast<size_t>(f.slot)] =
          static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(f.vocab_size, 1)));
  }

  std::mt19937_64 random_;
  dpi_model_info info_{};
  std::vector<Batch> batches_;
  std::vector<float> score_;
  size_t next_ = 0;
};

/// Of the calls of a turn: from when they were due, and from when they began.
struct Times {
  std::vector<double> due, begun;
  void add(const Times& more) {
    due.insert(due.end(), more.due.begin(), more.due.end());
    begun.insert(begun.end(), more.begun.begin(), more.begun.end());
  }
};

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  const auto at = static_cast<size_t>(q * static_cast<double>(v.size() - 1));
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(at), v.end());
  return v[at];
}

class Bench {
 public:
  explicit Bench(const Settings& settings) : s_(settings) {
    dpi_error e = DPI_ERROR_INIT;
    dpi_options* o = dpi_options_create();
    require(dpi_options_set(o, "device", s_.device.c_str(), &e), e);
    for (const std::string& pair : s_.options) {
      const size_t at = pair.find('=');
      if (at == std::string::npos) fail("--set " + pair + ": KEY=VALUE is expected");
      require(dpi_options_set(o, pair.substr(0, at).c_str(), pair.substr(at + 1).c_str(), &e), e);
    }
    require(dpi_endpoint_create("bench", o, &endpoint_, &e), e);
    dpi_options_free(o);
    require(dpi_endpoint_set(endpoint_, "keep_seconds", "0", &e), e);
    require(dpi_endpoint_load(endpoint_, s_.bundle.c_str(), 0, &e), e);
    require(dpi_endpoint_set(endpoint_, "update.bytes_per_second", s_.rate.c_str(), &e), e);
    for (int i = 0; i < s_.callers; ++i)
      requests_.emplace_back(endpoint_, s_.rows, static_cast<uint64_t>(i) + 1);
  }
  ~Bench() { dpi_endpoint_free(endpoint_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// every_us 0 = one call after the other.
  Times quiet(double every_us, double seconds) {
    std::vector<Times> took(requests_.size());
    std::vector<std::thread> callers;
    const double begin = now_us() + 1000;
    for (size_t i = 0; i < took.size(); ++i) {
      const double first = begin + every_us * static_cast<double>(i) / static_cast<double>(took.size());
      callers.emplace_back([&, i, first] { call(&requests_[i], first, every_us, seconds, &took[i]); });
    }
    for (std::thread& t : callers) t.join();
    for (size_t i = 1; i < took.size(); ++i) took[0].add(took[i]);
    return std::move(took[0]);
  }
  Times busy(double every_us, double seconds) {
    std::atomic<bool> stop{false};
    std::thread loader([&] { load_in_turn(&stop); });
    Times took = quiet(every_us, seconds);
    stop.store(true);
    loader.join();
    return took;
  }
  int loads() const { return loads_; }
  double load_seconds() const { return load_seconds_ / std::max(1, loads_); }

 private:
  void call(Requests* requests, double due, double every_us, double seconds, Times* took) {
    prctl(PR_SET_TIMERSLACK, 1000UL);  // else a sleep ends up to 50 us late
    took->due.reserve(1 << 20);
    took->begun.reserve(1 << 20);
    for (const double end = due + seconds * 1e6; due < end; due = every_us > 0 ? due + every_us : now_us()) {
      for (double left = due - now_us(); left > 0; left = due - now_us()) sleep_us(left);
      const double began = now_us();
      requests->predict(endpoint_);
      const double done = now_us();
      took->due.push_back(done - due);
      took->begun.push_back(done - began);
    }
  }
  void load_in_turn(const std::atomic<bool>* stop) {
    dpi_error e = DPI_ERROR_INIT;
    while (!stop->load()) {
      const double began = now_us();
      const std::string& path = s_.updates[next_++ % s_.updates.size()];
      require(dpi_endpoint_load(endpoint_, path.c_str(), 0, &e), e);
      load_seconds_ += (now_us() - began) * 1e-6;
      ++loads_;
      while (!stop->load() && now_us() < began + s_.every * 1e6) sleep_us(5000);
    }
  }

  const Settings s_;
  dpi_endpoint* endpoint_ = nullptr;
  std::vector<Requests> requests_;
  size_t next_ = 0;
  int loads_ = 0;
  double load_seconds_ = 0;
};

struct Pace {
  const char* name;
  Times quiet, busy;
  std::vector<double> ratios;  // of each round
  int loads = 0;
  double load_seconds = 0;
};

Pace measure(const Settings& s, const char* name, double every_us, int rounds) {
  Bench bench(s);
  static_cast<void>(bench.quiet(every_us, 0.5));
  Pace p{name, {}, {}, {}, 0, 0};
  for (int i = 0; i < rounds; ++i) {
    const Times quiet = bench.quiet(every_us, s.seconds), busy = bench.busy(every_us, s.seconds);
    p.ratios.push_back(quantile(busy.due, 0.99) / quantile(quiet.due, 0.99));
    p.quiet.add(quiet);
    p.busy.add(busy);
  }
  p.loads = bench.loads();
  p.load_seconds = bench.load_seconds();
  return p;
}

double times(const Pace& p) { return quantile(p.busy.due, 0.99) / quantile(p.quiet.due, 0.99); }

void print_lines(const Pace& p) {
  std::printf("%s\n", p.name);
  for (const auto& [what, t] : {std::pair("quiet", &p.quiet), {"busy", &p.busy}})
    std::printf("  %-6s %8zu calls: p50 %7.0f  p99 %7.0f  p99.9 %7.0f us (from their begin: p99 %.0f)\n",
                what, t->due.size(), quantile(t->due, 0.5), quantile(t->due, 0.99), quantile(t->due, 0.999),
                quantile(t->begun, 0.99));
  std::printf("  %d loads of %.3f s; p99 x %.2f; of each round:", p.loads, p.load_seconds, times(p));
  for (const double ratio : p.ratios) std::printf(" %.2f", ratio);
  std::printf("\n");
}

void print_json(const Pace& p) {
  std::printf(",\"%s\":{", p.name);
  for (const auto& [what, t] : {std::pair("quiet", &p.quiet), {"busy", &p.busy}})
    std::printf("\"%s\":{\"calls\":%zu,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"p99_from_begin\":%.1f},",
                what, t->due.size(), quantile(t->due, 0.5), quantile(t->due, 0.99), quantile(t->due, 0.999),
                quantile(t->begun, 0.99));
  std::printf("\"loads\":%d,\"seconds_a_load\":%.3f,\"p99_times\":%.3f,\"rounds\":[", p.loads, p.load_seconds,
              times(p));
  for (size_t i = 0; i < p.ratios.size(); ++i) std::printf("%s%.3f", i == 0 ? "" : ",", p.ratios[i]);
  std::printf("]}");
}

/// False: what is wrong has been said.
bool read_settings(int argc, char** argv, Settings* s) {
  const option known[] = {
      {"rate", 1, nullptr, 'r'},   {"every", 1, nullptr, 'e'},  {"callers", 1, nullptr, 'c'},
      {"rows", 1, nullptr, 'n'},   {"share", 1, nullptr, 'f'},  {"seconds", 1, nullptr, 's'},
      {"rounds", 1, nullptr, 'k'}, {"device", 1, nullptr, 'd'}, {"set", 1, nullptr, 'o'},
      {"json", 0, nullptr, 'j'},   {"help", 0, nullptr, 'h'},   {nullptr, 0, nullptr, 0}};
  for (int c = 0; (c = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    if (c == 'r') s->rate = optarg;
    if (c == 'e') s->every = std::atof(optarg);
    if (c == 'c') s->callers = std::atoi(optarg);
    if (c == 'n') s->rows = std::atoi(optarg);
    if (c == 'f') s->share = std::atof(optarg);
    if (c == 's') s->seconds = std::atof(optarg);
    if (c == 'k') s->rounds = std::atoi(optarg);
    if (c == 'd') s->device = optarg;
    if (c == 'o') s->options.emplace_back(optarg);
    if (c == 'j') s->json = true;
    if (c == 'h') {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    if (c == '?') return false;
  }
  if (optind < argc) s->bundle = argv[optind++];
  s->updates.assign(argv + optind, argv + argc);
  const bool sound = s->callers > 0 && s->rows > 0 && s->rounds > 0 && s->share > 0 && s->share < 1 &&
                     s->seconds > 0 && s->every >= 0 && !s->updates.empty();
  if (!sound) std::fputs(kHelp, stderr);
  return sound;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  if (!read_settings(argc, argv, &s)) return 2;
  double calls_a_second = 0;
  {
    Bench bench(s);
    static_cast<void>(bench.quiet(0, 0.5));
    calls_a_second = static_cast<double>(bench.quiet(0, 2).due.size()) / 2;
  }
  const double every_us = s.callers * 1e6 / (s.share * calls_a_second);
  if (s.json)
    std::printf("{\"bundle\":\"%s\",\"rate\":%s,\"callers\":%d,\"rows\":%d,\"capacity\":%.0f,\"share\":%.2f",
                s.bundle.c_str(), s.rate.c_str(), s.callers, s.rows, calls_a_second, s.share);
  else
    std::printf("%s at %s bytes a second, %d callers of %d rows: %.0f calls a second, paced at %.2f of it\n",
                s.bundle.c_str(), s.rate.c_str(), s.callers, s.rows, calls_a_second, s.share);
  const auto print = s.json ? print_json : print_lines;
  print(measure(s, "paced", every_us, s.rounds));
  print(measure(s, "saturated", 0, std::max(1, s.rounds / 2)));
  if (s.json) std::printf("}\n");
  return 0;
}
