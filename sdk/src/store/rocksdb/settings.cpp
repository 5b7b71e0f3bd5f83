#include "store/rocksdb/settings.hpp"

#include <charconv>
#include <cstring>

namespace dpi::rocks {
namespace {

Status read_one(const std::string& key, const std::string& value, Settings* s) {
  const auto refused = [&](const std::string& expected) {
    return invalid_argument("setting " + key + "='" + value.substr(0, 64) + "': expected " + expected);
  };
  if (key == "path") {
    s->path = value;
  } else if (key == "reads") {
    if (value != "mmap" && value != "pread" && value != "direct") return refused("mmap, pread or direct");
    s->reads = value == "mmap" ? Reads::kMmap : value == "pread" ? Reads::kPread : Reads::kDirect;
  } else if (key == "cache_bytes") {
    const char* end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, s->cache_bytes);
    if (error != std::errc() || at != end || s->cache_bytes > (uint64_t{1} << 48)) {
      return refused("a number of bytes");
    }
  } else {
    return invalid_argument("unknown setting '" + key.substr(0, 64) + "'; it knows " + kSettings);
  }
  return {};
}

}  // namespace

Result<Settings> read_settings(const dpi_store_options& options) {
  Settings s;
  for (int32_t i = 0; i < options.n_settings; ++i) {
    DPI_RETURN_IF_ERROR(read_one(options.settings[i].key, options.settings[i].value, &s));
  }
  if (s.path.empty()) return invalid_argument("setting path is needed: the directory of the tables");
  while (s.path.size() > 1 && s.path.back() == '/') s.path.pop_back();
  return s;
}

}  // namespace dpi::rocks
