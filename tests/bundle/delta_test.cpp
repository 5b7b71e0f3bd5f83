// Deltas: data/changing.h5, data/changed.h5 and the delta between them, by make_delta.py; every byte of the
// second file is what the engine must make of the other two. Hostile files: tests/e2e/cli/test_delta.py.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/text.hpp"
#include "bundle/apply.hpp"
#include "bundle/bundle_bytes.hpp"
#include "bundle/delta/row_map.hpp"
#include "bundle/patch.hpp"
#include "bundle/signature.hpp"

namespace dpi::test::delta_test {
namespace {

namespace fs = std::filesystem;

std::string data_path(const char* name) { return source_dir() + "/tests/bundle/data/" + name; }

template <class T>
T need(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  return std::move(result).value();
}

BundleOptions hashed() {
  BundleOptions options;
  options.check_hashes = true;
  return options;
}

std::shared_ptr<Bundle> open_bundle(const std::string& path) { return need(Bundle::open(path, hashed())); }
std::shared_ptr<const Delta> open_delta() { return need(Delta::open(data_path("changing.delta"))); }

struct Scratch {
  fs::path folder = fs::temp_directory_path() / ("dpi_delta_" + std::to_string(::getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
  std::string path(const char* name) const { return folder / name; }
};

/// All rows of a table as bytes, one entry a row.
std::vector<std::vector<std::byte>> rows_of(Bundle& bundle, size_t table) {
  std::vector<std::vector<std::byte>> out;
  const Status s = bundle.read_table(table, [&](int64_t, int64_t n, std::span<const std::byte> bytes) {
    const size_t row = bytes.size() / static_cast<size_t>(n);
    for (; !bytes.empty(); bytes = bytes.subspan(row))
      out.emplace_back(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(row));
    return Status();
  });
  REQUIRE_MESSAGE(s.ok(), s.message());
  return out;
}

/// The row of each key, of a keyed table.
std::map<int64_t, size_t> rows_of_keys(Bundle& bundle, int32_t key_set) {
  std::map<int64_t, size_t> out;
  const Status s =
      bundle.read_keys(static_cast<size_t>(key_set), [&](int64_t first, std::span<const int64_t> keys) {
        for (const int64_t key : keys) out[key] = static_cast<size_t>(first++);
        return Status();
      });
  REQUIRE_MESSAGE(s.ok(), s.message());
  return out;
}

TEST_CASE("a delta names two versions and the rows that the second has otherwise") {
  const auto base = open_bundle(data_path("changing.h5")), next = open_bundle(data_path("changed.h5"));
  const auto delta = open_delta();
  CHECK(delta->base() == base->content_hash());
  CHECK(delta->version() == next->content_hash());
  CHECK(base->content_hash() != next->content_hash());
  REQUIRE(delta->tables().size() == next->manifest().tables.size());
  for (const TableDelta& t : delta->tables()) {
    const TableSpec& spec = next->manifest().tables[t.table];
    CAPTURE(spec.name);
    CHECK(delta->find_table(t.table) == &t);
    const auto rows = rows_of(*next, t.table);
    std::vector<size_t> where;
    for (const int64_t at : t.at)
      where.push_back(spec.keys.empty() ? static_cast<size_t>(at) : rows_of_keys(*next, spec.key_set).at(at));
    for (size_t r = 0; t.all && r < rows.size(); ++r) where.push_back(r);
    if (t.default_row) where.push_back(rows.size() - 1);
    size_t seen = 0;
    const Status s = delta->read_rows(
        t, [&](int64_t first, int64_t n, std::span<const std::byte> bytes, std::span<const float> scales) {
          CHECK(scales.size() == (spec.dtype == kernels::DType::kI8 ? static_cast<size_t>(n) : 0));
          const size_t row = bytes.size() / static_cast<size_t>(n);
          for (size_t i = 0; i < static_cast<size_t>(n); ++i, ++seen) {
            const auto here = bytes.subspan(i * row, row);
            const auto& there = rows[where.at(static_cast<size_t>(first) + i)];
            CHECK(std::equal(here.begin(), here.end(), there.begin(), there.end()));
          }
          return Status();
        });
    CHECK_MESSAGE(s.ok(), s.message());
    CHECK(seen == where.size());
    CHECK(static_cast<int64_t>(seen) == t.set());
  }
}

TEST_CASE("keys that came and went") {
  const auto base = open_bundle(data_path("changing.h5")), next = open_bundle(data_path("changed.h5"));
  const auto delta = open_delta();
  REQUIRE(!delta->key_sets().empty());
  for (const KeySetDelta& s : delta->key_sets()) {
    const auto before = rows_of_keys(*base, static_cast<int32_t>(s.key_set));
    const auto after = rows_of_keys(*next, static_cast<int32_t>(s.key_set));
    std::set<int64_t> made;
    for (const auto& [key, row] : before) made.insert(key);
    for (const int64_t key : s.gone) CHECK(made.erase(key) == 1);
    for (const int64_t key : s.added) CHECK(made.insert(key).second);
    CHECK(made.size() == after.size());
    for (const auto& [key, row] : after) CHECK(made.contains(key));
  }
}

TEST_CASE("the new bundle's bytes, wherever one begins to read") {
  const Bytes want = read_file(data_path("changed.h5"));
  const auto bytes = need(patched(open_bundle(data_path("changing.h5")), open_delta()));
  REQUIRE(bytes->size() == want.size());
  CHECK(bytes->stays());
  const auto read_some = [&](uint32_t seed) {
    std::mt19937 random(seed);
    bool same = true;
    for (int i = 0; i < 2000; ++i) {
      const size_t at = random() % want.size(), n = random() % std::min<size_t>(want.size() - at, 3000);
      Bytes got(n + 1, 0xa5);
      same = same && bytes->read(at, got.data(), n).ok() && got[n] == 0xa5 &&
             std::equal(got.begin(), got.end() - 1, want.begin() + static_cast<ptrdiff_t>(at));
    }
    return same;
  };
  CHECK(read_some(1));
  bool same[2] = {};
  std::thread other([&] { same[0] = read_some(2); });
  same[1] = read_some(3);
  other.join();
  CHECK(same[0]);
  CHECK(same[1]);
}

/// A list of rows of the new data set and where they come from, made one by one.
struct PlainMap {
  std::vector<std::pair<RowMap::From, int64_t>> rows;
  std::vector<int64_t> set, zeros, added, gone;

  PlainMap(int64_t base_rows, std::mt19937* random) {
    const auto chance = [random](uint32_t of) { return (*random)() % of == 0; };
    const auto add = [&](RowMap::From from, int64_t at) { rows.emplace_back(from, at); };
    const auto next = [&] { return static_cast<int64_t>(rows.size()); };
    const auto set_row = [&](bool is_new) {
      if (is_new) added.push_back(next());
      set.push_back(next());
      add(RowMap::From::kDelta, static_cast<int64_t>(set.size()) - 1);
    };
    const uint32_t often = 1 + (*random)() % 6;
    for (int64_t r = 0; r < base_rows; ++r) {
      while (chance(often + 1)) set_row(true);
      if (chance(often + 1)) {
        gone.push_back(r);
      } else if (chance(often)) {
        set_row(false);
      } else if (chance(5)) {
        zeros.push_back(next());
        add(RowMap::From::kZeros, 0);
      } else {
        add(RowMap::From::kBase, r);
      }
    }
    while (chance(2)) set_row(true);
  }
};

TEST_CASE("a map of rows is the list that it stands for") {
  std::mt19937 random(11);
  for (int i = 0; i < 500; ++i) {
    const PlainMap plain(static_cast<int64_t>(random() % 60), &random);
    const auto n = static_cast<int64_t>(plain.rows.size());
    const RowMap map(n, plain.set, plain.zeros, plain.added, plain.gone);
    for (int64_t row = 0; row < n; ++row) {
      const RowMap::Run run = map.at(row);
      REQUIRE(run.rows >= 1);
      REQUIRE(run.rows <= n - row);
      for (int64_t k = 0; k < run.rows; ++k) {
        const auto& [from, at] = plain.rows[static_cast<size_t>(row + k)];
        REQUIRE(run.from == from);
        if (from != RowMap::From::kZeros) REQUIRE(run.first + k == at);
      }
    }
  }
}

TEST_CASE("a version is that of the content, not of who signed it") {
  const Scratch scratch;
  const std::string copy = scratch.path("signed.h5");
  fs::copy_file(data_path("changing.h5"), copy);
  const SigningKey key = need(make_signing_key());
  REQUIRE(sign_file(copy, key, {}, {}).ok());
  const auto base = open_bundle(copy);
  CHECK(base->signatures().size() == 1);
  CHECK(base->content_hash() == open_bundle(data_path("changing.h5"))->content_hash());
  const auto bundle = need(open_patched(base, {open_delta()}, 0, hashed()));
  CHECK(bundle->verify_all({}).ok());
  const std::string delta = scratch.path("signed.delta");
  fs::copy_file(data_path("changing.delta"), delta);
  REQUIRE(sign_file(delta, key, {}, {}).ok());
  DeltaOptions options;
  options.require_signature = hex_bytes(key.public_key);
  CHECK(Delta::open(delta, options).ok());
  CHECK(Delta::open(data_path("changing.delta"), options).status().code() == Code::kBadModel);
}

TEST_CASE("a file appears whole, in the place of what was there") {
  const Scratch scratch;
  const std::string out = scratch.path("out.h5"), part = out + ".part";
  const auto bundle = need(open_patched(open_bundle(data_path("changing.h5")), {open_delta()}, 0, hashed()));
  std::ofstream(out) << "old";
  std::ofstream(part) << std::string(100'000, 'x');  // of a process that was ended
  REQUIRE(write_bundle_file(bundle, out, hashed(), {}).ok());
  CHECK(read_file(out) == read_file(data_path("changed.h5")));
  CHECK_FALSE(fs::exists(part));

  const int other = ::open(part.c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  const Status busy = write_bundle_file(bundle, out, hashed(), {});
  CHECK(busy.code() == Code::kIo);
  CHECK(busy.message().find("another process writes it") != std::string::npos);
  ::close(other);
  CHECK(write_bundle_file(bundle, out, hashed(), {}).ok());
  CHECK(write_bundle_file(bundle, scratch.path("no/out.h5"), hashed(), {}).code() == Code::kIo);
}

TEST_CASE("a link where the file is made is not followed") {
  const Scratch scratch;
  const std::string out = scratch.path("out.h5"), part = out + ".part", other = scratch.path("other");
  const auto bundle = need(open_patched(open_bundle(data_path("changing.h5")), {open_delta()}, 0, hashed()));
  std::ofstream(other) << "other";
  for (const char* target : {"other", "new"}) {
    fs::create_symlink(target, part);
    const Status s = write_bundle_file(bundle, out, hashed(), {});
    CHECK(s.code() == Code::kIo);
    CHECK_MESSAGE(s.message().find(part + ": is a symbolic link") != std::string::npos, s.message());
    CHECK(fs::is_symlink(part));
    CHECK_FALSE(fs::exists(out));
    CHECK(read_file(other) == Bytes{'o', 't', 'h', 'e', 'r'});
    CHECK_FALSE(fs::exists(scratch.path("new")));
    fs::remove(part);
  }
}

TEST_CASE("what is not what its hashes say takes nobody's place") {
  const Scratch scratch;
  const std::string base = scratch.path("base.h5"), out = scratch.path("out.h5");
  Bytes bytes = read_file(data_path("changing.h5"));
  const auto sound = open_bundle(data_path("changing.h5"));
  bytes[sound->find("/tables/f32")->extent.offset] ^= 1;
  std::ofstream(base, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  std::ofstream(out) << "old";
  const auto bundle = need(open_patched(open_bundle(base), {open_delta()}, 0, hashed()));
  const Status s = write_bundle_file(bundle, out, hashed(), {});
  CHECK(s.code() == Code::kBadModel);
  CHECK_MESSAGE(s.message().find("/tables/f32: its data is") != std::string::npos, s.message());
  CHECK(read_file(out) == Bytes{'o', 'l', 'd'});
  CHECK_FALSE(fs::exists(out + ".part"));
}

TEST_CASE("which deltas of a chain a version has had") {
  const auto delta = open_delta();
  const auto at = [&](const ContentHash& version) { return first_to_apply(version, "m.h5", {delta}); };
  CHECK(need(at(delta->base())) == 0);
  CHECK(need(at(delta->version())) == 1);
  const Status other = at(ContentHash{}).status();
  CHECK(other.code() == Code::kBadModel);
  for (const ContentHash& v : {delta->base(), ContentHash{}})
    CHECK_MESSAGE(other.message().find(hex_bytes(v)) != std::string::npos, other.message());
  const Status gap = first_to_apply(delta->base(), "m.h5", {delta, delta}).status();
  CHECK(gap.code() == Code::kBadModel);
  CHECK(need(first_to_apply(delta->base(), "m.h5", {})) == 0);
}

}  // namespace
}  // namespace dpi::test::delta_test
