// Rows of a request that are packed many ids at a time, and the inner loops that do it.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/packed.hpp"
#include "runtime/request/pack_values.hpp"

namespace dpi::test::pack_test {

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

namespace {

/// The rule of one id.
bool good(int64_t id, uint64_t limit, int64_t missing) {
  return static_cast<uint64_t>(id) < limit && id != missing;
}

/// Ids below their limits; `spoilt` >= 0: that one is none of them, or the one that means missing.
struct Ids {
  std::vector<int64_t> ids, missing;
  std::vector<uint64_t> limit;

  Ids(std::mt19937_64& random, size_t n, int64_t spoilt, bool one_limit = false) {
    const uint64_t same = 1 + random() % 2147483647;
    for (size_t k = 0; k < n; ++k) {
      limit.push_back(one_limit ? same : 1 + random() % 2147483647);
      ids.push_back(static_cast<int64_t>(random() % limit[k]));
      missing.push_back(one_limit || random() % 4 != 0 ? -1 : ids[k] == 0 ? 1 : ids[k] - 1);
    }
    if (spoilt < 0) return;
    const auto at = static_cast<size_t>(spoilt);
    const int64_t bad[] = {static_cast<int64_t>(limit[at]), -1, INT64_MIN, INT64_MAX, int64_t{1} << 32};
    ids[at] = bad[random() % 5];
    if (!one_limit && random() % 6 == 0) missing[at] = ids[at] = 0;
  }
};

template <class Check>
void for_each_form(Check&& check) {
  for (int form = 0; form <= 2; ++form) {
    const PackForms* const forms = pack_forms(form);
    if (forms == nullptr) continue;
    CAPTURE(form);
    check(*forms);
  }
}

}  // namespace

TEST_CASE("every form of packing ids agrees with the rule, on any length") {
  std::mt19937_64 random(5);
  for_each_form([&](const PackForms& forms) {
    for (int64_t n = 0; n <= 41; ++n) {
      for (int pass = 0; pass < 20; ++pass) {
        const bool valid = n == 0 || pass % 2 == 0;
        const Ids row(random, static_cast<size_t>(n),
                      valid ? -1 : static_cast<int64_t>(random() % static_cast<uint64_t>(n)));
        std::vector<int32_t> out(row.ids.size() + 2, 77);
        CHECK(forms.ids(row.ids.data(), row.limit.data(), row.missing.data(), n, out.data() + 1) == valid);
        CHECK(out.front() == 77);
        CHECK(out.back() == 77);
        for (size_t k = 0; k < row.ids.size() && valid; ++k) CHECK(out[k + 1] == row.ids[k]);
      }
    }
  });
}

TEST_CASE("every form of packing a bag agrees with the rule, with and without an id that means missing") {
  std::mt19937_64 random(6);
  for_each_form([&](const PackForms& forms) {
    for (int64_t n = 1; n <= 21; ++n) {
      for (int64_t spoilt = -1; spoilt < n; ++spoilt) {
        const Ids bag(random, static_cast<size_t>(n), spoilt, true);
        std::vector<int32_t> out(bag.ids.size() + 2, 77);
        CHECK(forms.bag(bag.ids.data(), bag.limit[0], -1, n, out.data() + 1) == (spoilt < 0));
        CHECK(out.front() == 77);
        CHECK(out.back() == 77);
        for (size_t k = 0; k < bag.ids.size() && spoilt < 0; ++k) CHECK(out[k + 1] == bag.ids[k]);
        if (spoilt < 0)
          CHECK_FALSE(forms.bag(bag.ids.data(), bag.limit[0], bag.ids.back(), n, out.data() + 1));
      }
    }
  });
}

TEST_CASE("every form of packing columns agrees with the rule, on any number of rows") {
  std::mt19937_64 random(7);
  constexpr int64_t kWidth = 7;
  for_each_form([&](const PackForms& forms) {
    for (int64_t rows = 1; rows <= 19; ++rows) {
      for (int pass = 0; pass < 24; ++pass) {
        std::vector<Ids> columns;
        for (int64_t c = 0; c < kColumnsAtOnce; ++c) {
          const bool spoilt = pass % 2 == 1 && c == pass / 2 % kColumnsAtOnce;
          columns.emplace_back(random, static_cast<size_t>(rows),
                               spoilt ? static_cast<int64_t>(random() % static_cast<uint64_t>(rows)) : -1,
                               true);
        }
        const int64_t* from[kColumnsAtOnce];
        uint64_t limit[kColumnsAtOnce];
        int64_t missing[kColumnsAtOnce];
        bool valid = true;
        for (size_t c = 0; c < kColumnsAtOnce; ++c) {
          from[c] = columns[c].ids.data();
          limit[c] = columns[c].limit[0];
          missing[c] = pass % 6 == 4 && c == 2 ? columns[c].ids[static_cast<size_t>(rows - 1)] : -1;
          for (const int64_t id : columns[c].ids) valid = valid && good(id, limit[c], missing[c]);
        }
        std::vector<int32_t> out(static_cast<size_t>(rows * kWidth), 77);
        CHECK(forms.columns(from, limit, missing, rows, out.data() + 1, kWidth) == valid);
        for (int64_t r = 0; r < rows; ++r) {
          const int32_t* const row = out.data() + r * kWidth;
          for (const int64_t beside : {0, 5, 6}) CHECK(row[beside] == 77);
          for (size_t c = 0; c < kColumnsAtOnce && valid; ++c)
            CHECK(row[1 + c] == columns[c].ids[static_cast<size_t>(r)]);
        }
      }
    }
  });
}

TEST_CASE("bags of one id each, and weights of one, are seen wherever another one stands") {
  for_each_form([](const PackForms& forms) {
    for (size_t n = 1; n <= 19; ++n) {
      std::vector<int64_t> offsets;
      for (size_t k = 0; k <= n; ++k) offsets.push_back(static_cast<int64_t>(1000 + k));
      std::vector<float> weights(n, 1.0f);
      CHECK(forms.one_each(offsets.data(), static_cast<int64_t>(n)));
      CHECK(forms.ones(weights.data(), static_cast<int64_t>(n)));
      for (size_t at = 0; at < n; ++at) {
        for (const int64_t by : {-1, 1}) {
          std::vector<int64_t> other = offsets;
          other[at + 1] += by;
          CHECK_FALSE(forms.one_each(other.data(), static_cast<int64_t>(n)));
        }
        for (const float w : {0.0f, -1.0f, 1.0000001f, std::nanf("")}) {
          std::vector<float> other = weights;
          other[at] = w;
          CHECK_FALSE(forms.ones(other.data(), static_cast<int64_t>(n)));
        }
      }
    }
  });
}

namespace {

/// A random request of two spaces' worth of features, as bags: what each feature's rules make of it by the
/// letter of FORMAT.md part 4, id by id.
struct Request {
  std::vector<FeatureSpec> features;
  int64_t rows = 0;
  std::vector<std::vector<std::vector<int64_t>>> bags;  // [feature][row]

  Request(std::mt19937& rng, bool one_id) {
    const auto n = 1 + rng() % 13;
    for (size_t k = 0; k < n; ++k) {
      const bool bag = rng() % 4 == 0;
      const std::string name = "f" + std::to_string(k);
      features.push_back(bag ? sequence(name.c_str(), 50, rng() % 2 == 0 ? 0 : 6)
                             : categorical(name.c_str(), 50));
      FeatureSpec& f = features.back();
      f.keep_last = rng() % 2 == 0;
      f.out_of_range = OutOfRange::kOov;
      f.oov_id = 49;
      f.missing = Missing::kPad;
      f.pad_id = 3;
      f.has_missing_id = rng() % 2 == 0;
      f.missing_id = 7;
    }
    rows = 1 + static_cast<int64_t>(rng() % 300);
    const uint32_t odd = 1 + rng() % 400;  // one id in so many is out of range
    for (const FeatureSpec& f : features) {
      bags.emplace_back();
      for (int64_t r = 0; r < rows; ++r) {
        const bool bag = f.kind == FeatureKind::kSequence && !one_id;
        bags.back().emplace_back();
        for (auto left = bag ? rng() % 12 : 1u; left > 0; --left)
          bags.back().back().push_back(rng() % odd == 0 ? 50 : static_cast<int64_t>(rng() % 50));
      }
    }
  }

  std::vector<int32_t> want(size_t k) const {
    const FeatureSpec& f = features[k];
    const bool sequence = f.kind == FeatureKind::kSequence;
    std::vector<int32_t> out;
    for (std::vector<int64_t> bag : bags[k]) {
      const auto most = static_cast<size_t>(f.max_len);
      if (sequence && most > 0 && bag.size() > most) {
        if (f.keep_last) bag.erase(bag.begin(), bag.end() - f.max_len);
        bag.resize(most);
      }
      for (const int64_t id : bag) {
        const bool missing = f.has_missing_id && id == f.missing_id;
        if (missing && sequence) continue;
        out.push_back(missing ? 3 : id >= 50 ? 49 : static_cast<int32_t>(id));
      }
      if (sequence) out.push_back(-1);
    }
    return out;
  }
};

/// The request in one layout.
struct Layout {
  std::vector<int64_t> ids, offsets{0};
  std::vector<float> weights;
  Batch batch;

  Layout(const Request& q, bool slot_major, bool with_offsets, bool with_weights) {
    const auto slots = static_cast<int64_t>(q.features.size());
    for (int64_t b = 0; b < slots * q.rows; ++b) {
      const int64_t k = slot_major ? b / q.rows : b % slots, r = slot_major ? b % q.rows : b / slots;
      const auto& bag = q.bags[static_cast<size_t>(k)][static_cast<size_t>(r)];
      ids.insert(ids.end(), bag.begin(), bag.end());
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    weights.assign(ids.size(), 1.0f);
    batch.slot_major = slot_major;
    batch.item.rows = q.rows;
    batch.item.ids = ids.data();
    batch.item.nnz = static_cast<int64_t>(ids.size());
    if (with_offsets) batch.item.offsets = offsets.data();
    if (with_weights) batch.item.weights = weights.data();
  }
};

}  // namespace

TEST_CASE("random requests are packed as the rules say, in every layout") {
  std::mt19937 rng(11);
  for (int pass = 0; pass < 60; ++pass) {
    const bool one_id = pass % 2 == 0;
    const Request q(rng, one_id);
    for (int layout = 0; layout < 8; ++layout) {
      const bool with_offsets = (layout & 2) != 0;
      if (!with_offsets && !one_id) continue;
      CAPTURE(pass);
      CAPTURE(layout);
      Layout l(q, (layout & 1) != 0, with_offsets, (layout & 4) != 0);
      Packed p(q.features, 300, 300 * 12);
      REQUIRE(p.run(l.batch).ok());
      for (size_t k = 0; k < q.features.size(); ++k) {
        CAPTURE(k);
        CHECK(p.ids(static_cast<int32_t>(k)) == q.want(k));
      }
    }
  }
}

TEST_CASE("the id that a rule refuses first by row and feature is named, in either layout") {
  std::vector<FeatureSpec> features;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) features.push_back(categorical(name, 20));
  for (const bool slot_major : {false, true}) {
    std::vector<int64_t> ids(6 * 200, 1);
    const auto at = [&](int64_t row, int64_t k) -> int64_t& {
      return ids[static_cast<size_t>(slot_major ? k * 200 + row : row * 6 + k)];
    };
    at(141, 0) = at(140, 4) = at(140, 5) = 20;
    Batch b;
    b.item.rows = 200;
    b.item.nnz = 1200;
    b.item.ids = ids.data();
    b.slot_major = slot_major;
    Packed p(features, 200);
    const Status s = p.run(b);
    CHECK(s.code() == Code::kInvalidArgument);
    CHECK(s.row() == 140);
    CHECK(s.feature() == 4);
  }
}

TEST_CASE("a weighted history keeps its weights beside its ids, whole bags and the ends of longer ones") {
  FeatureSpec f = sequence("s", 50, 6);
  f.weighted = true;
  f.keep_last = true;
  Packed p({f});
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, offsets = {0, 8, 10};
  std::vector<float> weights;
  for (size_t k = 0; k < ids.size(); ++k) weights.push_back(0.5f * static_cast<float>(k));
  Batch b;
  b.item.rows = 2;
  b.item.ids = ids.data();
  b.item.nnz = 10;
  b.item.offsets = offsets.data();
  b.item.weights = weights.data();
  REQUIRE(p.run(b).ok());
  CHECK(p.ids(0) == std::vector<int32_t>{3, 4, 5, 6, 7, 8, -1, 9, 10, -1});
  const float* const packed = p.operand(0).bags.weights;
  for (size_t k = 0; k < 8; ++k) CHECK(packed[k] == weights[k + 2]);
  weights[4] = std::numeric_limits<float>::infinity();
  CHECK(p.run(b).row() == 0);
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

}  // namespace dpi::test::pack_test
