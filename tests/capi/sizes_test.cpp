// Callers compiled against another header: for every struct with struct_size a smaller one, an equal one, a
// larger one with zeros, a larger one with something in it, and one that was never set.
#include <algorithm>
#include <functional>

#include "support/capi_support.hpp"

namespace dpi::test::sizes_test {
namespace {

constexpr size_t kAdded = 24;

/// Bytes of a struct with room behind it, and one guard byte at the end of what the caller said it has.
template <class T>
struct Sized {
  alignas(16) unsigned char bytes[sizeof(T) + kAdded + 64];

  explicit Sized(size_t size, unsigned char fill = 0xA5) {
    std::fill(std::begin(bytes), std::end(bytes), fill);
    get()->struct_size = static_cast<uint32_t>(size);
  }
  T* get() { return reinterpret_cast<T*>(bytes); }
  bool untouched_from(size_t at) const {
    return std::all_of(bytes + at, std::end(bytes), [](unsigned char b) { return b == 0xA5; });
  }
  bool zero(size_t from, size_t to) const {
    return std::all_of(bytes + from, bytes + to, [](unsigned char b) { return b == 0; });
  }
};

/// A struct that the library fills.
template <class T>
void check_filled(const std::function<dpi_status(T*, dpi_error*)>& fill, size_t size_1_0) {
  Error e;
  for (const size_t size : {size_t{0}, size_t{4}, size_1_0 - 1}) {
    CAPTURE(size);
    Sized<T> small(size);
    CHECK(fill(small.get(), &e) == DPI_E_INVALID_ARGUMENT);
    CHECK(e.text().find("struct_size is " + std::to_string(size)) != std::string::npos);
    CHECK(small.untouched_from(4));
  }
  Sized<T> never(0xFFFFFFFFu);
  CHECK(fill(never.get(), &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(never.untouched_from(4));
  Sized<T> equal(size_1_0);
  CHECK(fill(equal.get(), &e) == DPI_OK);
  CHECK(equal.get()->struct_size == size_1_0);
  CHECK(equal.untouched_from(size_1_0));
  CHECK_FALSE(equal.untouched_from(4));
  Sized<T> larger(sizeof(T) + kAdded);
  CHECK(fill(larger.get(), &e) == DPI_OK);
  CHECK(larger.zero(sizeof(T), sizeof(T) + kAdded));
  CHECK(larger.untouched_from(sizeof(T) + kAdded));
}

/// A struct that the caller fills; `good` is a valid one.
template <class T>
void check_read(const std::function<dpi_status(const T*, dpi_error*)>& use, const T& good, size_t size_1_0) {
  Error e;
  const auto sized = [&](size_t size, unsigned char behind) {
    Sized<T> s(size, behind);
    std::memcpy(s.bytes, &good, sizeof good);
    s.get()->struct_size = static_cast<uint32_t>(size);
    return use(s.get(), &e);
  };
  for (const size_t size : {size_t{0}, size_t{4}, size_1_0 - 1, size_t{0xFFFFFFFFu}})
    CHECK(sized(size, 0) == DPI_E_INVALID_ARGUMENT);
  CHECK(sized(size_1_0, 0xA5) == DPI_OK);
  CHECK(sized(sizeof(T), 0xA5) == DPI_OK);
  CHECK(sized(sizeof(T) + kAdded, 0) == DPI_OK);
  CHECK(sized(sizeof(T) + kAdded, 0xA5) == DPI_E_VERSION);
}

}  // namespace

TEST_CASE("structs that the library fills") {
  const ModelPtr m = load("adult_widedeep.h5");
  check_filled<dpi_model_info>([&](auto* s, auto* e) { return dpi_model_get_info(m.get(), s, e); }, 88);
  check_filled<dpi_feature_info>([&](auto* s, auto* e) { return dpi_model_get_feature(m.get(), 0, s, e); },
                                 56);
  dpi_context* c = nullptr;
  REQUIRE(dpi_context_create(m.get(), 4, 0, &c, nullptr) == DPI_OK);
  const ContextPtr context(c);
  check_filled<dpi_context_view>([&](auto* s, auto* e) { return dpi_context_get_view(c, s, e); }, 64);
  dpi_rows* r = nullptr;
  REQUIRE(dpi_rows_create(m.get(), &r, nullptr) == DPI_OK);
  const RowsPtr rows(r);
  REQUIRE(dpi_rows_begin(r, nullptr) == DPI_OK);
  check_filled<dpi_batch>([&](auto* s, auto* e) { return dpi_rows_get_batch(r, s, e); }, DPI_BATCH_1_0_SIZE);
}

TEST_CASE("structs that the caller fills") {
  const ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows rows(m.get(), 2);
  std::vector<float> out(2);
  check_read<dpi_batch>(
      [&](const auto* b, auto* e) { return dpi_predict(m.get(), b, out.data(), out.size(), nullptr, e); },
      rows.batch, DPI_BATCH_1_0_SIZE);
  dpi_run_options run{};
  check_read<dpi_run_options>(
      [&](const auto* o, auto* e) { return dpi_predict(m.get(), &rows.batch, out.data(), out.size(), o, e); },
      run, 48);
}

TEST_CASE("memory hooks as a caller of another version has them") {
  dpi_env* raw = nullptr;
  REQUIRE(dpi_env_create(&raw, nullptr) == DPI_OK);
  const std::unique_ptr<dpi_env, decltype(&dpi_env_free)> env(raw, dpi_env_free);
  dpi_memory_hooks hooks{};
  hooks.alloc = [](void*, size_t, size_t, int32_t) -> void* { return nullptr; };
  hooks.free = [](void*, void*, size_t, int32_t) {};
  check_read<dpi_memory_hooks>([&](const auto* h, auto* e) { return dpi_env_set_memory(raw, h, e); }, hooks,
                               32);
}

TEST_CASE("dpi_error takes what fits") {
  const char* const path = "/nowhere/a/path/that/is/long/enough/to/be/cut/model.h5";
  const auto fail = [&](dpi_error* e) {
    dpi_model* m = nullptr;
    CHECK(dpi_model_load(path, nullptr, &m, e) == DPI_E_NOT_FOUND);
  };
  for (const size_t size : {size_t{1}, size_t{4}, size_t{39}}) {
    CAPTURE(size);
    Sized<dpi_error> least(size);
    fail(least.get());
    CHECK(least.untouched_from(4));
  }
  for (const size_t size : {size_t{40}, size_t{64}, size_t{511}, size_t{DPI_ERROR_1_0_SIZE}}) {
    CAPTURE(size);
    Sized<dpi_error> e(size);
    fail(e.get());
    CHECK(e.get()->code == DPI_E_NOT_FOUND);
    CHECK(e.get()->row == -1);
    const std::string text = e.get()->message;
    CHECK(text.size() < size - offsetof(dpi_error, message));
    CHECK(std::string(path).starts_with(text.substr(0, 7)));
    CHECK(e.untouched_from(size));
  }
  for (const size_t size : {size_t{0}, size_t{4097}, size_t{0xFFFFFFFFu}}) {  // never set
    CAPTURE(size);
    Sized<dpi_error> e(size);
    fail(e.get());
    CHECK(e.get()->code == DPI_E_NOT_FOUND);
    CHECK(std::string(e.get()->message).find(path) != std::string::npos);
    CHECK(e.untouched_from(DPI_ERROR_1_0_SIZE));
  }
  Sized<dpi_error> larger(sizeof(dpi_error) + kAdded);
  fail(larger.get());
  CHECK(larger.zero(sizeof(dpi_error), sizeof(dpi_error) + kAdded));
  CHECK(larger.untouched_from(sizeof(dpi_error) + kAdded));
}

TEST_CASE("the size of a text counts its end, and a buffer of that size takes all of it") {
  const ModelPtr m = load("adult_widedeep.h5");
  const size_t size = dpi_model_counters_json(m.get(), nullptr, 0);
  std::vector<char> text(size + 1, 'x');
  CHECK(dpi_model_counters_json(m.get(), text.data(), size) == size);
  CHECK(std::string(text.data()).size() + 1 == size);
  CHECK(text[size - 2] == '}');
  CHECK(text[size] == 'x');
  CHECK(dpi_model_counters_json(m.get(), text.data(), 5) == size);  // cut, with its end
  CHECK(std::string(text.data()).size() == 4);
}

}  // namespace dpi::test::sizes_test
