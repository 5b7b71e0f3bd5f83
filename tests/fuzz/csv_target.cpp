// CSV files: the reader within small limits, what it read written with every cell quoted and read again, and
// the rows of a model from a file (`dpi predict`).
#include "sdk/tools/dpi/csv/csv.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/input.hpp"
#include "fuzz/target.hpp"
#include "sdk/tools/dpi/csv/row_feeder.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "support/handles.hpp"
#include "support/source_dir.hpp"

// In main.cpp of the program, which has a main of its own.
std::vector<std::pair<std::string, std::string>> dpi::tool::CommonFlags::pairs() const {
  return {{"device", device}};
}

namespace dpi::fuzz {
namespace {

using tool::CommandError;
using tool::CsvLimits;
using tool::CsvReader;
using Table = std::vector<std::vector<std::string>>;

/// A file in memory, by a path.
class TextFile {
 public:
  explicit TextFile(std::string_view text) : fd_(memfd_create("csv", MFD_CLOEXEC)) {
    expect(fd_ >= 0 && write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
           "a file can be made");
  }
  ~TextFile() { close(fd_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void expect_refusal(const CommandError& e) {
  expect(e.code() == tool::kExitBadInput, "a file that is refused is bad input");
  expect(e.what()[0] != '\0', "a refusal has a text");
}

/// False when it is refused.
bool read(std::string_view text, const CsvLimits& limits, Table* out) {
  const TextFile file(text);
  try {
    CsvReader csv(file.path(), limits);
    std::vector<std::string> cells;
    int64_t line = 0;
    while (csv.next(&cells)) {
      size_t bytes = 0;
      for (const std::string& cell : cells) bytes += cell.size();
      expect(!cells.empty() && cells.size() <= limits.columns && bytes <= limits.row_bytes,
             "a row keeps to its limits");
      expect(csv.line() > line, "lines only rise");
      line = csv.line();
      out->push_back(cells);
    }
    expect(csv.bytes_read() == text.size() || csv.bytes_read() + 3 == text.size(), "every byte is read");
  } catch (const CommandError& e) {
    expect_refusal(e);
    return false;
  }
  return true;
}

std::string quoted(const Table& table) {
  std::string out;
  for (const auto& row : table) {
    for (size_t c = 0; c < row.size(); ++c) {
      out += c > 0 ? ",\"" : "\"";
      for (const char b : row[c]) out += b == '"' ? "\"\"" : std::string(1, b);
      out += '"';
    }
    out += '\n';
  }
  return out;
}

void feed(std::string_view text, bool raw) {
  static const tool::LoadedModel model(test::source_dir() + "/tests/bundle/data/small.h5",
                                       tool::CommonFlags{"cpu", "", 0, {}});
  const TextFile file(text);
  dpi_rows* made = nullptr;
  expect(dpi_rows_create(model.get(), &made, nullptr) == DPI_OK, "rows can be made");
  const Owned<dpi_rows> rows(made);
  try {
    CsvReader csv(file.path());
    tool::RowFeeder feeder(model, &csv, "label", raw);
    mark_loaded();
    while (feeder.next(rows.get())) {
    }
  } catch (const CommandError& e) {
    return expect_refusal(e);
  }
  std::vector<float> out(static_cast<size_t>(std::max<int64_t>(dpi_rows_count(rows.get()), 0)));
  Error error;
  const dpi_status s = dpi_rows_predict(rows.get(), out.data(), out.size(), nullptr, &error);
  expect_documented(s, error);
  if (s == DPI_OK && !out.empty()) mark_predicted();
}

void run(InputBytes bytes) {
  if (bytes.empty()) return;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1);
  Table first, second;
  CsvLimits limits;
  if ((bytes[0] & 1) != 0) limits = {16, 64, 8};
  if (read(text, limits, &first)) {
    expect(read(quoted(first), {}, &second) && first == second, "cells in quotes are the same cells");
  }
  feed(text, (bytes[0] & 2) != 0);
}

}  // namespace

const Target kCsvTarget{"csv", run, nullptr};

}  // namespace dpi::fuzz
