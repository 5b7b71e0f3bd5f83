// Every bundle in the tree, opened with HDF5's own library and with the engine's reader: the same data sets,
// element types, shapes, places and bytes. And whatever the engine's reader accepts of a bundle whose
// structures were changed, HDF5's library either refuses or reads the same.
#include <hdf5.h>
#include <unistd.h>

#include <random>

#include "bundle/hdf5_part.hpp"

namespace dpi::test::hdf5_oracle_test {
namespace {

/// A data set as HDF5's library sees it.
struct Seen {
  std::string path;
  std::string type;
  std::vector<int64_t> shape;
  uint64_t offset = 0;
  Bytes bytes;
};

std::string type_text(hid_t type) {
  const std::pair<hid_t, const char*> kTypes[] = {{H5T_STD_U8LE, "u8"},   {H5T_STD_I8LE, "i8"},
                                                  {H5T_STD_U16LE, "u16"}, {H5T_STD_I64LE, "i64"},
                                                  {H5T_STD_U64LE, "u64"}, {H5T_IEEE_F32LE, "f32"}};
  for (const auto& [id, name] : kTypes) {
    if (H5Tequal(type, id) > 0) return name;
  }
  return "another";
}

/// False when the library cannot read all of it.
bool see_data_set(hid_t file, const std::string& path, std::vector<Seen>* out) {
  const hid_t set = H5Dopen2(file, path.c_str(), H5P_DEFAULT);
  if (set < 0) return false;
  const hid_t type = H5Dget_type(set);
  const hid_t space = H5Dget_space(set);
  hsize_t dims[H5S_MAX_RANK] = {};
  const int rank = H5Sget_simple_extent_dims(space, dims, nullptr);
  const hssize_t n = H5Sget_simple_extent_npoints(space);
  bool good = rank >= 0 && n >= 0 && n < (1 << 24);
  if (good) {
    Seen seen{path, type_text(type), {dims, dims + rank}, 0, {}};
    seen.bytes.resize(static_cast<size_t>(n) * H5Tget_size(type));
    seen.offset = seen.bytes.empty() ? 0 : H5Dget_offset(set);
    good = H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, seen.bytes.data()) >= 0;
    out->push_back(std::move(seen));
  }
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(set);
  return good;
}

herr_t add_path(hid_t, const char* name, const H5O_info_t* info, void* user) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(user)->push_back(name);
  return 0;
}

/// All data sets by rising path, or false when the library refuses any of it.
bool see_all(const std::string& file_name, std::vector<Seen>* out) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const hid_t file = H5Fopen(file_name.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return false;
  std::vector<std::string> paths;
  bool good = H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, add_path, &paths) >= 0;
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) good = good && see_data_set(file, "/" + path, out);
  return H5Fclose(file) >= 0 && good;
}

void check_same(const Bytes& bytes, const Hdf5Part& part, const std::vector<Seen>& seen) {
  size_t i = 0;
  bool manifest = false;
  for (const Seen& s : seen) {
    if (s.path == "/manifest") {
      manifest = true;
      CHECK(s.bytes == part.manifest);
      continue;
    }
    REQUIRE_MESSAGE(i < part.sets.size(), s.path);
    const DataSetInfo& own = part.sets[i++];
    CHECK(own.path == s.path);
    CHECK(type_name(own.type) == s.type);
    CHECK(own.shape == s.shape);
    CHECK(own.extent.offset == s.offset);
    REQUIRE(own.extent.length == s.bytes.size());
    const auto begin = bytes.begin() + static_cast<ptrdiff_t>(own.extent.offset);
    CHECK_MESSAGE(std::equal(s.bytes.begin(), s.bytes.end(), begin), s.path);
  }
  CHECK(i == part.sets.size());
  CHECK(manifest);
}

TEST_CASE("every bundle in the tree reads as HDF5's library reads it") {
  size_t sets = 0;
  for (const std::string& path : committed_bundles()) {
    const Bytes bytes = read_file(path);
    auto source = ByteSource::open_file(path);
    REQUIRE(source.ok());
    Hdf5Part part;
    const Status own = read_hdf5_part(**source, &part);
    REQUIRE_MESSAGE(own.ok(), path, ": ", own.message());
    std::vector<Seen> seen;
    REQUIRE_MESSAGE(see_all(path, &seen), path);
    check_same(bytes, part, seen);
    CHECK(part.bytes_read <= 2 * part.block.metadata_bytes());
    sets += seen.size();
  }
  CHECK(sets >= 1000);
}

std::string scratch_file() {
  return std::filesystem::temp_directory_path() / ("dpi_oracle_" + std::to_string(::getpid()));
}

void write_file(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// A bundle's file without extents: /manifest and 500 empty data sets, its group nodes of the given sizes.
void write_with_nodes(const std::string& path, unsigned tree_rank, unsigned leaf_rank) {
  const hid_t create = H5Pcreate(H5P_FILE_CREATE);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  REQUIRE(H5Pset_userblock(create, 1024) >= 0);
  REQUIRE(H5Pset_sym_k(create, tree_rank, leaf_rank) >= 0);
  REQUIRE(H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V110) >= 0);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, create, access);
  const hid_t group = H5Gcreate2(file, "params", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const auto put = [](hid_t where, const std::string& name, hsize_t n) {
    const hid_t space = H5Screate_simple(1, &n, nullptr);
    const hid_t set =
        H5Dcreate2(where, name.c_str(), H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE((n == 0 || H5Dwrite(set, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, "{}") >= 0));
    REQUIRE((H5Dclose(set) >= 0 && H5Sclose(space) >= 0));
  };
  put(file, "manifest", 2);
  for (int i = 0; i < 500; ++i) put(group, "p" + std::to_string(i * 7919 % 500), 0);
  REQUIRE((H5Gclose(group) >= 0 && H5Fclose(file) >= 0));
  REQUIRE((H5Pclose(create) >= 0 && H5Pclose(access) >= 0));
  Bytes bytes = read_file(path);
  std::memcpy(bytes.data(), "DPIBNDL\0\2\0\0\0", 12);
  put_u64(&bytes, 16, 1024);
  put_u64(&bytes, 24, bytes.size());
  reseal(&bytes);
  write_file(path, bytes);
}

TEST_CASE("groups whose nodes have other sizes") {
  const std::string path = scratch_file();
  const std::pair<unsigned, unsigned> kRanks[] = {{1, 1}, {2, 1}, {16, 4}, {300, 200}};
  for (const auto& [tree_rank, leaf_rank] : kRanks) {
    write_with_nodes(path, tree_rank, leaf_rank);
    const Bytes bytes = read_file(path);
    Hdf5Part part;
    const Status own = read_hdf5_part(bytes, &part);
    REQUIRE_MESSAGE(own.ok(), tree_rank, " ", leaf_rank, ": ", own.message());
    CHECK(part.sets.size() == 500);
    std::vector<Seen> seen;
    REQUIRE(see_all(path, &seen));
    check_same(bytes, part, seen);
  }
  std::filesystem::remove(path);
}

TEST_CASE("what is accepted of changed structures is what HDF5's library reads") {
  const std::string path = scratch_file();
  const Bytes sound = read_file(small_path());
  const auto extents = extents_of(sound);
  std::mt19937_64 rng(20261122);
  size_t accepted = 0, agreed = 0;
  for (int round = 0; round < 4000; ++round) {
    Bytes bytes = sound;
    const size_t at = get_u64(sound, 16) + rng() % (sound.size() - get_u64(sound, 16));
    if (!is_metadata(sound, extents, at)) continue;
    bytes[at] = static_cast<unsigned char>(rng() % 2 == 0 ? bytes[at] ^ (1u << rng() % 8) : rng());
    reseal(&bytes);
    Hdf5Part part;
    if (!read_hdf5_part(bytes, &part).ok() || part.manifest.size() > sound.size()) continue;
    ++accepted;
    write_file(path, bytes);
    std::vector<Seen> seen;
    if (!see_all(path, &seen)) continue;
    ++agreed;
    check_same(bytes, part, seen);
  }
  std::filesystem::remove(path);
  MESSAGE(accepted, " accepted, ", agreed, " of them by HDF5's library");
  CHECK(accepted > 1000);
  CHECK(agreed > accepted / 2);
}

}  // namespace
}  // namespace dpi::test::hdf5_oracle_test
