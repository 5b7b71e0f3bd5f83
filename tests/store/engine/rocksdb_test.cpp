// A model whose external rows come from a RocksDB directory that is not there, locked, unfinished, damaged in
// any file, full while it is loaded, or removed under the running model: no crash, no wrong score, errors by
// name. `dpi store load` over a disk that fills up says so, and goes on when there is room.
// Planted, each seen: a loader whose exit status is 0 although a write failed; blocks read without their
// checksums. tests/store/rocksdb plants faults in the plugin itself.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "store/engine/fixture.hpp"

namespace dpi::test::rocksdb_test {

namespace fs = std::filesystem;

namespace {

const std::string kSmall = "60000";

Pairs at(const std::string& folder, Pairs more = {}) {
  more.emplace_back("store.rocksdb_path", folder);
  return tiered(kSmall, more);
}

/// Calls of random rows that are all right; the first failure's text otherwise.
std::string all_right(dpi_model* m, int calls, uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (int i = 0; i < calls; ++i) {
    const Request request(random_rows(8, rng));
    const Scored got = score(m, request);
    if (got.code != DPI_OK) return got.message;
    if (!identical(got.out, right_scores(request))) return "wrong scores";
  }
  return "";
}

void refused(const std::string& folder, dpi_status code, const std::string& text) {
  const Loaded l = try_load(external(), at(folder));
  CHECK_MESSAGE(l.code == code, l.message);
  CHECK_MESSAGE(l.message.find(folder) != std::string::npos, l.message);
  CHECK_MESSAGE(l.message.find(text) != std::string::npos, l.message);
}

/// `dpi store ...`: its exit status, and what it said.
struct Ran {
  int status = -1;
  std::string said;
};
Ran run_store(const std::string& arguments, const std::string& before = "") {
  const Folder folder;
  const std::string log = folder.path() + "/said";
  const int s = std::system((before + " '" + DPI_TEST_PROGRAM + "' store " + arguments + " --backend-dir '" +
                             DPI_TEST_STORE_PLUGINS + "' >'" + log + "' 2>&1")
                                .c_str());
  std::ifstream file(log);
  return {WIFEXITED(s) ? WEXITSTATUS(s) : -1, {std::istreambuf_iterator<char>(file), {}}};
}

/// What is done to a file of the tables while a model reads them.
void overwrite(const fs::path& path) {
  std::fstream f(path, std::ios::binary | std::ios::in | std::ios::out);
  for (uintmax_t place = 50; place < fs::file_size(path); place += 1000) {
    f.seekp(static_cast<std::streamoff>(place));
    f.put('\x5a');
  }
}
void cut(const fs::path& path) { fs::resize_file(path, 100); }

}  // namespace

TEST_CASE("no directory, an empty one, and one of unfinished tables") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder folder;
  refused(folder.path() + "/none", DPI_E_NOT_FOUND, "dpi store load");
  refused(folder.path(), DPI_E_NOT_FOUND, "dpi store load");
  const std::string tables = folder.path() + "/tables";
  REQUIRE(run_store("load '" + whole() + "' --table users --rocksdb '" + tables + "'").status == 0);
  refused(tables, DPI_E_NOT_FOUND, "table 'items'");
  REQUIRE(run_store("load '" + whole() + "' --rocksdb '" + tables + "'").status == 0);
  CHECK(all_right(load_model(external(), at(tables)).get(), 20, 1) == "");
}

TEST_CASE("a directory that a loader holds serves models; removed under one, it goes on serving it") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder folder;
  const std::string tables = folder.path() + "/tables";
  fill_store("rocksdb", {{"path", tables}});
  const auto lock = [&] { return hold_store("rocksdb", {{"path", tables}}); };
  ModelPtr m;
  {
    const auto held = lock();
    const Ran second = run_store("load '" + whole() + "' --rocksdb '" + tables + "'");
    CHECK(second.status == 5);
    CHECK_MESSAGE(second.said.find("LOCK") != std::string::npos, second.said);
    m = load_model(external(), at(tables));
    CHECK(all_right(m.get(), 20, 2) == "");
  }
  fs::remove_all(tables);
  CHECK(all_right(m.get(), 100, 3) == "");  // its files are open
  CHECK(tier(m.get(), "users").fetched > 200);
  refused(tables, DPI_E_NOT_FOUND, "dpi store load");
}

TEST_CASE("damaged in any file: refused by name, or read right; never a crash or another score") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder folder;
  const std::string tables = folder.path() + "/tables", copy = folder.path() + "/copy";
  fill_store("rocksdb", {{"path", tables}});
  std::mt19937_64 rng(9);
  int refusals = 0, whole_ones = 0;
  for (int round = 0; round < 6; ++round) {
    for (const auto& file : fs::directory_iterator(tables)) {
      if (!file.is_regular_file() || file.file_size() == 0) continue;
      const std::string name = file.path().filename();
      if (name.starts_with("LOG") || name == "LOCK") continue;
      fs::remove_all(copy);
      fs::copy(tables, copy);
      const std::string path = copy + "/" + name;
      const auto place = rng() % file.file_size();
      CAPTURE(name);
      CAPTURE(place);
      if (round % 3 == 0) {
        fs::resize_file(path, place);
      } else {
        std::fstream f(path, std::ios::binary | std::ios::in | std::ios::out);
        f.seekg(static_cast<std::streamoff>(place));
        const int byte = f.get();
        f.seekp(static_cast<std::streamoff>(place));
        f.put(static_cast<char>(byte ^ (1 << rng() % 8)));
      }
      const Loaded l = try_load(external(), at(copy));
      ++(l.code == DPI_OK ? whole_ones : refusals);
      const bool by_name =
          l.code == DPI_OK || l.code == DPI_E_IO || l.code == DPI_E_BAD_MODEL || l.code == DPI_E_NOT_FOUND;
      CHECK_MESSAGE(by_name, l.message);
      if (l.code != DPI_OK) CHECK_MESSAGE(l.message.find(copy) != std::string::npos, l.message);
      if (l.code == DPI_OK) {
        const std::string wrong = all_right(l.model.get(), 5, rng());
        CHECK(wrong != "wrong scores");
      }
    }
  }
  MESSAGE(refusals, " refused, ", whole_ones, " read");
  CHECK(refusals > 8);
}

TEST_CASE("a damaged file is the store's fault: DPI_E_IO at the load, and the text says what to do") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder folder;
  const std::string tables = folder.path() + "/tables", copy = folder.path() + "/copy";
  fill_store("rocksdb", {{"path", tables}});
  int files = 0;
  for (const auto& file : fs::directory_iterator(tables)) {
    if (file.path().extension() != ".sst") continue;
    fs::remove_all(copy);
    fs::copy(tables, copy);
    const std::string path = copy + "/" + file.path().filename().string();
    std::fstream f(path, std::ios::binary | std::ios::in | std::ios::out);
    f.seekp(-52, std::ios::end);  // of the footer: where its first block lies
    f.put('\x5a');
    f.close();
    const Loaded l = try_load(external(), at(copy));
    CHECK_MESSAGE(l.code == DPI_E_IO, l.message);
    CHECK_MESSAGE(l.message.find(path + ": is damaged") != std::string::npos, l.message);
    CHECK_MESSAGE(l.message.find("load its tables again") != std::string::npos, l.message);
    ++files;
  }
  CHECK(files > 0);
  const Ran stat = run_store("stat '" + whole() + "' --rocksdb '" + copy + "'");
  CHECK(stat.status == 5);
  CHECK_MESSAGE(stat.said.find("is damaged") != std::string::npos, stat.said);
}

TEST_CASE("overwritten or cut under the model that reads it: an error by name, never another score") {
  if (!have_models() || !have_rocksdb()) return;
  void (*harm)(const fs::path&) = nullptr;
  SUBCASE("overwritten") { harm = overwrite; }
  SUBCASE("cut") { harm = cut; }
  const Folder folder;
  const std::string tables = folder.path() + "/tables";
  fill_store("rocksdb", {{"path", tables}});
  const ModelPtr m = load_model(external(), at(tables));
  for (const auto& file : fs::directory_iterator(tables)) {
    if (file.path().extension() != ".sst") continue;
    harm(file.path());
  }
  std::mt19937_64 rng(11);
  int failed = 0;
  for (int i = 0; i < 50; ++i) {
    const Request request(random_rows(8, rng));
    const Scored got = score(m.get(), request);
    failed += got.code == DPI_OK ? 0 : 1;
    if (got.code == DPI_OK) CHECK(identical(got.out, right_scores(request)));
    if (got.code == DPI_OK) continue;
    CHECK_MESSAGE((got.code == DPI_E_IO || got.code == DPI_E_BAD_MODEL), got.message);
    CHECK_MESSAGE(got.message.find(tables) != std::string::npos, got.message);
  }
  CHECK(failed > 25);
}

TEST_CASE("dpi store load on a disk that fills up says so, leaves nothing to be served, and goes on") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder folder;
  int full = 0;
  for (const int bytes : {0, 3000, 40'000, 90'000, 150'000}) {
    CAPTURE(bytes);
    const std::string tables = folder.path() + "/" + std::to_string(bytes);
    const std::string arguments = "load '" + whole() + "' --rocksdb '" + tables + "'";
    const std::string shim = "DPI_TEST_DISK_FOLDER='" + tables +
                             "' DPI_TEST_DISK_BYTES=" + std::to_string(bytes) + " LD_PRELOAD='" +
                             DPI_TEST_FULL_DISK + "'";
    const Ran first = run_store(arguments, shim);
    CHECK_MESSAGE(first.status == 5, first.said);
    CHECK_MESSAGE(first.said.find("No space left on device") != std::string::npos, first.said);
    const Loaded l = try_load(external(), at(tables));
    CHECK_MESSAGE((l.code == DPI_E_NOT_FOUND || l.code == DPI_E_IO), l.message);
    ++full;
    const Ran again = run_store(arguments);
    CHECK_MESSAGE(again.status == 0, again.said);
    CHECK(run_store("verify '" + whole() + "' --rocksdb '" + tables + "'").status == 0);
    CHECK(all_right(load_model(external(), at(tables)).get(), 5, 4) == "");
  }
  CHECK(full == 5);
}

}  // namespace dpi::test::rocksdb_test
