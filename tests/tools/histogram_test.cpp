// The histogram's buckets and quantiles, against the values themselves and against numpy.
#include "base/histogram.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace dpi {
namespace {

using Buckets = LogLinear<36>;

TEST_CASE("histogram: each value lies in the bucket whose ends enclose it") {
  std::mt19937_64 random(7);
  std::vector<uint64_t> values;
  for (uint64_t v = 0; v < 5000; ++v) values.push_back(v);
  for (int e = 12; e < 40; ++e)
    for (int k = -2; k <= 2; ++k) values.push_back((uint64_t{1} << e) + static_cast<uint64_t>(k));
  for (int i = 0; i < 20000; ++i) values.push_back(random() >> (random() % 64));
  for (const uint64_t v : values) {
    const size_t i = Buckets::index(v);
    INFO(v, " in bucket ", i);
    REQUIRE(i < Buckets::kBuckets);
    if (v > (uint64_t{1} << 36)) {
      REQUIRE(i == Buckets::kOverflow);
      continue;
    }
    REQUIRE(i < Buckets::kOverflow);
    REQUIRE((v > Buckets::lower(i) || (v == 0 && i == 0)));
    REQUIRE(v <= Buckets::upper(i));
    const double low = static_cast<double>(Buckets::lower(i) + 1),
                 high = static_cast<double>(Buckets::upper(i));
    REQUIRE((high - low) / 2 <= 0.032 * low);
  }
  for (size_t i = 0; i + 1 < Buckets::kOverflow; ++i) REQUIRE(Buckets::upper(i) == Buckets::lower(i + 1));
  REQUIRE(Buckets::upper(Buckets::kOverflow - 1) == uint64_t{1} << 36);
}

/// numpy's quantiles of the values, by the same definition: the value of rank ceil(q * n).
std::vector<double> numpy_quantiles(const std::vector<uint64_t>& values, const std::string& qs) {
  const std::string path = "histogram_values_" + std::to_string(getpid());  // in the build's folder
  std::FILE* out = std::fopen(path.c_str(), "wb");
  REQUIRE(out != nullptr);
  REQUIRE(std::fwrite(values.data(), sizeof(uint64_t), values.size(), out) == values.size());
  std::fclose(out);
  const std::string command = "/usr/bin/python3 -c 'import numpy\nv = numpy.fromfile(\"" + path +
                              "\", numpy.uint64)\nfor q in [" + qs +
                              "]: print(repr(float(numpy.quantile(v, q, method=\"inverted_cdf\"))))'";
  std::vector<double> found;
  std::FILE* said = popen(command.c_str(), "r");
  for (double v = 0; std::fscanf(said, "%lf", &v) == 1;) found.push_back(v);
  const int ended = pclose(said);
  std::remove(path.c_str());
  REQUIRE(ended == 0);
  return found;
}

TEST_CASE("histogram: quantiles within 5 % of numpy's") {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) return;
  std::mt19937_64 random(11);
  const auto check = [&](auto&& draw) {
    std::vector<uint64_t> values(20011);
    HistogramShard<36> shard;
    uint64_t sum = 0;
    for (uint64_t& v : values) {
      v = draw();
      sum += v;
      shard.record(v);
    }
    HistogramSums<36> sums;
    shard.add_to(&sums);
    REQUIRE(sums.count() == values.size());
    REQUIRE(sums.sum() == sum);
    const double at[] = {0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999};
    const std::vector<double> want =
        numpy_quantiles(values, "0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999");
    REQUIRE(want.size() == std::size(at));
    for (size_t i = 0; i < want.size(); ++i) {
      const double got = sums.quantile(at[i]);
      INFO("quantile ", at[i], " is ", got, ", numpy says ", want[i]);
      const bool near = std::abs(got - want[i]) <= 0.05 * want[i];  // false of NaN
      CHECK(near);
    }
  };
  std::lognormal_distribution<double> times(10, 2);
  check([&] { return static_cast<uint64_t>(std::min(times(random), 6e10)) + 1; });
  std::uniform_int_distribution<uint64_t> evenly(1, 3'000'000);
  check([&] { return evenly(random); });
  std::exponential_distribution<double> gaps(1e-6);
  check([&] { return static_cast<uint64_t>(gaps(random)) + 1; });
}

TEST_CASE("histogram: readings from beside a writer, growth, no values") {
  HistogramShard<24> shard;
  HistogramSums<24> none;
  CHECK(std::isnan(none.quantile(0.5)));
  std::thread writer([&] {
    for (int i = 0; i < 50000; ++i) shard.record(3);
  });
  for (uint64_t before = 0, k = 0; k < 200; ++k) {
    HistogramSums<24> now;
    shard.add_to(&now);
    REQUIRE(now.count() >= before);
    before = now.count();
  }
  writer.join();
  HistogramSums<24> counted, all;
  shard.add_to(&counted);
  CHECK(counted.count() == 50000);
  CHECK(counted.quantile(0.5) == 3);
  shard.record(uint64_t{1} << 30);
  HistogramSums<24> now;
  shard.add_to(&now);
  all.add_growth(now, &counted);
  CHECK(all.count() == 1);
  CHECK(all.bucket(LogLinear<24>::kOverflow) == 1);
  CHECK(all.sum() == uint64_t{1} << 30);
  all.add_growth(now, &counted);
  CHECK(all.count() == 1);
  CHECK(std::isinf(all.quantile(1)));
}

}  // namespace
}  // namespace dpi
