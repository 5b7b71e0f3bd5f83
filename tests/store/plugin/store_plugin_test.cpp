// Opening stores: each way to be unusable has its reason, and what a plugin says arrives as it said it.
// That folders are tried in order and trusted as those of backends is tests/backend/plugin_test.cpp: the
// code is the same; here is shown that stores come through it.
#include "store/abi/store_plugin.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "store/tiered/plugin_source.hpp"

namespace dpi::test::store_plugin_test {
namespace {

const std::string kFolder = DPI_TEST_PLUGIN_DIR;

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

std::string refusal(const std::string& name) {
  const auto found = store::find_store_plugin(name, kFolder);
  REQUIRE_FALSE(found.ok());
  CHECK(found.status().code() == Code::kNotFound);
  contains(found.status().message(), "store '" + name + "' cannot be used: ");
  contains(found.status().message(), kFolder + "/libdpi_" + name + ".so: ");
  return found.status().message();
}

tiered::StoreRequest request() {
  tiered::StoreRequest r;
  r.settings = {{"path", "/somewhere"}};
  r.tables = {{"users", std::string(64, 'a'), 10, 8, 2, 0, true}};
  return r;
}

const store::StorePlugin& valid() {
  const auto found = store::find_store_plugin("tinystore_valid", kFolder);
  REQUIRE_MESSAGE(found.ok(), found.status().message());
  return **found;
}

}  // namespace

TEST_CASE("a valid one opens, twice, and is loaded once") {
  CHECK(&valid() == &valid());
  CHECK(valid().path == kFolder + "/libdpi_tinystore_valid.so");
  CHECK(std::string(valid().api.settings) == "path");
}

TEST_CASE("each refusal has its reason") {
  contains(refusal("tinystore_missing"), "No such file or directory (option backend_dir)");
  contains(refusal("tinystore_missing"), "/dpi/backends-1/libdpi_tinystore_missing.so");
  contains(refusal("tinystore_no_init"), "does not export dpi_store_init_v1");
  contains(refusal("tinystore_no_layout"), "does not export dpi_store_layout_v1");
  const std::string abi = std::to_string(DPI_STORE_ABI), other = std::to_string(DPI_STORE_ABI + 1);
  contains(refusal("tinystore_old_abi"), "has store ABI " + other + ", expected " + abi);
  contains(refusal("tinystore_refuses_abi"), "refused store ABI " + abi + " with code 14");
  contains(refusal("tinystore_other_name"), "calls itself 'someone_else', expected 'tinystore_other_name'");
  contains(refusal("tinystore_short_struct"), "has an interface of 16 bytes, expected");
  contains(refusal("tinystore_hole"), "lacks a function of store ABI " + abi);
  contains(refusal("tinystore_not_a_library"), "cannot be opened: ");
  const std::string own = DPI_STORE_LAYOUT, elsewhere = DPI_TEST_OTHER_LAYOUT;
  CHECK(own != elsewhere);
  CHECK(own.starts_with(abi + "-"));
  contains(refusal("tinystore_other_layout"),
           "was built for the store interface '" + elsewhere + "', not for '" + own + "'");
}

TEST_CASE("a backend is no store") { contains(refusal("tiny_valid"), "does not export dpi_store_init_v1"); }

TEST_CASE("one that is not installed: where was looked, and which package has it") {
  for (const std::string name : {"rocksdb", "redis"}) {
    const std::string folder = "/nonexistent/of/option";
    const auto found = store::find_store_plugin(name, folder);
    if (found.ok()) continue;  // beside this program's own library
    CHECK(found.status().code() == Code::kNotFound);
    contains(found.status().message(), folder + "/libdpi_" + name + ".so: No such file or directory");
    CHECK(found.status().message().ends_with("; package libdpi1-" + name + " has it"));
  }
  const auto mine = store::find_store_plugin("mine", "");
  CHECK(mine.status().message().find("package") == std::string::npos);
  CHECK(store::find_store_plugin("../rocksdb", "").status().message() ==
        "store '../rocksdb' cannot be used: '../rocksdb': is not a store's name ([a-z0-9_], at most 32)");
}

TEST_CASE("one that others may write to is not trusted") {
  const std::string folder = kFolder + "/own", file = folder + "/libdpi_tinystore_valid.so";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kFolder + "/libdpi_tinystore_valid.so", file,
                             std::filesystem::copy_options::overwrite_existing);
  REQUIRE(chmod(folder.c_str(), 0755) == 0);
  REQUIRE(chmod(file.c_str(), 0777) == 0);
  contains(store::find_store_plugin("tinystore_valid", folder).status().message(),
           file + ": may be written to by everybody (mode 0777)");
  REQUIRE(chmod(file.c_str(), 0755) == 0);
  CHECK(store::find_store_plugin("tinystore_valid", folder).ok());
  std::filesystem::remove_all(folder);
}

TEST_CASE("what goes in and comes out") {
  LogSink log;
  tiered::StoreRequest r = request();
  r.mode = DPI_STORE_WRITE;
  r.log = &log;
  auto source = tiered::PluginSource::open(valid(), r);
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  const std::vector<int64_t> keys{5, 8};
  std::vector<std::byte> rows(16);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i);
  CHECK((*source)->write(0, keys, rows, 99).ok());
  const Status refused = (*source)->write(0, keys, rows, 98);
  CHECK(refused.code() == Code::kIo);
  CHECK(refused.native_code() == 5);
  CHECK(refused.message() == "store 'tinystore_valid': other rows");
  CHECK((*source)->complete(0).code() == Code::kBadModel);
  CHECK((*source)->drop(0).code() == Code::kUnsupported);
  const auto stat = (*source)->stat(0);
  REQUIRE(stat.ok());
  CHECK(stat->rows == 7);
  CHECK(stat->bytes == 56);
  CHECK(stat->complete == 1);
  CHECK(stat->digest == 42);
  CHECK(stat->sequence == 3);
  CHECK(std::string(stat->content) + stat->writer == "nowwho");
  CHECK(stat->newer == 5);

  tiered::StoredTable next = r.tables[0];
  next.rows = 9;
  const auto done = (*source)->begin_update(0, next, 77);
  REQUIRE(done.ok());
  CHECK(*done == 4);
  CHECK((*source)->begin_update(0, next, 78).status().message() == "store 'tinystore_valid': another update");
  CHECK((*source)->update(0, keys, rows, 6).ok());
  CHECK((*source)->update(0, keys, {}, 6).ok());
  CHECK((*source)->update(0, keys, {}, 5).code() == Code::kIo);
  CHECK((*source)->end_update(0).code() == Code::kClosed);

  const auto loss = (*source)->count(0);
  REQUIRE(loss.ok());
  CHECK(loss->rows == 5);
  CHECK(loss->missing_rows == 2);
  CHECK(loss->missing_parts == 1);
  CHECK(std::string(loss->what) == "partition 3 of 4");
  CHECK((*source)->begin_repair(0).ok());
  CHECK((*source)->begin_repair(1).code() == Code::kIo);
  CHECK((*source)->repair(0, keys, {}).ok());
  CHECK((*source)->repair(0, keys, rows).ok());
  CHECK((*source)->repair(0, std::span(keys).first(1), {}).code() == Code::kIo);
  CHECK((*source)->end_repair(0).message() == "store 'tinystore_valid': lost again");

  std::vector<std::byte> got(24, std::byte{0xEE});
  std::byte* to[] = {got.data(), got.data() + 8, got.data() + 16};
  const std::vector<int64_t> asked{3, -4, INT64_MAX};
  uint64_t found = 0;
  REQUIRE((*source)->fetch({0, asked, to, &found, 0}).ok());
  CHECK(found == 5);
  CHECK(std::memcmp(got.data(), &asked[0], 8) == 0);
  CHECK(got[8] == std::byte{0xEE});
  CHECK(std::memcmp(got.data() + 16, &asked[2], 8) == 0);
  CHECK((*source)->fetch({0, asked, to, &found, 1}).code() == Code::kTimeout);
  const Status odd = (*source)->fetch({0, asked, to, &found, 2});
  CHECK(odd.code() == Code::kInternal);
  CHECK(odd.message() == "store 'tinystore_valid': code 77 and no text");
}

TEST_CASE("an open that fails is a status, and nothing is closed") {
  tiered::StoreRequest r = request();
  r.settings.clear();
  CHECK(tiered::PluginSource::open(valid(), r).status().message() == "store 'tinystore_valid': no path");
  r = request();
  r.tables[0].row_bytes = 4;
  CHECK(tiered::PluginSource::open(valid(), r).status().code() == Code::kNotFound);
}

}  // namespace dpi::test::store_plugin_test
