// The tier below for tables whose keys are row numbers: rows of a fixed stride behind a small checked header.
//
//   offset  0  magic "DPIROWS1"                      | 8  format version, 4 bytes | 12  dtype, 4 bytes
//          16  rows | 24  dim | 32  stride | 40  digest of all rows, FNV-1a over 4-byte words
//          48  name, 64 bytes, zero-filled           | 112  rows that are complete
//         120  checksum of the 120 bytes before      | 128  first row
//
// Little-endian. Written front to back; after each block the rows so far are made durable and noted in the
// header, so a writer that was interrupted goes on behind the last whole block. Read with pread: a file that
// is cut or damaged while it is open is a status, never a signal.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_handle.hpp"
#include "base/status.hpp"
#include "store/tiered/row_source.hpp"

namespace dpi::tiered {

struct RowFileSpec {
  std::string table;  // at most 63 bytes
  int64_t rows = 0;
  int32_t dim = 0;
  int32_t dtype = 0;   // kernels::DType
  int64_t stride = 0;  // a multiple of 4
};

class RowFileWriter {
 public:
  /// A new file, or one of the same spec that is not complete: rows_done() says where to go on.
  static Result<RowFileWriter> open(const std::string& path, const RowFileSpec& spec);
  int64_t rows_done() const { return done_; }
  /// The next rows, stride bytes each; durable when it returns. kIo, with errno, when the disk is full.
  Status append(std::span<const std::byte> rows);
  bool complete() const { return done_ == spec_.rows; }

 private:
  RowFileWriter(std::string path, RowFileSpec spec, FileHandle file)
      : path_(std::move(path)), spec_(std::move(spec)), file_(std::move(file)) {}
  Status note();

  std::string path_;
  RowFileSpec spec_;
  FileHandle file_;
  int64_t done_ = 0;
  uint64_t digest_ = 0;
};

class RowFile {
 public:
  /// Header, length and spec are checked; every failure names the file. Rows are checked by verify() only.
  static Result<RowFile> open(const std::string& path, const RowFileSpec& spec);
  /// One row. row must be in [0, rows).
  Status read(int64_t row, std::byte* to) const;
  /// Reads everything and compares the digest.
  Status verify() const;
  int64_t rows() const { return spec_.rows; }

 private:
  RowFile(std::string path, RowFileSpec spec, FileHandle file)
      : path_(std::move(path)), spec_(std::move(spec)), file_(std::move(file)) {}

  std::string path_;
  RowFileSpec spec_;
  FileHandle file_;
  uint64_t digest_ = 0;
};

/// Row files as a source: table t is files[t]; keys outside the file are absent. The deadline is looked at
/// between rows.
class RowFileSource final : public RowSource {
 public:
  explicit RowFileSource(std::vector<RowFile> files) : files_(std::move(files)) {}
  Status fetch(const FetchRequest& request) override;

 private:
  std::vector<RowFile> files_;
};

}  // namespace dpi::tiered
