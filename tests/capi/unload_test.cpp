// A host that loads the library by dlopen(), scores with a pool of threads on the process's environment,
// frees the model and calls dlclose() at once, again and again, on threads that end: nothing crashes, no
// thread of the pool is left, and memory stays where it is.
//
//   capi_unload_test LIBRARY BUNDLE
#include <dlfcn.h>
#include <dpi/dpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace {

constexpr int kRounds = 40;
constexpr int64_t kRows = 4096;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::exit(1);
}

int pool_threads() {
  int n = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    n += name == "dpi-pool";
  }
  return n;
}

long resident_kib() {
  long pages = 0;
  std::string all;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

template <class F>
F* find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) fail(std::string("no function ") + name);
  return reinterpret_cast<F*>(found);
}
// The function is named unevaluated: a reference would have to be linked, and a sanitizer's build keeps it.
#define FIND(function) const auto function##_ = find<decltype(function)>(library, #function)

void score_once(const char* path, const char* bundle) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(dlerror());
  FIND(dpi_options_create);
  FIND(dpi_options_set);
  FIND(dpi_options_free);
  FIND(dpi_model_load);
  FIND(dpi_model_get_info);
  FIND(dpi_model_free);
  FIND(dpi_predict);
  dpi_error e = DPI_ERROR_INIT;
  dpi_options* const o = dpi_options_create_();
  for (const auto& [key, value] : {std::pair("threads", "4"), {"device", "cpu"}})
    if (dpi_options_set_(o, key, value, &e) != DPI_OK) fail(e.message);
  dpi_model* m = nullptr;
  if (dpi_model_load_(bundle, o, &m, &e) != DPI_OK) fail(e.message);
  dpi_options_free_(o);
  dpi_model_info info{};
  info.struct_size = sizeof info;
  if (dpi_model_get_info_(m, &info, &e) != DPI_OK) fail(e.message);
  std::vector<int64_t> ids(static_cast<size_t>(kRows * info.num_slots), 0);
  std::vector<float> dense(static_cast<size_t>(kRows * info.dense_dim), 0.5f), out(kRows * 8);
  dpi_batch b = DPI_BATCH_INIT;
  b.rows = kRows;
  b.ids = ids.data();
  b.nnz = static_cast<int64_t>(ids.size());
  b.dense = dense.data();
  b.dense_stride = info.dense_dim;
  if (dpi_predict_(m, &b, out.data(), out.size(), nullptr, &e) != DPI_OK) fail(e.message);
  for (int i = 0; i < 5000 && pool_threads() != 3; ++i) usleep(1000);  // a thread gives itself its name
  if (pool_threads() != 3)
    fail("a model of 4 threads has " + std::to_string(pool_threads()) + " beside its caller");
  dpi_model_free_(m);
  for (int i = 0; i < 5000 && pool_threads() != 0; ++i)
    usleep(1000);  // one that was joined may be listed yet
  if (pool_threads() != 0) fail(std::to_string(pool_threads()) + " threads outlive the last model");
  dlclose(library);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("capi_unload_test LIBRARY BUNDLE");
  long after_some = 0;
  for (int i = 0; i < kRounds; ++i) {
    std::thread(score_once, argv[1], argv[2]).join();
    if (i == kRounds / 2) after_some = resident_kib();
  }
  const long more = resident_kib() - after_some;
  const bool keeps_freed = DPI_UNDER_ASAN || DPI_UNDER_TSAN;  // a sanitizer does, for a while
  if (more > 2048 && !keeps_freed)
    fail(std::to_string(more) + " KiB more after the second half of the rounds");
  std::printf("%d rounds: no thread left, %ld KiB more\n", kRounds, more);
  return 0;
}
