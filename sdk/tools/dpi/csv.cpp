#include "csv.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "command.hpp"

namespace dpi::tool {

namespace {
constexpr size_t kBufferBytes = size_t{1} << 20;
}

CsvReader::CsvReader(const std::string& path) : name_(path == "-" ? "<stdin>" : path), buffer_(kBufferBytes) {
  file_ = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file_ == nullptr) throw CommandError(kExitBadInput, name_ + ": " + std::strerror(errno));
  struct stat s{};
  if (fstat(fileno(file_), &s) == 0 && S_ISREG(s.st_mode)) file_bytes_ = static_cast<uint64_t>(s.st_size);
  if (peek() == 0xEF && end_ >= 3 && std::memcmp(buffer_.data(), "\xEF\xBB\xBF", 3) == 0) at_ = 3;
}

CsvReader::~CsvReader() {
  if (file_ != nullptr && file_ != stdin) std::fclose(file_);
}

std::string CsvReader::place(int64_t line, size_t column) const {
  return name_ + ":" + std::to_string(line) + (column == 0 ? "" : ":" + std::to_string(column));
}

int CsvReader::peek() {
  if (at_ == end_) {
    at_ = 0;
    end_ = std::fread(buffer_.data(), 1, buffer_.size(), file_);
    bytes_read_ += end_;
    if (end_ == 0 && std::ferror(file_) != 0)
      throw CommandError(kExitBadInput, name_ + ": " + std::strerror(errno));
  }
  return at_ == end_ ? EOF : static_cast<unsigned char>(buffer_[at_]);
}

int CsvReader::get() {
  const int c = peek();
  if (c != EOF) ++at_;
  if (c == '\n') ++line_;
  return c;
}

int CsvReader::read_quoted(std::string* cell, size_t column) {
  const int64_t begin = line_;
  for (;;) {
    int c = get();
    if (c == EOF)
      throw CommandError(kExitBadInput, place(begin, column) + ": the quoted cell has no closing quote");
    if (c != '"') {
      cell->push_back(static_cast<char>(c));
      continue;
    }
    if (peek() == '"') {
      cell->push_back(static_cast<char>(get()));
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
    cell->push_back(static_cast<char>(c));
  }
}

bool CsvReader::next(std::vector<std::string>* cells) {
  record_line_ = line_;
  if (peek() == EOF) return false;
  size_t n = 0;
  int ended_by = ',';
  while (ended_by == ',') {
    if (cells->size() == n) cells->emplace_back();
    ended_by = read_cell(&(*cells)[n], n + 1);
    ++n;
  }
  cells->resize(n);
  return true;
}

}  // namespace dpi::tool
