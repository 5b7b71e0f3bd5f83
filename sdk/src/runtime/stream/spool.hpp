// The followed folder as the log of a stream: whole bundles v<number>.h5 that somebody puts there, and deltas
// v<number>.delta, put there by us. What a version is, the hash in the file says; the number is its place.
//
// The chain is the newest bundle and the deltas behind it, each starting from what the one before gives. It
// is what a restart replays, and its end is what the next delta has to start from.
//
// One thread uses it; a lock on a file keeps other processes away. A delta appears by rename, written through
// to its disk, with its message's time as the file's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_handle.hpp"
#include "bundle/content_hash.hpp"
#include "bundle/delta.hpp"

namespace dpi::stream {

struct SpoolFile {
  uint64_t number = 0;
  bool whole = false;  // a bundle
  std::string path;
  Status status;              // ok: the hashes are known
  ContentHash base{};         // of a delta: what it starts from
  ContentHash version{};      // what it is, or gives
  int64_t changed_ms = 0;     // of the epoch
  uint64_t identity[4] = {};  // device, inode, bytes, time: another file under this name is another one
};

class Spool {
 public:
  /// Removes what an earlier writer left half written. kInvalidArgument where another one has the folder.
  static Result<std::unique_ptr<Spool>> open(const std::string& folder);

  /// Looks again; reads what has come.
  Status refresh();
  /// By rising number; a delta before a bundle of its number.
  const std::vector<SpoolFile>& files() const { return files_; }
  /// Empty where there is no bundle that can be read and is not `left_out`.
  std::vector<const SpoolFile*> chain(const std::function<bool(const SpoolFile&)>& left_out) const;
  /// Puts a delta behind everything, and above `number`. Pointers of chain() end.
  Result<uint64_t> append(std::span<const std::byte> bytes, const Delta& delta, int64_t timestamp_ms,
                          uint64_t number);
  /// Removes the deltas below `bundle`, one of files(), unless one has its very number: then nobody knows
  /// which of the two was read. How many went.
  int64_t drop_below(const SpoolFile& bundle);

 private:
  Spool(std::string folder, FileHandle lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  Status write_part(std::span<const std::byte> bytes, int64_t timestamp_ms) const;
  std::string part() const { return folder_ + "/.stream.part"; }

  const std::string folder_;
  const FileHandle lock_;
  std::vector<SpoolFile> files_;
};

}  // namespace dpi::stream
