#include "store/redis/handle.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "base/clock.hpp"

extern "C" int32_t dpi_store_init_v1(uint32_t abi_version, dpi_store_api* out);

namespace dpi::test {
namespace {

// Keys whose bytes could be taken for a part of a name, of the protocol, or of a number.
std::vector<int64_t> odd_keys() {
  std::vector<int64_t> keys = {std::numeric_limits<int64_t>::min(), -1, 0,
                               std::numeric_limits<int64_t>::max()};
  for (const char* text : {"{}{}{}{}", "{p0}\r\n\r\n", "\r\n\r\n\r\n\r\n", "$8\r\n*1\r\n", "}{sealed"}) {
    int64_t key = 0;
    std::memcpy(&key, text, 8);
    keys.push_back(key);
  }
  return keys;
}

}  // namespace

KnownTable KnownTable::make(std::string name, char content, int32_t dim, int64_t rows, bool keyed,
                            uint64_t seed) {
  KnownTable t;
  t.name = std::move(name);
  t.content = std::string(64, content);
  t.dim = dim;
  t.keyed = keyed;
  std::mt19937_64 random(seed);
  if (keyed) t.keys = odd_keys();
  t.keys.resize(std::min<size_t>(t.keys.size(), static_cast<size_t>(rows)));
  while (t.rows() < rows) t.keys.push_back(keyed ? static_cast<int64_t>(random()) : t.rows());
  t.bytes.resize(static_cast<size_t>(rows * t.row_bytes()));
  for (unsigned char& b : t.bytes) b = static_cast<unsigned char>(random());
  t.index();
  return t;
}

void KnownTable::index() {
  index_.clear();
  for (size_t i = 0; i < keys.size(); ++i) index_[keys[i]] = i;
}

dpi_store_table KnownTable::described() const {
  return {name.c_str(), content.c_str(), rows(), row_bytes(), dim, 0, keyed ? 1 : 0, stale ? 1 : 0};
}

const unsigned char* KnownTable::row(int64_t key) const {
  const auto at = index_.find(key);
  return at == index_.end() ? nullptr : bytes.data() + at->second * static_cast<size_t>(row_bytes());
}

const dpi_store_api& Handle::api() {
  static const dpi_store_api table = [] {
    dpi_store_api a;
    REQUIRE(dpi_store_init_v1(DPI_STORE_ABI, &a) == 0);
    return a;
  }();
  return table;
}

int32_t Handle::open(const Settings& settings, const std::vector<const KnownTable*>& tables, int32_t mode,
                     int32_t threads) {
  close();
  std::vector<dpi_store_setting> pairs;
  for (const auto& [key, value] : settings) pairs.push_back({key.c_str(), value.c_str()});
  std::vector<dpi_store_table> described;
  for (const KnownTable* t : tables) described.push_back(t->described());
  const dpi_store_options options{sizeof(dpi_store_options),
                                  mode,
                                  pairs.data(),
                                  static_cast<int32_t>(pairs.size()),
                                  threads,
                                  nullptr,
                                  nullptr};
  error_ = {};
  return api().open(&options, described.data(), static_cast<int32_t>(described.size()), &h_, &error_);
}

void Handle::close() {
  if (h_ != nullptr) api().close(h_);
  h_ = nullptr;
}

Fetched Handle::fetch(int32_t table, const std::vector<int64_t>& keys, int64_t row_bytes, uint64_t timeout_ns,
                      bool each) const {
  Fetched f;
  f.rows.assign(keys.size() * static_cast<size_t>(row_bytes), 0xEE);
  f.found.assign(keys.size() / 64 + 1, 0);
  f.failed.assign(keys.size() / 64 + 1, 0);
  std::vector<unsigned char*> to(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) to[i] = f.rows.data() + i * static_cast<size_t>(row_bytes);
  const dpi_store_fetch r{table,
                          static_cast<int64_t>(keys.size()),
                          keys.data(),
                          to.data(),
                          f.found.data(),
                          timeout_ns == 0 ? 0 : monotonic_ns() + timeout_ns,
                          each ? f.failed.data() : nullptr};
  dpi_store_error error{};
  f.code = api().fetch(h_, &r, &error);
  f.message = error.message;
  return f;
}

int32_t Handle::write(int32_t table, const KnownTable& t, int64_t first, int64_t last, uint64_t digest) {
  return api().write(h_, table, t.keys.data() + first, t.bytes.data() + first * t.row_bytes(), last - first,
                     digest, &error_);
}

int32_t Handle::mend(int32_t table, const KnownTable& t) {
  int32_t code = begin_repair(table);
  if (code == 0) code = count_keys(table, t);
  if (code == 0) code = repair(table, t, 0, t.rows());
  return code == 0 ? end_repair(table) : code;
}

void load(const Settings& settings, const KnownTable& t) {
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_WRITE) == 0, h.message());
  REQUIRE_MESSAGE(h.write(0, t, 0, t.rows(), 42) == 0, h.message());
  REQUIRE_MESSAGE(h.complete(0) == 0, h.message());
}

std::string compare(const Handle& h, int32_t table, const KnownTable& t, const std::vector<int64_t>& keys,
                    uint64_t timeout_ns) {
  const Fetched f = h.fetch(table, keys, t.row_bytes(), timeout_ns);
  if (f.code != 0) return "code " + std::to_string(f.code) + ": " + f.message;
  const auto size = static_cast<size_t>(t.row_bytes());
  for (size_t i = 0; i < keys.size(); ++i) {
    const unsigned char* expected = t.row(keys[i]);
    if (f.has(i) != (expected != nullptr))
      return "key " + std::to_string(keys[i]) + " found " + std::to_string(f.has(i));
    if (expected != nullptr && std::memcmp(expected, f.rows.data() + i * size, size) != 0)
      return "key " + std::to_string(keys[i]) + " has another row";
  }
  return "";
}

std::vector<int64_t> some_keys(const KnownTable& t, size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<int64_t> keys;
  for (size_t tries = 0; keys.size() < n && tries < 20 * n; ++tries) {
    const bool absent = random() % 4 == 0 || t.keys.empty();
    keys.insert(absent ? static_cast<int64_t>(t.keyed ? random() : t.keys.size() + random() % 100000)
                       : t.keys[random() % t.keys.size()]);
  }
  std::vector<int64_t> shuffled(keys.begin(), keys.end());
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  return shuffled;
}

}  // namespace dpi::test
