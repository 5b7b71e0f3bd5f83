/// Which sanitizer a file is compiled with: g++ tells by a macro, clang by a feature. Each is 0 or 1, for
/// `#if` and for `if constexpr` alike. (DPI_SANITIZED, of the build, is there with UndefinedBehaviorSanitizer
/// too.)
#pragma once

#if defined(__has_feature)
#define DPI_TEST_FEATURE(name) __has_feature(name)
#else
#define DPI_TEST_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || DPI_TEST_FEATURE(address_sanitizer)
#define DPI_UNDER_ASAN 1
#else
#define DPI_UNDER_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || DPI_TEST_FEATURE(thread_sanitizer)
#define DPI_UNDER_TSAN 1
#else
#define DPI_UNDER_TSAN 0
#endif

namespace dpi::test {

/// Of `all` cases of a test those that this build runs: an eighth where a sanitizer makes each take eight
/// times as long or more. Release builds run all of them.
template <class N>
constexpr N some_of(N all) {
#ifdef DPI_SANITIZED
  return all / 8 > 0 ? all / 8 : 1;
#else
  return all;
#endif
}

}  // namespace dpi::test
