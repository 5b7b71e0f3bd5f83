// A reader of CSV after RFC 4180: quotes, quoted line breaks and doubled quotes; LF or CRLF; a UTF-8 byte
// order mark is skipped. Anything else a spreadsheet might have meant is an error with its place. Memory is
// bounded, whatever the file: a few times the limit of a row.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace dpi::tool {

/// Limits of one row: far more than rows need, far less than memory. More is an error.
struct CsvLimits {
  size_t cell_bytes = size_t{16} << 20;
  size_t row_bytes = size_t{64} << 20;
  size_t columns = 65536;
};

class CsvReader {
 public:
  /// "-" reads standard input. Throws CommandError (bad input) when the file cannot be opened, or is
  /// compressed or UTF-16.
  explicit CsvReader(const std::string& path, const CsvLimits& limits = {});
  ~CsvReader();
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

  /// The next record; false at the end of the file. Reuses the strings of *cells.
  bool next(std::vector<std::string>* cells);
  /// The line on which the last record began, from 1.
  int64_t line() const { return record_line_; }
  /// "name:line" or "name:line:column"; column from 1, 0 = none.
  std::string place(int64_t line, size_t column) const;
  /// Bytes of the records so far.
  uint64_t bytes_read() const { return bytes_read_ - (end_ - at_); }
  uint64_t file_bytes() const { return file_bytes_; }  // 0 = unknown

 private:
  /// Reads what there is after what is held; false at the end of the file.
  bool fill();
  int get();
  int peek();
  /// Reads one cell; returns the character that ended it: ',' or '\n' or EOF.
  int read_cell(std::string* cell, size_t column);
  int read_quoted(std::string* cell, size_t column);
  /// One more byte of the cell; throws where that is over a limit.
  void append(std::string* cell, int c, size_t column);

  std::string name_;
  CsvLimits limits_;
  std::FILE* file_ = nullptr;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  size_t row_bytes_ = 0;
  uint64_t bytes_read_ = 0, file_bytes_ = 0;
  int64_t line_ = 1, record_line_ = 1;
};

}  // namespace dpi::tool
