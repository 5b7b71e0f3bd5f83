// Writes one record file (weights/RECORD.md). What a failed write left is cut off again, so that a file is
// whole up to its last frame whatever happens.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file_handle.hpp"
#include "base/status.hpp"
#include "runtime/record/record_source.hpp"

namespace dpi {

class RecordFile {
 public:
  /// Readable by its owner only. A record file that is there becomes `path`.1, and replaces the one there.
  /// Refused: another kind of file in either place, and a file that another recorder writes.
  static Result<std::unique_ptr<RecordFile>> create(const std::string& path, uint64_t number);

  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Bytes of an ended file with this record alone.
  static uint64_t least_bytes(const RecordSource& source, size_t payload);
  /// Bytes that a record of the source takes here.
  uint64_t bytes_of(const RecordSource& source, size_t payload) const;
  /// Appends the record, behind the source's own frame where this file has none yet.
  Status write(RecordSource* source, std::span<std::byte> payload);
  /// The last frame: nothing is written behind it. dropped: records, by the recorder so far.
  Status finish(uint64_t dropped);

  uint64_t bytes() const { return end_; }
  uint64_t requests() const { return requests_; }
  bool has_room_for_bundle() const;

 private:
  RecordFile(std::string path, uint64_t number, int fd);
  Status write_head();
  Status write_bundle(RecordSource* source);
  Status write_frame(uint32_t kind, std::span<const std::byte> payload);
  Status append(std::span<const std::byte> head, std::span<const std::byte> payload);

  const std::string path_;
  const uint64_t number_;
  const pid_t process_;
  const FileHandle file_;
  uint64_t end_ = 0;
  uint64_t requests_ = 0;
  uint32_t bundles_ = 0;
};

}  // namespace dpi
