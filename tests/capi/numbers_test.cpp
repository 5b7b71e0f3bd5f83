// Scores that are not finite, and the calling thread's floating-point environment.
#include <cfenv>
#include <cmath>
#include <thread>

#include "base/float_env.hpp"
#include "support/capi_support.hpp"

namespace dpi::test::numbers_test {
namespace {

// The thread's word of float arithmetic: rounding, flushes, traps and the flags that stand.
#if defined(__x86_64__)
constexpr unsigned kFlags = 0x3F, kMasks = 0x1F80, kFlushes = 0x8040;  // flush to zero, subnormals are zero
constexpr unsigned kRoundings[] = {0x0000, 0x2000, 0x4000, 0x6000};
constexpr unsigned kTraps[] = {kMasks, 0, kMasks & ~0x80u};

unsigned float_word() { return _mm_getcsr(); }
void set_float_word(unsigned word) { _mm_setcsr(word); }

/// The x87 control word; the C library reads decimals with it.
unsigned x87_word() {
  uint16_t word = 0;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}
#elif defined(__aarch64__)
constexpr unsigned kFlags = 0x9F, kMasks = 0, kFlushes = 1u << 24;
constexpr unsigned kRoundings[] = {0, 1u << 22, 2u << 22, 3u << 22};
constexpr unsigned kTraps[] = {kMasks};  // processors need not have any, and most have none

/// FPCR, and the flags of FPSR, whose bits are zero in FPCR.
unsigned float_word() {
  uint64_t control = 0, status = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("mrs %0, fpsr" : "=r"(status));
  return static_cast<unsigned>(control | (status & kFlags));
}
void set_float_word(unsigned word) {
  const uint64_t control = word & ~kFlags, status = word & kFlags;
  asm volatile("msr fpcr, %0" : : "r"(control));
  asm volatile("msr fpsr, %0" : : "r"(status));
}
unsigned x87_word() { return 0; }
#endif

constexpr const char* kOverflows = "bank_dcnv2.h5";  // products of its inputs: infinities of both signs meet

/// Valid rows, of which some have 3e38 in every dense column.
struct HugeRows : OneHotRows {
  HugeRows(const dpi_model* m, int64_t rows, const std::vector<int64_t>& huge) : OneHotRows(m, rows) {
    const auto width = static_cast<size_t>(info_of(m).dense_dim);
    for (const int64_t r : huge) {
      for (size_t k = 0; k < width; ++k) dense[static_cast<size_t>(r) * width + k] = 3e38f;
    }
  }
};

int64_t nonfinite_rows(const dpi_model* m) {
  std::string text(dpi_model_counters_json(m, nullptr, 0), '\0');
  dpi_model_counters_json(m, text.data(), text.size());
  const std::string key = "\"nonfinite_rows\":";
  const size_t at = text.find(key);
  REQUIRE(at != std::string::npos);
  return std::stoll(text.substr(at + key.size()));
}

/// While it lives, the thread computes as a host may have set it.
struct Host {
  explicit Host(unsigned word) { set_float_word(word); }
  ~Host() { set_float_word(before); }
  const unsigned before = float_word();
};

/// As a host may set it through <fenv.h>, both words of it: rounding, traps, flags that stand.
struct FenvHost {
  FenvHost(int rounding, int traps, int flags) {
    std::fegetenv(&before);
    std::fesetround(rounding);
    std::feclearexcept(FE_ALL_EXCEPT);
    std::fesetexceptflag(&all_flags(), flags);
    feenableexcept(traps);
    set = now();
  }
  ~FenvHost() { std::fesetenv(&before); }
  bool stands() const { return now() == set; }
  static std::vector<unsigned> now() {
    return {static_cast<unsigned>(std::fegetround()), static_cast<unsigned>(std::fetestexcept(FE_ALL_EXCEPT)),
            x87_word(), float_word()};
  }
  static const std::fexcept_t& all_flags() {
    static const std::fexcept_t kAll = FE_ALL_EXCEPT;
    return kAll;
  }
  std::fenv_t before{};
  std::vector<unsigned> set;
};

/// What a bundle's numbers and raw decimals become: read where the host stands, looked at later.
struct Decimals {
  static constexpr const char* kBoundaries[] = {"-1.3402890709512065",  "-0.8788739825708664",
                                                "-0.26414933978457145", "0.0687116568813368",
                                                "0.3164075494111417",   "1.1786224574116344"};
  static constexpr const char* kNumbers[] = {"1e-400", "0.1", "-1e-4000", "123456789.123456789", "3e-45"};
  std::vector<int64_t> ids;
  std::vector<float> dense;
  int failed = 0;

  explicit Decimals(const dpi_options* options) {
    dpi_model* m = nullptr;
    const std::string path = source_dir() + "/tests/encode/data/encoders.h5";
    failed += dpi_model_load(path.c_str(), options, &m, nullptr);
    dpi_rows* r = nullptr;
    if (failed == 0) failed += dpi_rows_create(m, &r, nullptr);
    if (failed == 0) read(m, r);
    dpi_rows_free(r);
    dpi_model_free(m);
  }
  void read(const dpi_model* m, dpi_rows* r) {
    const auto add = [&](const char* feature, const char* text) {
      failed += dpi_rows_begin(r, nullptr);
      failed += dpi_rows_set_text(r, dpi_model_feature_index(m, feature), text, -1, nullptr);
    };
    for (const char* feature : {"bins False", "bins True"})
      for (const char* text : kBoundaries) add(feature, text);
    for (const char* feature : {"standard", "minmax", "float", "slog"})
      for (const char* text : kNumbers) add(feature, text);
    dpi_batch b{};
    b.struct_size = sizeof b;
    failed += dpi_rows_get_batch(r, &b, nullptr);
    if (failed != 0) return;
    ids.assign(b.ids, b.ids + b.nnz);
    dpi_model_info info{};
    info.struct_size = sizeof info;
    failed += dpi_model_get_info(m, &info, nullptr);
    for (int64_t i = 0; i < b.rows * info.dense_dim; ++i)
      dense.push_back(std::isnan(b.dense[i]) ? 0.0f : b.dense[i]);
  }
};

/// Rounding in four ways, with and without flushes, traps masked and not; `few`: not masked with one of the
/// roundings only.
std::vector<unsigned> hosts(bool few = false) {
  std::vector<unsigned> all;
  for (const unsigned rounding : kRoundings) {
    for (const unsigned flush : {0u, kFlushes}) {
      for (const unsigned masks : kTraps) {
        if (!few || masks == kMasks || rounding == kRoundings[3]) all.push_back(rounding | flush | masks);
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a score that is not finite refuses the call and names its row") {
  const ModelPtr m = load(kOverflows, {{"max_rows", "16"}});
  const HugeRows rows(m.get(), 37, {5, 20, 21});
  std::vector<float> out(37, -1.0f);
  Error e;
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), out.size(), nullptr, &e) == DPI_E_INVALID_ARGUMENT);
  CAPTURE(e.text());
  CHECK(e.row == 5);
  CHECK(e.text().find("row 5") != std::string::npos);
  CHECK(e.text().find("3 of 37") != std::string::npos);
  CHECK(e.text().find("nonfinite=return") != std::string::npos);
  CHECK(nonfinite_rows(m.get()) == 3);
  for (const size_t r : {size_t{5}, size_t{20}, size_t{21}}) CHECK_FALSE(std::isfinite(out[r]));
  const HugeRows sound(m.get(), 37, {});
  sound.scores(m.get());
  CHECK(nonfinite_rows(m.get()) == 3);
}

TEST_CASE("with nonfinite=return such scores pass, are counted, and leave the other rows alone") {
  const ModelPtr m = load(kOverflows, {{"nonfinite", "return"}, {"determinism", "strict"}});
  const std::vector<float> want = HugeRows(m.get(), 37, {}).scores(m.get());
  const std::vector<float> got = HugeRows(m.get(), 37, {0, 36}).scores(m.get());
  CHECK_FALSE(std::isfinite(got[0]));
  CHECK_FALSE(std::isfinite(got[36]));
  CHECK(identical({got.begin() + 1, got.end() - 1}, {want.begin() + 1, want.end() - 1}));
  CHECK(nonfinite_rows(m.get()) == 2);
}

TEST_CASE("a caller's own context counts them too") {
  const ModelPtr m = load(kOverflows);
  dpi_context* made = nullptr;
  REQUIRE(dpi_context_create(m.get(), 8, 0, &made, nullptr) == DPI_OK);
  const HugeRows rows(m.get(), 8, {2});
  std::vector<float> out(8);
  Error e;
  CHECK(dpi_context_predict_batch(made, &rows.batch, out.data(), 8, nullptr, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(nonfinite_rows(m.get()) == 1);
  dpi_context_free(made);
  CHECK(nonfinite_rows(m.get()) == 1);
}

TEST_CASE("the environment is the default one inside and the caller's outside") {
  volatile float small = 1e-38f;
  volatile float tenth = 0.1f;
  for (const unsigned word : hosts()) {
    CAPTURE(word);
    unsigned inside = 0, after = 0;
    float product = 0;
    {
      const Host host(word);
      {
        const dpi::FloatEnvironment standard;
        inside = float_word();
        product = small * tenth;  // subnormal
      }
      after = float_word();
    }
    CHECK((inside & ~kFlags) == kMasks);
    CHECK(product > 0);
    CHECK(after == word);  // the flags too
  }
}

TEST_CASE("strict scores do not depend on the caller's rounding, flushes or traps") {
  const bool slow = device() == "cuda_emu";
  for (const std::string bundle : {"adult_widedeep.h5", "bank_dcnv2.h5", "msweb_deepfm.h5", "msweb_can.h5"}) {
    CAPTURE(bundle);
    const bool load_there = !slow || bundle == "adult_widedeep.h5";
    const Pairs pairs = {{"determinism", "strict"}, {"threads", "2"}, {"device", device()}};
    const OptionsPtr chosen = options(pairs);
    const ModelPtr plain = load(bundle, pairs);
    const OneHotRows rows(plain.get(), slow ? 33 : 97);
    const std::vector<float> want = rows.scores(plain.get());
    for (const unsigned word : hosts(slow)) {
      CAPTURE(word);
      std::vector<float> scores(want.size()), loaded_there(want.size());
      dpi_status status[3] = {};
      unsigned after = 0;
      {
        const Host host(word);
        dpi_model* m = nullptr;
        status[0] = dpi_predict(plain.get(), &rows.batch, scores.data(), scores.size(), nullptr, nullptr);
        if (load_there) status[1] = dpi_model_load(demo(bundle).c_str(), chosen.get(), &m, nullptr);
        if (m != nullptr)
          status[2] = dpi_predict(m, &rows.batch, loaded_there.data(), loaded_there.size(), nullptr, nullptr);
        after = float_word();
        dpi_model_free(m);
      }
      for (const dpi_status s : status) CHECK(s == DPI_OK);
      CHECK(identical(scores, want));
      if (load_there) CHECK(identical(loaded_there, want));
      CHECK((after & ~kFlags) == word);
    }
  }
}

TEST_CASE("numbers read from text do not depend on fesetround, and what <fenv.h> tells stays") {
  const OptionsPtr chosen = options({{"device", device()}});
  const Decimals want(chosen.get());
  REQUIRE(want.failed == 0);
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    for (const int traps : {0, FE_ALL_EXCEPT, FE_INEXACT}) {
      for (const int flags : {0, FE_INEXACT, FE_DIVBYZERO | FE_UNDERFLOW, FE_ALL_EXCEPT}) {
        CAPTURE(rounding);
        CAPTURE(traps);
        CAPTURE(flags);
        bool stands = false;
        const auto got = [&] {
          const FenvHost host(rounding, traps, flags);
          Decimals read(chosen.get());
          stands = host.stands();
          return read;
        }();
        CHECK(got.failed == 0);
        CHECK(got.ids == want.ids);
        CHECK(identical(got.dense, want.dense));
        CHECK(stands);
      }
    }
  }
}

TEST_CASE("a call raises no flag of the caller's and clears none") {
  const ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows rows(m.get(), 1);
  float out = 0;
  for (const int flags : {0, FE_INVALID, FE_ALL_EXCEPT}) {
    CAPTURE(flags);
    bool stands = false;
    dpi_status s = DPI_E_INTERNAL;
    {
      const FenvHost host(FE_TONEAREST, 0, flags);
      s = dpi_predict(m.get(), &rows.batch, &out, 1, nullptr, nullptr);
      dpi_model_counters_json(m.get(), nullptr, 0);
      stands = host.stands();
    }
    CHECK(s == DPI_OK);
    CHECK(stands);
  }
}

}  // namespace dpi::test::numbers_test
