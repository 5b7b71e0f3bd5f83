// Where `dpi predict` writes scores: CSV, a column for each head.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace dpi::tool {

/// Both are there, and one regular file.
bool is_same_file(const std::string& a, const std::string& b);

/// Standard output, or a file that appears under its name only when it is complete: until commit() it is a
/// temporary one beside it, which is removed when the program fails or is ended (SIGINT, SIGTERM, SIGHUP).
/// Where no file may be made beside it, it is written in place. What is no regular file (a pipe, /dev/null)
/// is written as it is. One at a time.
class ScoreFile {
 public:
  /// path: "" or "-" for standard output. Throws CommandError when it cannot be written.
  ScoreFile(const std::string& path, std::vector<std::string> heads);
  ~ScoreFile();
  ScoreFile(const ScoreFile&) = delete;
  ScoreFile& operator=(const ScoreFile&) = delete;

  /// Whole rows, [rows, heads], at once where it is standard output. The header is written before the first.
  void write(const float* scores, size_t rows);
  /// All rows are there; without any, the header is written now.
  void commit();
  bool is_stdout() const { return path_.empty(); }

 private:
  void open_beside();
  void write_header();
  [[noreturn]] void fail() const;

  std::string path_;  // of a file: links followed
  std::string temporary_;
  std::vector<std::string> heads_;
  std::FILE* file_ = stdout;
  bool has_header_ = false;
};

}  // namespace dpi::tool
