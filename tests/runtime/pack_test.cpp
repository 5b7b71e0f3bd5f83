// Rows of a request that are packed many ids at a time, and the inner loops that do it.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/packed.hpp"
#include "runtime/request/pack_values.hpp"

using namespace dpi;
using dpi::test::categorical;
using dpi::test::Packed;
using dpi::test::sequence;

TEST_CASE("both layouts of the same rows are packed alike, rule or not") {
  std::vector<FeatureSpec> features;
  for (const char* name : {"a", "b", "c"}) {
    features.push_back(categorical(name, 20));
    features.back().out_of_range = OutOfRange::kOov;
    features.back().oov_id = 19;
  }
  features[1].has_missing_id = true;
  features[1].missing_id = 7;
  features[1].missing = Missing::kPad;
  std::mt19937 rng(5);
  for (int64_t rows = 1; rows < 50; ++rows) {
    const int64_t odd =
        static_cast<int64_t>(rng() % static_cast<uint32_t>(rows));  // one row with an id out of range
    std::vector<int64_t> row_major(static_cast<size_t>(3 * rows)), slot_major(row_major.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < 3; ++k) {
        const int64_t id =
            rows % 3 != 0 && r == odd && k == 2 ? 20 : static_cast<int64_t>(rng() % (rows % 2 != 0 ? 7 : 20));
        row_major[static_cast<size_t>(r * 3 + k)] = slot_major[static_cast<size_t>(k * rows + r)] = id;
      }
    }
    Packed one(features), other(features);
    Batch b;
    b.item.rows = rows;
    b.item.nnz = 3 * rows;
    b.item.ids = row_major.data();
    REQUIRE(one.run(b).ok());
    b.item.ids = slot_major.data();
    b.slot_major = true;
    REQUIRE(other.run(b).ok());
    for (int32_t k = 0; k < 3; ++k) {
      CHECK(one.ids(k) == other.ids(k));
      CHECK(one.counters[static_cast<size_t>(k)].out_of_range ==
            other.counters[static_cast<size_t>(k)].out_of_range);
      CHECK(one.counters[static_cast<size_t>(k)].missing == other.counters[static_cast<size_t>(k)].missing);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t id = row_major[static_cast<size_t>(r * 3 + k)];
        const int64_t want = id == 20 ? 19 : k == 1 && id == 7 ? 0 : id;
        CHECK(other.ids(k)[static_cast<size_t>(r)] == want);
      }
    }
  }
}

TEST_CASE("every form of packing ids agrees with the rule, on any length") {
  std::mt19937_64 random(5);
  for (int form = 0; form <= 2; ++form) {
    PackIds pack = nullptr;
    if (!pack_ids_form(form, &pack)) continue;
    CAPTURE(form);
    for (int64_t n = 0; n <= 41; ++n) {
      for (int pass = 0; pass < 20; ++pass) {
        std::vector<int64_t> ids(static_cast<size_t>(n)), missing(ids.size(), -1);
        std::vector<uint64_t> limit(ids.size());
        std::vector<int32_t> out(ids.size() + 2, 77);
        for (size_t k = 0; k < ids.size(); ++k) {
          limit[k] = 1 + random() % 2147483647;
          ids[k] = static_cast<int64_t>(random() % limit[k]);
          if (random() % 4 == 0) missing[k] = ids[k] == 0 ? 1 : ids[k] - 1;
        }
        bool valid = true;
        if (n > 0 && pass % 2 == 1) {  // one id that is not
          const size_t at = random() % ids.size();
          const int64_t bad[] = {static_cast<int64_t>(limit[at]), -1, INT64_MIN, INT64_MAX, int64_t{1} << 32};
          ids[at] = bad[random() % 5];
          if (random() % 6 == 0) missing[at] = ids[at] = 0;
          valid = false;
        }
        CHECK(pack(ids.data(), limit.data(), missing.data(), n, out.data() + 1) == valid);
        CHECK(out.front() == 77);
        CHECK(out.back() == 77);
        for (size_t k = 0; k < ids.size() && valid; ++k) CHECK(out[k + 1] == ids[k]);
      }
    }
  }
}

TEST_CASE("floats are packed as they are, and any that is not finite is seen") {
  for (const float bad : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (size_t n = 1; n <= 19; ++n) {
      std::vector<float> from(n, std::numeric_limits<float>::max()), to(n, 0.0f);
      from[0] = -std::numeric_limits<float>::denorm_min();
      CHECK(pack_floats(from.data(), static_cast<int64_t>(n), to.data()));
      CHECK(to == from);
      for (size_t at = 0; at < n; ++at) {
        std::vector<float> spoilt = from;
        spoilt[at] = bad;
        CHECK_FALSE(pack_floats(spoilt.data(), static_cast<int64_t>(n), to.data()));
      }
    }
  }
}
