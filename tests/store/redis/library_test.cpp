// The library as it is shipped, opened as the engine opens it: what it exports, and a table through it.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "store/abi/dpi_store.h"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/tiered/plugin_source.hpp"

namespace dpi::test::library_test {
namespace {

std::string output_of(const std::string& command) {
  std::string all;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> block{};
  while (std::fgets(block.data(), block.size(), pipe) != nullptr) all += block.data();
  REQUIRE(::pclose(pipe) == 0);
  return all;
}

}  // namespace

TEST_CASE("it exports two functions, and needs hiredis, OpenSSL and the C library only") {
  const std::string symbols = output_of("nm -D --defined-only --format=just-symbols " DPI_REDIS_LIBRARY);
  CHECK(symbols == "dpi_store_init_v1\ndpi_store_layout_v1\n");
  const std::string needed = output_of("readelf -d " DPI_REDIS_LIBRARY " | grep NEEDED");
  CHECK_MESSAGE(needed.find("[libhiredis.so.") != std::string::npos, needed);
  CHECK_MESSAGE(needed.find("[libssl.so.") != std::string::npos, needed);
  CHECK_MESSAGE(needed.find("libstdc++") == std::string::npos, needed);
}

TEST_CASE("opened by dlopen: another version is refused, its layout is told, a table goes through it") {
  if (!redis_installed()) return;
  void* library = ::dlopen(DPI_REDIS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto init = reinterpret_cast<dpi_store_init_fn>(::dlsym(library, DPI_STORE_INIT_SYMBOL));
  const auto layout = reinterpret_cast<dpi_store_layout_fn>(::dlsym(library, DPI_STORE_LAYOUT_SYMBOL));
  REQUIRE((init != nullptr && layout != nullptr));
  CHECK(std::string(layout()).starts_with(std::to_string(DPI_STORE_ABI) + "-"));
  dpi_store_api api{};
  CHECK(init(DPI_STORE_ABI + 1, &api) == 14);  // kVersion
  CHECK(api.abi_version == DPI_STORE_ABI);
  REQUIRE(init(DPI_STORE_ABI, &api) == 0);
  CHECK(std::string(api.name) == "redis");
  CHECK(std::string(api.settings).starts_with("address, "));

  RedisServer server;
  const auto t = KnownTable::make("x", 'a', 4, 10, true, 1);
  const dpi_store_table described = t.described();
  const std::string where = server.address();
  const dpi_store_setting setting{"address", where.c_str()};
  dpi_store_options options{sizeof options, DPI_STORE_WRITE, &setting, 1, 1, nullptr, nullptr};
  dpi_store_handle* h = nullptr;
  dpi_store_error error{};
  REQUIRE_MESSAGE(api.open(&options, &described, 1, &h, &error) == 0, error.message);
  CHECK(api.write(h, 0, t.keys.data(), t.bytes.data(), t.rows(), 1, &error) == 0);
  CHECK(api.complete(h, 0, &error) == 0);
  dpi_store_stat stat{};
  CHECK(api.stat(h, 0, &stat, &error) == 0);
  CHECK(stat.rows == 10);
  CHECK(api.drop(h, 0, &error) == 0);
  api.close(h);
  CHECK(::dlclose(library) == 0);
}

TEST_CASE(
    "opened by the engine's loader: rows written and fetched, an absent key, a table that is not there") {
  if (!redis_installed()) return;
  using dpi::tiered::PluginSource;
  const std::string file = DPI_REDIS_LIBRARY;
  const auto plugin = dpi::store::find_store_plugin("redis", file.substr(0, file.rfind('/')));
  REQUIRE_MESSAGE(plugin.ok(), plugin.status().message());
  RedisServer server;
  const auto t = KnownTable::make("x", 'a', 4, 300, true, 2);
  dpi::tiered::StoreRequest request;
  request.mode = DPI_STORE_WRITE;
  request.settings = {{"address", server.address()}};
  request.tables = {{t.name, t.content, t.rows(), t.row_bytes(), t.dim, 0, true}};
  {
    auto writer = PluginSource::open(**plugin, request);
    REQUIRE_MESSAGE(writer.ok(), writer.status().message());
    REQUIRE((*writer)->write(0, t.keys, std::as_bytes(std::span(t.bytes)), 7).ok());
    REQUIRE((*writer)->complete(0).ok());
    CHECK((*writer)->stat(0)->digest == 7);
  }
  request.mode = DPI_STORE_READ;
  auto reader = PluginSource::open(**plugin, request);
  REQUIRE_MESSAGE(reader.ok(), reader.status().message());
  std::vector<int64_t> keys = {t.keys[0], 123456789, t.keys[299]};
  std::array<std::array<std::byte, 16>, 3> rows{};
  std::array<std::byte*, 3> at = {rows[0].data(), rows[1].data(), rows[2].data()};
  uint64_t found = 0;
  REQUIRE((*reader)->fetch({0, keys, at.data(), &found, 0}).ok());
  CHECK(found == (t.row(123456789) == nullptr ? 0b101 : 0b111));
  for (const size_t i : {size_t{0}, size_t{2}}) CHECK(std::memcmp(rows[i].data(), t.row(keys[i]), 16) == 0);
  request.tables[0].content = std::string(64, 'b');
  const dpi::Status other = PluginSource::open(**plugin, request).status();
  CHECK(other.code() == dpi::Code::kNotFound);
  CHECK_MESSAGE(other.message().find("dpi store load") != std::string::npos, other.message());
}

}  // namespace dpi::test::library_test
