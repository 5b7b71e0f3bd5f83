#include "store/hot_keys/hot_keys.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "store/hot_keys/hot_key_layout.hpp"

namespace dpi {

using namespace hot_key_layout;

namespace {

constexpr size_t kKeysAtOnce = 512;
constexpr size_t kHashedAtOnce = size_t{64} << 10;

/// file's error, said of the list.
Status read_from(ByteSource& file, const std::string& title, uint64_t at, void* to, size_t n) {
  Status got = file.read(at, to, n);
  return got.ok() ? Status() : std::move(got).within(title);
}

}  // namespace

HotTable hot_table_of(const Bundle& bundle, size_t index) {
  const TableSpec& spec = bundle.manifest().tables[index];
  HotTable t;
  t.name = spec.name;
  t.rows = spec.loaded_rows();
  if (spec.external) {
    parse_hex(spec.digest, t.content);
  } else {
    t.content = bundle.find(spec.data)->extent.hash;
  }
  if (spec.key_set < 0) return t;
  const KeySetSpec& set = bundle.manifest().key_sets[static_cast<size_t>(spec.key_set)];
  t.raw_keys = set.external();
  if (!t.raw_keys) t.keys = bundle.find(set.data)->extent.hash;
  return t;
}

Result<std::unique_ptr<HotKeyFile>> HotKeyFile::open(const std::string& path, const std::string& whose) {
  std::unique_ptr<HotKeyFile> list(new HotKeyFile);
  list->title_ = (whose.empty() ? "" : whose + ": ") + "hot-key list " + in_quotes(path);
  auto file = ByteSource::open_file(path);
  if (!file.ok()) return std::move(file).status().within(list->title_);
  list->file_ = std::move(file).value();
  DPI_RETURN_IF_ERROR(list->read_all());
  return list;
}

Result<std::unique_ptr<HotKeyFile>> HotKeyFile::of_bundle(const Bundle& bundle) {
  const std::string& path = bundle.manifest().hot_keys;
  if (path.empty()) return std::unique_ptr<HotKeyFile>();
  std::unique_ptr<HotKeyFile> list(new HotKeyFile);
  list->title_ = bundle.name() + ":" + path;
  if (bundle.file() == nullptr)
    return unsupported(list->title_ + ": a hot-key list is read from the bundle's file; load it from a path");
  const Extent& extent = bundle.find(path)->extent;
  list->file_ = ByteSource::part_of(bundle.file(), extent.offset, extent.length);
  DPI_RETURN_IF_ERROR(list->read_all());
  const Status same = list->check_against(bundle);
  if (!same.ok()) return bad_model(same.message());
  return list;
}

Status HotKeyFile::read_all() {
  DPI_RETURN_IF_ERROR(read_head());
  int64_t keys = 0;
  for (const HotTable& t : tables_) {
    DPI_RETURN_IF_ERROR(check_keys(t));
    keys += t.n;
  }
  return keys == 0 ? damaged("it holds no key") : Status();
}

Status HotKeyFile::damaged(const std::string& how) const { return bad_model(title_ + ": " + how); }

Status HotKeyFile::read_head() {
  Head head{};
  if (file_->size() < sizeof head)
    return damaged("it ends before its first " + std::to_string(sizeof head) + " bytes do");
  DPI_RETURN_IF_ERROR(read_from(*file_, title_, 0, &head, sizeof head));
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return damaged("it is no hot-key list");
  if (head.version != kVersion)
    return unsupported(title_ + ": version " + std::to_string(head.version) + ", this release reads " +
                       std::to_string(kVersion));
  if (head.length != file_->size())
    return damaged("it has " + std::to_string(file_->size()) + " bytes and states " +
                   std::to_string(head.length));
  const uint64_t behind = sizeof head + uint64_t{head.tables} * sizeof(Entry);
  if (head.tables > kMostTables || behind > head.length)
    return damaged("it states " + std::to_string(head.tables) + " tables, for which it is too short");
  std::vector<std::byte> bytes(behind);
  DPI_RETURN_IF_ERROR(read_from(*file_, title_, 0, bytes.data(), bytes.size()));
  DPI_RETURN_IF_ERROR(check_digest(bytes));
  uint64_t next = behind;
  for (size_t at = sizeof head; at < behind; at += sizeof(Entry))
    DPI_RETURN_IF_ERROR(read_table(std::span(bytes).subspan(at, sizeof(Entry)), &next));
  return next == head.length ? Status() : damaged("bytes follow its last key");
}

/// head: the file's first bytes, read already.
Status HotKeyFile::check_digest(std::span<const std::byte> head) const {
  using State = std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)>;
  const State state(XXH3_createState(), XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  Head own{};
  std::memcpy(&own, head.data(), sizeof own);
  const uint64_t stated = std::exchange(own.digest, 0);
  XXH3_64bits_update(state.get(), &own, sizeof own);
  XXH3_64bits_update(state.get(), head.data() + sizeof own, head.size() - sizeof own);
  std::vector<std::byte> block(kHashedAtOnce);
  for (uint64_t at = head.size(); at < file_->size(); at += block.size()) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(block.size(), file_->size() - at));
    DPI_RETURN_IF_ERROR(read_from(*file_, title_, at, block.data(), n));
    XXH3_64bits_update(state.get(), block.data(), n);
  }
  return XXH3_64bits_digest(state.get()) == stated ? Status()
                                                   : damaged("its digest is not that of its bytes");
}

Status HotKeyFile::read_table(std::span<const std::byte> entry, uint64_t* next) {
  Entry e{};
  std::memcpy(&e, entry.data(), sizeof e);
  HotTable t;
  t.name.assign(e.name, std::min<size_t>(e.name_bytes, kMostName));
  const auto is_this = [&t](const HotTable& other) { return other.name == t.name; };
  if (e.name_bytes > kMostName || e.flags > kRawKeys)
    return damaged("the entry of table " + in_quotes(t.name) + " is none");
  if (std::any_of(tables_.begin(), tables_.end(), is_this))
    return damaged("it names table " + in_quotes(t.name) + " twice");
  t.raw_keys = e.flags == kRawKeys;
  if (e.rows > INT64_MAX || (e.n > e.rows && !t.raw_keys) || e.offset != *next ||
      e.n > (file_->size() - *next) / sizeof(HotKey))
    return damaged("table " + in_quotes(t.name) + ": it states " + std::to_string(e.n) + " keys of " +
                   std::to_string(e.rows) + " rows at byte " + std::to_string(e.offset));
  t.rows = static_cast<int64_t>(e.rows);
  t.n = static_cast<int64_t>(e.n);
  t.lookups = e.lookups;
  t.offset = e.offset;
  std::copy_n(e.content, t.content.size(), t.content.begin());
  std::copy_n(e.keys, t.keys.size(), t.keys.begin());
  *next += e.n * sizeof(HotKey);
  tables_.push_back(std::move(t));
  return {};
}

Status HotKeyFile::check_keys(const HotTable& t) const {
  std::vector<HotKey> block(kKeysAtOnce);
  HotKey before{INT64_MIN, UINT64_MAX};
  uint64_t left = t.lookups;
  const auto index = static_cast<size_t>(&t - tables_.data());
  for (int64_t first = 0; first < t.n; first += static_cast<int64_t>(block.size())) {
    block.resize(static_cast<size_t>(std::min<int64_t>(kKeysAtOnce, t.n - first)));
    DPI_RETURN_IF_ERROR(read(index, first, block));
    for (const HotKey& k : block) {
      const std::string key = "table " + in_quotes(t.name) + ": key " + std::to_string(k.key);
      if (!t.raw_keys && (k.key < 0 || k.key >= t.rows))
        return damaged(key + " is outside of its " + std::to_string(t.rows) + " rows");
      if (!hotter(before, k)) return damaged(key + " is not in its place, hottest first");
      if (k.count == 0 || k.count > left) return damaged(key + " has a count of " + std::to_string(k.count));
      left -= k.count;
      before = k;
    }
  }
  return {};
}

Status HotKeyFile::read(size_t table, int64_t first, std::span<HotKey> out) const {
  const uint64_t at = tables_[table].offset + static_cast<uint64_t>(first) * sizeof(HotKey);
  return read_from(*file_, title_, at, out.data(), out.size_bytes());
}

Status HotKeyFile::check_against(const Bundle& bundle) const {
  const std::vector<TableSpec>& specs = bundle.manifest().tables;
  for (const HotTable& t : tables_) {
    const auto at =
        std::find_if(specs.begin(), specs.end(), [&t](const TableSpec& s) { return s.name == t.name; });
    const std::string what = title_ + ": table " + in_quotes(t.name);
    if (at == specs.end()) return {Code::kNotFound, what + " is none of this bundle's"};
    const HotTable own = hot_table_of(bundle, static_cast<size_t>(at - specs.begin()));
    if (own.rows == t.rows && own.content == t.content && own.keys == t.keys && own.raw_keys == t.raw_keys)
      continue;
    return invalid_argument(what + " is another one, of " + std::to_string(t.rows) + " rows and content " +
                            hex_bytes(t.content).substr(0, 16) + "; the bundle's has " +
                            std::to_string(own.rows) + " and " + hex_bytes(own.content).substr(0, 16) +
                            ": make a list for it with `dpi store hot-keys`");
  }
  return {};
}

Result<bool> HotKeyWalk::next() {
  if (++at_ < block_.size()) return true;
  if (left_ == 0) return false;
  const int64_t first = list_->tables()[table_].n - left_;
  block_.resize(static_cast<size_t>(std::min(left_, kAtOnce)));
  at_ = 0;
  left_ -= static_cast<int64_t>(block_.size());
  DPI_RETURN_IF_ERROR(list_->read(table_, first, block_));
  return true;
}

}  // namespace dpi
