// gpu_make_bundle SPEC.json OUT.h5: a bundle with random weights (weights/FORMAT.md, parts 1 to 3) from a
// manifest and the shapes of its arrays, as stages/spec.py gives them ("round": "fp16" or "bf16" lets an
// array have values of that type only), and OUT.h5.json, which says where in the file each array's numbers
// lie. Used by stages/data.py on machines that have neither HDF5 nor the exporter; written for benchmarks
// only.
#include <sodium.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
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
  std::array<unsigned char, 32> hash{};
};

/// BLAKE2b-256 over leaves of 1 MiB and the list of their hashes (FORMAT.md part 1).
class TreeHash {
 public:
  explicit TreeHash(const char* domain) { start(&root_, domain); }
  void add(const void* data, size_t n) {
    const auto* p = static_cast<const unsigned char*>(data);
    total_ += n;
    while (n > 0) {
      if (in_leaf_ == 0) start(&leaf_, "DPI 2 leaf");
      const size_t take = std::min(n, kLeaf - in_leaf_);
      crypto_generichash_blake2b_update(&leaf_, p, take);
      in_leaf_ += take;
      p += take;
      n -= take;
      if (in_leaf_ == kLeaf) end_leaf();
    }
  }
  std::array<unsigned char, 32> finish() {
    if (in_leaf_ > 0) end_leaf();
    crypto_generichash_blake2b_update(&root_, reinterpret_cast<const unsigned char*>(&total_), sizeof total_);
    std::array<unsigned char, 32> out;
    crypto_generichash_blake2b_final(&root_, out.data(), out.size());
    return out;
  }

 private:
  static constexpr size_t kLeaf = size_t{1} << 20;
  static void start(crypto_generichash_blake2b_state* state, const char* domain) {
    unsigned char person[crypto_generichash_blake2b_PERSONALBYTES] = {};
    std::memcpy(person, domain, std::min(std::strlen(domain), sizeof person));
    crypto_generichash_blake2b_init_salt_personal(state, nullptr, 0, 32, nullptr, person);
  }
  void end_leaf() {
    unsigned char hash[32];
    crypto_generichash_blake2b_final(&leaf_, hash, sizeof hash);
    crypto_generichash_blake2b_update(&root_, hash, sizeof hash);
    in_leaf_ = 0;
  }

  crypto_generichash_blake2b_state root_, leaf_;
  size_t in_leaf_ = 0;
  uint64_t total_ = 0;
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
constexpr size_t kExtents = 768, kExtentBytes = 56;  // where the list stands in the user block

uint64_t block_bytes(size_t n_extents) {
  uint64_t bytes = 1024;
  while (bytes < kExtents + kExtentBytes * n_extents) bytes *= 2;
  return bytes;
}

class Writer {
 public:
  Writer(const std::string& path, size_t n_extents)
      : path_(path), block_(block_bytes(n_extents)), hdf5_(path, block_) {}

  void put(const std::string& path, Hdf5Writer::Type type, const std::vector<uint64_t>& dims,
           const void* data, uint64_t bytes) {
    const uint64_t offset = hdf5_.put(path, type, dims, data);
    if (path == "/manifest") return;
    TreeHash hash("DPI 2 data");
    hash.add(data, bytes);
    extents_.push_back({path, offset, bytes, XXH3_64bits(data, bytes), hash.finish()});
  }

  /// Ends the HDF5 part and writes the user block.
  const std::vector<Extent>& finish() {
    const uint64_t length = hdf5_.finish();
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    std::fstream f(path_, std::ios::in | std::ios::out | std::ios::binary);
    metadata_hash_ = hash_metadata(f, length);
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
    const uint32_t version[2] = {2, 0};
    const uint64_t head[5] = {block_, length, extents_.size(), digest, 0};
    std::memcpy(out.data(), "DPIBNDL", 8);
    std::memcpy(out.data() + 8, version, sizeof version);
    std::memcpy(out.data() + 16, head, sizeof head);
    std::memcpy(out.data() + 64, metadata_hash_.data(), metadata_hash_.size());
    for (size_t i = 0; i < extents_.size(); ++i) {
      const uint64_t e[3] = {extents_[i].offset, extents_[i].bytes, extents_[i].digest};
      char* at = out.data() + kExtents + kExtentBytes * i;
      std::memcpy(at, e, sizeof e);
      std::memcpy(at + sizeof e, extents_[i].hash.data(), extents_[i].hash.size());
    }
    return out;
  }

  /// Every byte outside user block and extents, in order.
  template <class Add>
  void each_other(std::fstream& f, uint64_t length, const Add& add) const {
    uint64_t at = block_;
    std::vector<char> chunk;
    const auto read = [&](uint64_t end) {
      chunk.resize(end - at);
      f.seekg(static_cast<std::streamoff>(at));
      f.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
      add(chunk.data(), chunk.size());
    };
    for (const Extent& e : extents_) {
      read(e.offset);
      at = e.offset + e.bytes;
    }
    read(length);
  }

  std::array<unsigned char, 32> hash_metadata(std::fstream& f, uint64_t length) const {
    TreeHash hash("DPI 2 metadata");
    each_other(f, length, [&](const char* data, size_t n) { hash.add(data, n); });
    return hash.finish();
  }

  // XXH3-64 of the user block (its digest as zeros) and of every byte outside the extents.
  uint64_t other_digest(std::fstream& f, const std::vector<char>& block, uint64_t length) const {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                                XXH3_freeState);
    XXH3_64bits_reset(state.get());
    XXH3_64bits_update(state.get(), block.data(), block.size());
    each_other(f, length, [&](const char* data, size_t n) { XXH3_64bits_update(state.get(), data, n); });
    return XXH3_64bits_digest(state.get());
  }

  std::string path_;
  uint64_t block_;
  Hdf5Writer hdf5_;
  std::array<unsigned char, 32> metadata_hash_{};
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
  if (sodium_init() < 0) return 1;
  try {
    for (int i = 1; i + 1 < argc; i += 2) make(argv[i], argv[i + 1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_make_bundle: %s\n", e.what());
    return 1;
  }
  return 0;
}
