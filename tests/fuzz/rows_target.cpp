// Raw values through a bundle's encoders (dpi_rows): every kind of value for every feature of models that
// have all encoders. Two dpi_rows side by side show what the header promises: an integer is its decimal
// digits, and what is refused changes nothing.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/input.hpp"
#include "fuzz/target.hpp"
#include "support/handles.hpp"
#include "support/source_dir.hpp"

namespace dpi::fuzz {
namespace {

constexpr int kMostValues = 200;
constexpr int64_t kMostRows = 20;

const std::vector<Owned<dpi_model>>& models() {
  static const std::vector<Owned<dpi_model>> all = [] {
    std::vector<Owned<dpi_model>> out;
    const Owned<dpi_options> options(dpi_options_create());
    set(options.get(), "device", "cpu");
    for (const char* path : {"/tests/encode/data/encoders.h5", "/tests/e2e/raw_values/data/raw_values.h5",
                             "/tests/e2e/raw_values/data/more_kinds.h5", "/tests/bundle/data/small.h5"}) {
      dpi_model* model = nullptr;
      const std::string file = test::source_dir() + path;
      expect(dpi_model_load(file.c_str(), options.get(), &model, nullptr) == DPI_OK,
             "the tree's bundles load");
      out.emplace_back(model);
    }
    return out;
  }();
  return all;
}

Owned<dpi_rows> rows_of(dpi_model* model) {
  dpi_rows* rows = nullptr;
  expect(dpi_rows_create(model, &rows, nullptr) == DPI_OK, "rows can be made");
  return Owned<dpi_rows>(rows);
}

template <class T>
bool same(const T* a, const T* b, int64_t n) {
  if ((a == nullptr) != (b == nullptr)) return false;
  return a == nullptr || n <= 0 || std::memcmp(a, b, static_cast<size_t>(n) * sizeof(T)) == 0;
}

bool same_batches(const dpi_batch& a, const dpi_batch& b, const dpi_model_info& info) {
  const bool split = a.shared_offsets != nullptr;
  if (a.rows != b.rows || a.nnz != b.nnz || a.shared_rows != b.shared_rows || a.shared_nnz != b.shared_nnz)
    return false;
  const int64_t slots = split ? info.num_item_slots : info.num_slots;
  const int64_t columns = split ? info.item_dense_dim : info.dense_dim;
  return same(a.ids, b.ids, a.nnz) && same(a.offsets, b.offsets, a.rows * slots + 1) &&
         same(a.weights, b.weights, a.nnz) && same(a.dense, b.dense, a.rows * columns) &&
         same(a.shared_offsets, b.shared_offsets, split ? a.shared_rows + 1 : 0) &&
         same(a.shared_ids, b.shared_ids, a.shared_nnz) &&
         same(a.shared_bag_offsets, b.shared_bag_offsets, a.shared_rows * info.num_shared_slots + 1) &&
         same(a.shared_weights, b.shared_weights, a.shared_nnz) &&
         same(a.shared_dense, b.shared_dense, a.shared_rows * info.shared_dense_dim);
}

class Pair {
 public:
  Pair(Input* in, dpi_model* model)
      : in_(*in), model_(model), a_(rows_of(model)), b_(rows_of(model)), info_(info_of(model)) {}

  void run() {
    for (int k = 0; k < kMostValues && !in_.empty(); ++k) {
      const size_t how = in_.below(10);
      if (how == 0 && dpi_rows_count(a_.get()) < kMostRows) {
        both([](dpi_rows* r, Error* e) { return dpi_rows_begin(r, e); });
      } else if (how == 1 && dpi_rows_count(a_.get()) < kMostRows) {
        both([](dpi_rows* r, Error* e) { return dpi_rows_begin_shared(r, e); });
      } else {
        value();
      }
    }
    compare();
  }

 private:
  /// The second rows get what the first took, and nothing of what they refused.
  template <class Call>
  void both(Call call) {
    Error error;
    const dpi_status s = call(a_.get(), &error);
    expect_documented(s, error);
    if (s == DPI_OK) expect(call(b_.get(), &error) == DPI_OK, "what rows take once they take again");
  }
  /// The same value in two forms: both are taken, or both are refused for the same reason.
  template <class First, class Second>
  void two_forms(First first, Second second) {
    Error one, other;
    const dpi_status s = first(a_.get(), &one), t = second(b_.get(), &other);
    expect_documented(s, one);
    expect_documented(t, other);
    expect(s == t, "an integer is refused as its decimal digits are");
  }

  void value() {
    const auto f = static_cast<int32_t>(in_.below(static_cast<size_t>(info_.num_features)));
    switch (in_.below(8)) {
      case 0: {
        const int64_t v = in_.integer();
        const std::string digits = std::to_string(v);
        return two_forms(
            [&](dpi_rows* r, Error* e) { return dpi_rows_set_integer(r, f, v, e); },
            [&](dpi_rows* r, Error* e) { return dpi_rows_set_text(r, f, digits.c_str(), -1, e); });
      }
      case 1: {
        const auto v = static_cast<uint64_t>(in_.integer());
        const std::string digits = std::to_string(v);
        return two_forms(
            [&](dpi_rows* r, Error* e) { return dpi_rows_set_unsigned(r, f, v, e); },
            [&](dpi_rows* r, Error* e) { return dpi_rows_set_text(r, f, digits.c_str(), -1, e); });
      }
      case 2: {
        const double v = in_.below(2) == 0 ? static_cast<double>(in_.number()) : in_.raw<double>();
        return both([&](dpi_rows* r, Error* e) { return dpi_rows_set_number(r, f, v, e); });
      }
      case 3: {
        const std::string text = in_.text(40);
        const float weight = in_.number();
        return both([&](dpi_rows* r, Error* e) {
          return dpi_rows_add_text(r, f, text.data(), static_cast<int64_t>(text.size()), weight, e);
        });
      }
      case 4: {
        std::vector<int64_t> ids(in_.below(6));
        for (int64_t& id : ids) id = in_.integer();
        return both([&](dpi_rows* r, Error* e) {
          return dpi_rows_add_integers(r, f, ids.data(), nullptr, static_cast<int64_t>(ids.size()), e);
        });
      }
      default: {
        const std::string text = in_.text(80);
        return both([&](dpi_rows* r, Error* e) {
          return dpi_rows_set_text(r, f, text.data(), static_cast<int64_t>(text.size()), e);
        });
      }
    }
  }

  dpi_status batch_of(dpi_rows* rows, dpi_batch* batch) {
    *batch = {};
    batch->struct_size = sizeof *batch;
    Error error;
    const dpi_status s = dpi_rows_get_batch(rows, batch, &error);
    expect_documented(s, error);
    return s;
  }

  void compare() {
    dpi_batch a{}, b{};
    const dpi_status s = batch_of(a_.get(), &a);
    expect(s == batch_of(b_.get(), &b), "both rows give a batch, or none does");
    if (s != DPI_OK) return;
    mark_loaded();
    expect(same_batches(a, b, info_), "both rows hold the same values");
    std::vector<float> one(static_cast<size_t>(a.rows * info_.num_heads), -1.0f), other = one;
    Error error;
    const dpi_status p = dpi_predict(model_, &a, one.data(), one.size(), nullptr, &error);
    expect_documented(p, error);
    expect(dpi_rows_predict(b_.get(), other.data(), other.size(), nullptr, &error) == p,
           "rows score as their batch does");
    if (p != DPI_OK) return;
    expect(one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0,
           "to the last bit");
    if (a.rows > 0) mark_predicted();
  }

  Input& in_;
  dpi_model* model_;
  Owned<dpi_rows> a_, b_;
  dpi_model_info info_;
};

void run(InputBytes bytes) {
  Input in(bytes);
  Pair(&in, models()[in.below(models().size())].get()).run();
}

}  // namespace

const Target kRowsTarget{"rows", run, nullptr};

}  // namespace dpi::fuzz
