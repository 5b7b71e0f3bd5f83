// Loading never holds more than the tables and a little: peak host memory grows by at most 1.1 x the tables +
// 64 MiB.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "backend/abi/registry.hpp"
#include "bundle/bundle.hpp"
#include "store/resident/resident_store.hpp"
#include "support/device.hpp"
#include "support/forwarding_store.hpp"
#include "support/python.hpp"
#include "support/sanitizer.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::load_memory_test {
namespace {

namespace fs = std::filesystem;

/// A line of /proc/self/status in bytes, 0 when it is not there.
uint64_t status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key + ":", 0) == 0)
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

Status load(Bundle& bundle, TableStore* store, StoreForecast* forecast) {
  std::vector<StoreTable> tables;
  for (const TableSpec& t : bundle.manifest().tables) {
    StoreTable s;
    s.name = t.name;
    s.rows = t.rows;
    s.dim = static_cast<int32_t>(t.dim);
    s.dtype = t.dtype;
    tables.push_back(s);
  }
  DPI_ASSIGN_OR_RETURN(*forecast, store->plan(tables));
  for (size_t t = 0; t < tables.size(); ++t) {
    DPI_RETURN_IF_ERROR(bundle.read_table(t, [&](int64_t first, int64_t n, std::span<const std::byte> bytes) {
      return store->ingest(static_cast<int32_t>(t), first, n, bytes);
    }));
  }
  return store->seal();
}

TEST_CASE("peak memory of a load") {
  if (DPI_UNDER_ASAN || DPI_UNDER_TSAN) {
    skip_program("sanitizers keep their own copies of memory");
    return;
  }
  if (!has_python()) return;
  const fs::path file = fs::temp_directory_path() / ("dpi_big_" + std::to_string(::getpid()) + ".h5");
  const bool made = run_script(source_dir() + "/tests/store/make_big.py", file.string());
  if (!made) fs::remove(file);
  REQUIRE(made);
  dpi_backend_options options{};
  options.struct_size = sizeof options;
  options.device_index = -1;
  options.isa = "auto";
  dpi_backend_error err{};
  const dpi_backend_api* api = backend::ref_backend();
  dpi_backend_device* device = nullptr;
  REQUIRE(api->open(&options, &device, &err) == 0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here, where the kernel allows it
  const uint64_t before = status_bytes("VmRSS");
  StoreForecast forecast;
  {
    auto store = make_resident_store(api, device, 0);
    auto bundle = Bundle::open(file.string());
    REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
    const Status s = load(**bundle, store.get(), &forecast);
    REQUIRE_MESSAGE(s.ok(), s.message());
    float v = 0;  // row 60,000 of the first table: the second block's
    const kernels::TableView view = view_of(*store, 0);
    std::memcpy(&v, static_cast<const char*>(view.base) + 60000 * view.row_bytes, sizeof v);
    CHECK(v == 50000.0f + 160000 % 1000);
  }
  api->close(device);
  const uint64_t grown = status_bytes("VmHWM") - before;
  const uint64_t raw = uint64_t{4} * (2'000'000 * 16 + 500'000 * 32 + 400'000 * 8 + 1000 * 4);
  MESSAGE("tables ", raw >> 20, " MiB, forecast ", forecast.host_bytes >> 20, " MiB, peak growth ",
          grown >> 20, " MiB");
  CHECK(raw > 190u << 20);
  CHECK(grown <= raw + raw / 10 + (64u << 20));
  CHECK(grown >= raw / 2);  // or the measurement is broken
  fs::remove(file);
}

}  // namespace
}  // namespace dpi::test::load_memory_test
