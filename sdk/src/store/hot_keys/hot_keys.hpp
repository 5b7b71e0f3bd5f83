// A hot-key list: how often the rows of a bundle's tables were looked up in a log of requests. `dpi store
// hot-keys` writes it, a host tier fills itself by it (tiered/prefill.hpp). weights/HOT_KEYS.md has the
// layout of the file. A bundle may bring one in a data set of its own. What a list says changes when rows are
// fetched, never a score.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"

namespace dpi {

/// A row, by its number as lookups ask for it or by its raw key, and how often they did.
struct HotKey {
  int64_t key = 0;
  uint64_t count = 0;
};

/// Hotter first, of equal ones the lower number.
inline bool hotter(const HotKey& a, const HotKey& b) {
  return a.count != b.count ? a.count > b.count : a.key < b.key;
}

struct HotTable {
  std::string name;
  int64_t rows = 0;       // that there are, padding of keyed tables included
  bool raw_keys = false;  // the list names raw keys: of an external keyed table, which has no row numbers
  ContentHash content{};  // of its rows and of its keys, as the bundle states them
  ContentHash keys{};     // zeros without
  uint64_t lookups = 0;   // of any row of it in the log
  int64_t n = 0;          // keys of the list
  uint64_t offset = 0;    // in the file
};

/// The table as lists of this bundle name it, without counts.
HotTable hot_table_of(const Bundle& bundle, size_t index);

class HotKeyFile {
 public:
  /// Reads the whole file once. kBadModel for what is damaged, cut off, or holds no key at all. whose: the
  /// bundle that it is for, named first in every message; "" = nobody's.
  static Result<std::unique_ptr<HotKeyFile>> open(const std::string& path, const std::string& whose = "");

  /// The list that a bundle brings, with the same checks and check_against: what fails is kBadModel. Null
  /// when it brings none. kUnsupported where the bundle is not a file.
  static Result<std::unique_ptr<HotKeyFile>> of_bundle(const Bundle& bundle);

  /// The list's name in messages.
  const std::string& title() const { return title_; }
  const std::vector<HotTable>& tables() const { return tables_; }
  /// Keys [first, first + out.size()) of a table, hottest first.
  Status read(size_t table, int64_t first, std::span<HotKey> out) const;
  /// kNotFound, kInvalidArgument: it names a table that the bundle has not, or one of other rows or keys.
  Status check_against(const Bundle& bundle) const;

 private:
  HotKeyFile() = default;
  Status read_all();
  Status check_digest(std::span<const std::byte> head) const;
  Status read_head();
  Status read_table(std::span<const std::byte> entry, uint64_t* next);
  Status check_keys(const HotTable& table) const;
  Status damaged(const std::string& how) const;

  std::string title_;
  std::unique_ptr<ByteSource> file_;
  std::vector<HotTable> tables_;
};

/// Walks down the keys of one table of a list, hottest first. The list must outlive it.
class HotKeyWalk {
 public:
  static constexpr int64_t kAtOnce = 512;  // keys that are in memory

  HotKeyWalk(const HotKeyFile& list, size_t table)
      : list_(&list), table_(table), left_(list.tables()[table].n) {}

  /// To the first key, then to the one behind. False at the end.
  Result<bool> next();
  /// After a next() that was true.
  const HotKey& key() const { return block_[at_]; }

 private:
  const HotKeyFile* list_;
  size_t table_;
  int64_t left_;  // keys behind those of the block
  size_t at_ = 0;
  std::vector<HotKey> block_;
};

}  // namespace dpi
