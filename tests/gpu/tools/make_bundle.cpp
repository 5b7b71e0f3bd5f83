// gpu_make_bundle SPEC.json OUT.h5: a bundle with random weights (weights/FORMAT.md, parts 1 to 3) from a
// manifest and the shapes of its arrays, as stages/spec.py gives them, and OUT.h5.json, which says where in
// the file each array's numbers lie. Used by stages/data.py on machines that have neither HDF5 nor the
// exporter; written for benchmarks only.
#include <hdf5.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using nlohmann::json;

struct Extent {
  std::string path;
  uint64_t offset = 0, bytes = 0, digest = 0;  // in the file
};

hid_t need(hid_t id, const std::string& what) {
  if (id < 0) throw std::runtime_error(what + ": HDF5 refuses");
  return id;
}

// An element's value depends on the array and its index alone, so threads can fill any range.
float element(uint64_t seed, uint64_t index, float range) {
  uint64_t z = seed + index * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return (static_cast<float>(z >> 40) * 0x1p-23f - 1.0f) * range;
}

std::vector<float> noise(size_t n, uint64_t seed, double scale) {
  std::vector<float> values(n);
  const float range = static_cast<float>(scale * std::sqrt(3.0));  // uniform of standard deviation `scale`
  const size_t workers =
      n < (size_t{1} << 20) ? 1 : std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 4);
  std::vector<std::thread> threads;
  for (size_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      for (size_t i = n * w / workers; i < n * (w + 1) / workers; ++i) values[i] = element(seed, i, range);
    });
  }
  for (std::thread& t : threads) t.join();
  return values;
}

class Writer {
 public:
  Writer(const std::string& path, size_t n_extents) : path_(path) {
    while (block_ < 128 + 24 * n_extents) block_ *= 2;
    const hid_t create = need(H5Pcreate(H5P_FILE_CREATE), "file");
    need(H5Pset_userblock(create, block_), "user block");
    const hid_t access = need(H5Pcreate(H5P_FILE_ACCESS), "file");
    need(H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V110), "version");
    need(H5Pset_alignment(access, 4096, 64), "alignment");
    file_ = need(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, create, access), path);
    H5Pclose(create);
    H5Pclose(access);
  }

  void put(const std::string& path, hid_t type, const std::vector<hsize_t>& dims, const void* data,
           uint64_t bytes) {
    make_group(path);
    const hid_t plist = need(H5Pcreate(H5P_DATASET_CREATE), path);
    H5Pset_layout(plist, H5D_CONTIGUOUS);
    H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(plist, 0);
    const hid_t space = need(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), path);
    const hid_t set =
        need(H5Dcreate2(file_, path.c_str(), type, space, H5P_DEFAULT, plist, H5P_DEFAULT), path);
    if (H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
      throw std::runtime_error(path + ": cannot be written");
    if (path != "/manifest") {
      extents_.push_back(
          {path, H5Dget_offset(set), bytes, XXH3_64bits(data, bytes)});  // offset from the file's start
    }
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(plist);
  }

  /// Closes the HDF5 file and writes the user block.
  const std::vector<Extent>& finish() {
    if (H5Fclose(file_) < 0) throw std::runtime_error(path_ + ": cannot be closed");
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    std::fstream f(path_, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(0, std::ios::end);
    const auto length = static_cast<uint64_t>(f.tellg());
    const uint64_t digest = other_digest(f, pack(length, 0), length);
    const std::vector<char> block = pack(length, digest);
    f.seekp(0);
    f.write(block.data(), static_cast<std::streamsize>(block.size()));
    if (!f.flush()) throw std::runtime_error(path_ + ": cannot be written");
    return extents_;
  }

 private:
  void make_group(const std::string& path) {
    const std::string group = path.substr(0, path.rfind('/'));
    if (group.empty() || std::find(groups_.begin(), groups_.end(), group) != groups_.end()) return;
    H5Gclose(need(H5Gcreate2(file_, group.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), group));
    groups_.push_back(group);
  }

  std::vector<char> pack(uint64_t length, uint64_t digest) const {
    std::vector<char> out(block_, 0);
    const uint32_t version[2] = {1, 0};
    const uint64_t head[5] = {block_, length, extents_.size(), digest, 0};
    std::memcpy(out.data(), "DPIBNDL", 8);
    std::memcpy(out.data() + 8, version, sizeof version);
    std::memcpy(out.data() + 16, head, sizeof head);
    for (size_t i = 0; i < extents_.size(); ++i) {
      const uint64_t e[3] = {extents_[i].offset, extents_[i].bytes, extents_[i].digest};
      std::memcpy(out.data() + 128 + 24 * i, e, sizeof e);
    }
    return out;
  }

  // XXH3-64 of the user block (its digest and signature as zeros) and of every byte outside the extents.
  uint64_t other_digest(std::fstream& f, const std::vector<char>& block, uint64_t length) const {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                                XXH3_freeState);
    XXH3_64bits_reset(state.get());
    XXH3_64bits_update(state.get(), block.data(), block.size());
    uint64_t at = block_;
    std::vector<char> chunk;
    const auto add = [&](uint64_t end) {
      chunk.resize(end - at);
      f.seekg(static_cast<std::streamoff>(at));
      f.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
      XXH3_64bits_update(state.get(), chunk.data(), chunk.size());
    };
    for (const Extent& e : extents_) {
      add(e.offset);
      at = e.offset + e.bytes;
    }
    add(length);
    return XXH3_64bits_digest(state.get());
  }

  std::string path_;
  uint64_t block_ = 512;
  hid_t file_ = -1;
  std::vector<std::string> groups_;
  std::vector<Extent> extents_;
};

void make(const std::string& spec_path, const std::string& out) {
  std::ifstream in(spec_path);
  const json spec = json::parse(in);
  const json& arrays = spec.at("arrays");
  Writer writer(out, arrays.size());
  const std::string manifest = spec.at("manifest").dump();
  writer.put("/manifest", H5T_STD_U8LE, {manifest.size()}, manifest.data(), manifest.size());
  json index = json::object();
  for (const json& a : arrays) {
    const std::string path = a.at("path");
    const std::vector<hsize_t> dims = a.at("shape");
    size_t n = 1;
    for (const hsize_t d : dims) n *= d;
    const std::vector<float> values = noise(n, XXH3_64bits(path.data(), path.size()), a.at("scale"));
    writer.put(path, H5T_IEEE_F32LE, dims, values.data(), n * sizeof(float));
    index[path] = {{"shape", a.at("shape")}};
  }
  for (const Extent& e : writer.finish()) index[e.path]["offset"] = e.offset;
  std::ofstream(out + ".json") << index.dump();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: gpu_make_bundle SPEC.json OUT.h5 [SPEC.json OUT.h5]...\n");
    return 2;
  }
  try {
    for (int i = 1; i + 1 < argc; i += 2) make(argv[i], argv[i + 1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_make_bundle: %s\n", e.what());
    return 1;
  }
  return 0;
}
