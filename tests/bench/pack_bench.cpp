// What packing a request costs the calling thread: requests of the paper's two data sets in each layout that
// a caller may hand over, 16 requests in turn so that ids come from a cache that other work shares. The best
// of the turns within a second.
//
//   pack_bench [rows]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/request/resolve.hpp"

namespace {

using namespace dpi;

constexpr size_t kRequests = 16;
constexpr int64_t kCriteo[] = {44,   99,   122,   41,     220,    112,    80,     69,    92,     6,
                               27,   37,   72,    1446,   554,    157339, 117822, 306,   18,     11882,
                               630,  5,    39530, 5131,   156656, 3176,   28,     11043, 148913, 12,
                               4560, 2003, 5,     154564, 18,     17,     53031,  82,    40955};
constexpr int64_t kAvazu[] = {26,      9,    4, 9, 9,    4051, 5461, 27,  6545, 400, 33,  820509,
                              2903322, 7259, 7, 6, 2556, 10,   11,   434, 6,    70,  173, 62};

FeatureSpec feature(size_t k, FeatureKind kind, int64_t vocab) {
  FeatureSpec f;
  f.name = "f" + std::to_string(k);
  f.kind = kind;
  f.vocab_size = vocab;
  f.missing = Missing::kPad;
  return f;
}

/// A request of `rows` rows in one layout.
struct Request {
  std::vector<int64_t> ids, offsets;
  std::vector<float> weights, dense;
  Batch batch;
};

struct Case {
  const char* name;
  std::vector<FeatureSpec> features;
  bool slot_major = false, offsets = false, weights = false;
  int64_t bag = 1;  // ids of one bag
};

Request make_request(const Case& c, int64_t rows, uint32_t seed) {
  std::mt19937 rng(seed);
  Request r;
  std::vector<int64_t> vocabs;
  int64_t floats = 0;
  for (const FeatureSpec& f : c.features) {
    const bool ids = f.kind == FeatureKind::kCategorical || f.kind == FeatureKind::kSequence;
    ids ? vocabs.push_back(f.vocab_size) : static_cast<void>(++floats);
  }
  const auto slots = static_cast<int64_t>(vocabs.size());
  for (int64_t b = 0; b < rows * slots; ++b) {
    const auto limit =
        static_cast<uint64_t>(vocabs[static_cast<size_t>(c.slot_major ? b / rows : b % slots)]);
    r.offsets.push_back(static_cast<int64_t>(r.ids.size()));
    for (int64_t k = 0; k < c.bag; ++k) r.ids.push_back(static_cast<int64_t>(rng() % limit));
  }
  r.offsets.push_back(static_cast<int64_t>(r.ids.size()));
  r.weights.assign(r.ids.size(), 1.0f);
  for (int64_t k = 0; k < rows * floats; ++k) r.dense.push_back(static_cast<float>(k % 97));
  r.batch.item.rows = rows;
  r.batch.item.ids = r.ids.data();
  r.batch.item.nnz = static_cast<int64_t>(r.ids.size());
  r.batch.item.dense = r.dense.data();
  if (c.offsets) r.batch.item.offsets = r.offsets.data();
  if (c.weights) r.batch.item.weights = r.weights.data();
  r.batch.slot_major = c.slot_major;
  return r;
}

double microseconds() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void fail(const Status& s) {
  std::fprintf(stderr, "%s\n", s.message().c_str());
  std::exit(1);
}

/// The best microseconds of packing one request, their mean over the requests.
void time_case(const Case& c, int64_t rows) {
  const ResolveSchema schema = make_resolve_schema(c.features);
  auto map = make_input_map(schema, rows, rows * c.bag + 1);
  if (!map.ok()) fail(map.status());
  std::vector<Request> requests;
  for (size_t i = 0; i < kRequests; ++i)
    requests.push_back(make_request(c, rows, static_cast<uint32_t>(i) + 1));
  std::vector<std::byte> block(static_cast<size_t>(map->bytes) + 64);
  auto* at = block.data() + (64 - reinterpret_cast<uintptr_t>(block.data()) % 64);
  std::vector<FeatureCounters> counters(c.features.size());
  RowRange range;
  range.end = rows;
  ResolvedRows resolved;
  std::vector<double> best(kRequests, 1e9);
  for (const double begin = microseconds(); microseconds() - begin < 1e6;) {
    for (size_t i = 0; i < kRequests; ++i) {
      const double start = microseconds();
      const Status s = resolve_rows(schema, *map, requests[i].batch, range, at, counters.data(), &resolved);
      best[i] = std::min(best[i], microseconds() - start);
      if (!s.ok()) fail(s);
    }
  }
  const double us = std::accumulate(best.begin(), best.end(), 0.0) / kRequests;
  const auto ids = static_cast<double>(requests[0].ids.size() + requests[0].dense.size());
  std::printf("%-34s %8.2f us  %6.3f ns a value\n", c.name, us, 1e3 * us / ids);
}

std::vector<FeatureSpec> one_hot(const int64_t* vocabs, size_t n) {
  std::vector<FeatureSpec> all;
  for (size_t k = 0; k < n; ++k) all.push_back(feature(k, FeatureKind::kCategorical, vocabs[k]));
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 2048;
  const std::vector<FeatureSpec> criteo = one_hot(kCriteo, std::size(kCriteo)),
                                 avazu = one_hot(kAvazu, std::size(kAvazu));
  std::vector<FeatureSpec> numeric(criteo.begin(), criteo.begin() + 26);
  for (size_t k = 0; k < 13; ++k) numeric.push_back(feature(26 + k, FeatureKind::kNumeric, 0));
  std::vector<FeatureSpec>
      apart;  // a categorical feature and a sequence in turn: ids do not lie side by side
  for (size_t k = 0; k < 24; ++k)
    apart.push_back(
        feature(k, k % 6 == 5 ? FeatureKind::kSequence : FeatureKind::kCategorical, avazu[k].vocab_size));
  FeatureSpec history = feature(0, FeatureKind::kSequence, 1 << 20), weighted = history;
  history.max_len = weighted.max_len = 50;
  weighted.weighted = true;
  const Case cases[] = {{"criteo, rows", criteo},
                        {"criteo, rows, offsets", criteo, false, true},
                        {"criteo, rows, offsets, weights", criteo, false, true, true},
                        {"criteo, columns", criteo, true},
                        {"criteo, columns, offsets", criteo, true, true},
                        {"avazu, rows", avazu},
                        {"avazu, columns", avazu, true},
                        {"26 ids and 13 floats, rows", numeric},
                        {"26 ids and 13 floats, columns", numeric, true},
                        {"ids apart, rows", apart},
                        {"ids apart, rows, offsets", apart, false, true},
                        {"ids apart, columns", apart, true},
                        {"a history of 50", {history}, false, true, false, 50},
                        {"a history of 50, weighted", {weighted}, false, true, true, 50}};
  for (const Case& c : cases) time_case(c, rows);
  return 0;
}
