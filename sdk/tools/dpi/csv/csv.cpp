#include "sdk/tools/dpi/csv/csv.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "sdk/tools/dpi/shared/command_error.hpp"

namespace dpi::tool {

namespace {
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kKeptBytes = 1024;  // of a cell's memory from one row to the next

/// First bytes of files that are no UTF-8 text, and what to do with them.
struct Foreign {
  std::string_view begin;
  const char* what;
};
constexpr Foreign kForeign[] = {
    {"\x1F\x8B", "gzip data, expected text; pipe it in: gunzip -c FILE | dpi ... -"},
    {"\x28\xB5\x2F\xFD", "zstd data, expected text; pipe it in: zstd -dc FILE | dpi ... -"},
    {"PK\x03\x04", "a ZIP archive (or a spreadsheet), expected text; save it as CSV in UTF-8"},
    {"PAR1", "a Parquet file, expected text; write it as CSV in UTF-8"},
};
constexpr const char* kUtf16 =
    "UTF-16 text, expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8 FILE | dpi ... -";

/// By its mark, or two letters of ASCII in either order of bytes.
bool is_utf16(std::string_view begin) {
  if (begin.starts_with("\xFF\xFE") || begin.starts_with("\xFE\xFF")) return true;
  if (begin.size() < 4) return false;
  const bool zero[] = {begin[0] == '\0', begin[1] == '\0', begin[2] == '\0', begin[3] == '\0'};
  return zero[0] != zero[1] && zero[0] == zero[2] && zero[1] == zero[3];
}

}  // namespace

CsvReader::CsvReader(const std::string& path, const CsvLimits& limits)
    : name_(path == "-" ? "<stdin>" : path), limits_(limits), buffer_(kBufferBytes) {
  file_ = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file_ == nullptr) throw CommandError(kExitBadInput, name_ + ": " + std::strerror(errno));
  struct stat s{};
  if (fstat(fileno(file_), &s) == 0 && S_ISREG(s.st_mode)) file_bytes_ = static_cast<uint64_t>(s.st_size);
  while (end_ < 4 && fill()) {
  }
  const std::string_view begin(buffer_.data(), end_);
  for (const Foreign& f : kForeign) {
    if (begin.starts_with(f.begin)) throw CommandError(kExitBadInput, name_ + ": " + f.what);
  }
  if (is_utf16(begin)) throw CommandError(kExitBadInput, name_ + ": " + kUtf16);
  if (end_ >= 3 && std::memcmp(buffer_.data(), "\xEF\xBB\xBF", 3) == 0) at_ = 3;
}

CsvReader::~CsvReader() {
  if (file_ != nullptr && file_ != stdin) std::fclose(file_);
}

std::string CsvReader::place(int64_t line, size_t column) const {
  return name_ + ":" + std::to_string(line) + (column == 0 ? "" : ":" + std::to_string(column));
}

bool CsvReader::fill() {
  if (at_ == end_) at_ = end_ = 0;
  ssize_t n = 0;  // what is there: a pipe's rows are scored as they come
  while ((n = ::read(fileno(file_), buffer_.data() + end_, buffer_.size() - end_)) < 0 && errno == EINTR) {
  }
  if (n < 0) throw CommandError(kExitBadInput, name_ + ": " + std::strerror(errno));
  end_ += static_cast<size_t>(n);
  bytes_read_ += static_cast<uint64_t>(n);
  return n > 0;
}

int CsvReader::peek() {
  if (at_ == end_ && !fill()) return EOF;
  return static_cast<unsigned char>(buffer_[at_]);
}

int CsvReader::get() {
  const int c = peek();
  if (c != EOF) ++at_;
  if (c == '\n') ++line_;
  return c;
}

void CsvReader::append(std::string* cell, int c, size_t column) {
  const bool cell_full = cell->size() == limits_.cell_bytes;
  if (cell_full || row_bytes_ == limits_.row_bytes) {
    const std::string what = cell_full ? "a cell of more than " + std::to_string(limits_.cell_bytes)
                                       : "a row of more than " + std::to_string(limits_.row_bytes);
    throw CommandError(kExitBadInput, place(record_line_, column) + ": " + what +
                                          " bytes; is this CSV, and is no closing quote missing? " +
                                          (cell_full ? "--max-cell-bytes" : "--max-row-bytes") +
                                          " allows more");
  }
  ++row_bytes_;
  cell->push_back(static_cast<char>(c));
}

int CsvReader::read_quoted(std::string* cell, size_t column) {
  const int64_t begin = line_;
  for (;;) {
    int c = get();
    if (c == EOF)
      throw CommandError(kExitBadInput, place(begin, column) + ": the quoted cell has no closing quote");
    if (c != '"') {
      append(cell, c, column);
      continue;
    }
    if (peek() == '"') {
      append(cell, get(), column);
      continue;
    }
    c = get();
    if (c == '\r' && peek() == '\n') c = get();
    if (c == ',' || c == '\n' || c == EOF) return c;
    throw CommandError(
        kExitBadInput,
        place(line_, column) + ": text after the closing quote, expected a comma or the line's end");
  }
}

int CsvReader::read_cell(std::string* cell, size_t column) {
  if (cell->capacity() > kKeptBytes) *cell = {};
  cell->clear();
  if (peek() == '"') {
    get();
    return read_quoted(cell, column);
  }
  for (;;) {
    int c = get();
    if (c == '\r' && peek() == '\n') c = get();
    if (c == ',' || c == '\n' || c == EOF) return c;
    if (c == '"') {
      throw CommandError(
          kExitBadInput,
          place(line_, column) + ": a quote inside an unquoted cell, expected the whole cell in quotes");
    }
    append(cell, c, column);
  }
}

bool CsvReader::next(std::vector<std::string>* cells) {
  record_line_ = line_;
  if (peek() == EOF) return false;
  row_bytes_ = 0;
  size_t n = 0;
  int ended_by = ',';
  while (ended_by == ',') {
    if (n == limits_.columns) {
      throw CommandError(kExitBadInput, place(record_line_, n + 1) + ": a row of more than " +
                                            std::to_string(n) + " cells; --max-columns allows more");
    }
    if (cells->size() == n) cells->emplace_back();
    ended_by = read_cell(&(*cells)[n], n + 1);
    ++n;
  }
  cells->resize(n);
  return true;
}

}  // namespace dpi::tool
