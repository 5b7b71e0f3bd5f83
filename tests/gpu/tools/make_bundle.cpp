// gpu_make_bundle SPEC.json OUT.h5: a bundle with random weights (weights/FORMAT.md, parts 1 to 3) from a
// manifest and the shapes of its arrays, as stages/spec.py gives them ("round": "fp16" or "bf16" lets an
// array have values of that type only), and OUT.h5.json, which says where in the file each array's numbers
// lie. Used by stages/data.py on machines that have neither HDF5 nor the exporter; written for benchmarks
// only.
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

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "tests/gpu/tools/hdf5_writer.hpp"

namespace {

using dpi::gpu::Hdf5Writer;
using nlohmann::json;

struct Extent {
  std::string path;
  uint64_t offset = 0, bytes = 0, digest = 0;  // in the file
};

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

void round_to(const std::string& type, std::vector<float>* values) {
  using namespace dpi::kernels;
  if (type.empty()) return;
  if (type != "fp16" && type != "bf16") throw std::runtime_error("round: " + type);
  for (float& v : *values)
    v = type == "fp16" ? half_to_float(float_to_half(v)) : bf16_to_float(float_to_bf16(v));
}

uint64_t block_bytes(size_t n_extents) {
  uint64_t bytes = 512;
  while (bytes < 128 + 24 * n_extents) bytes *= 2;
  return bytes;
}

class Writer {
 public:
  Writer(const std::string& path, size_t n_extents)
      : path_(path), block_(block_bytes(n_extents)), hdf5_(path, block_) {}

  void put(const std::string& path, Hdf5Writer::Type type, const std::vector<uint64_t>& dims,
           const void* data, uint64_t bytes) {
    const uint64_t offset = hdf5_.put(path, type, dims, data);
    if (path != "/manifest") extents_.push_back({path, offset, bytes, XXH3_64bits(data, bytes)});
  }

  /// Ends the HDF5 part and writes the user block.
  const std::vector<Extent>& finish() {
    const uint64_t length = hdf5_.finish();
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    std::fstream f(path_, std::ios::in | std::ios::out | std::ios::binary);
    const uint64_t digest = other_digest(f, pack(length, 0), length);
    const std::vector<char> block = pack(length, digest);
    f.seekp(0);
    f.write(block.data(), static_cast<std::streamsize>(block.size()));
    if (!f.flush()) throw std::runtime_error(path_ + ": cannot be written");
    return extents_;
  }

 private:
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
  uint64_t block_;
  Hdf5Writer hdf5_;
  std::vector<Extent> extents_;
};

void make(const std::string& spec_path, const std::string& out) {
  std::ifstream in(spec_path);
  const json spec = json::parse(in);
  const json& arrays = spec.at("arrays");
  Writer writer(out, arrays.size());
  const std::string manifest = spec.at("manifest").dump();
  writer.put("/manifest", Hdf5Writer::Type::kU8, {manifest.size()}, manifest.data(), manifest.size());
  json index = json::object();
  for (const json& a : arrays) {
    const std::string path = a.at("path");
    const std::vector<uint64_t> dims = a.at("shape");
    size_t n = 1;
    for (const uint64_t d : dims) n *= d;
    std::vector<float> values = noise(n, XXH3_64bits(path.data(), path.size()), a.at("scale"));
    round_to(a.value("round", ""), &values);
    writer.put(path, Hdf5Writer::Type::kF32, dims, values.data(), n * sizeof(float));
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
