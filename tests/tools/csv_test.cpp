// The CSV reader: what RFC 4180 allows, and the place in each refusal.
#include "sdk/tools/dpi/csv/csv.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "sdk/tools/dpi/shared/command_error.hpp"

namespace dpi::test::csv_test {
namespace {

using dpi::tool::CommandError;
using dpi::tool::CsvReader;
using Table = std::vector<std::vector<std::string>>;

class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / "dpi_csv_XXXXXX") {
    const int fd = mkstemp(path_.data());
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    close(fd);
  }
  ~TextFile() { unlink(path_.c_str()); }
  std::string path() const { return path_; }

 private:
  std::string path_;
};

Table read(const std::string& text) {
  const TextFile file(text);
  CsvReader csv(file.path());
  Table table;
  std::vector<std::string> cells;
  while (csv.next(&cells)) table.push_back(cells);
  return table;
}

/// The text of the refusal after the file's name.
std::string refusal(const std::string& text) {
  const TextFile file(text);
  try {
    CsvReader csv(file.path());
    std::vector<std::string> cells;
    while (csv.next(&cells)) {
    }
  } catch (const CommandError& e) {
    CHECK(e.code() == dpi::tool::kExitBadInput);
    return std::string(e.what()).substr(file.path().size());
  }
  return "";
}

}  // namespace

TEST_CASE("cells, quotes and line ends") {
  CHECK(read("").empty());
  CHECK(read("a,b\n1,2\n") == Table{{"a", "b"}, {"1", "2"}});
  CHECK(read("a,b\n1,2") == Table{{"a", "b"}, {"1", "2"}});
  CHECK(read("a,b\r\n1,2\r\n") == Table{{"a", "b"}, {"1", "2"}});
  CHECK(read("a,,\n,,\n") == Table{{"a", "", ""}, {"", "", ""}});
  CHECK(read("\"a,b\",\"c\"\"d\",\"\"\n") == Table{{"a,b", "c\"d", ""}});
  CHECK(read("\"two\nlines\",x\n") == Table{{"two\nlines", "x"}});
  CHECK(read("\"crlf\r\ninside\"\r\nx") == Table{{"crlf\r\ninside"}, {"x"}});
  CHECK(read("a\n\nb\n") == Table{{"a"}, {""}, {"b"}});
  CHECK(read("\xEF\xBB\xBF"
             "a,b\n") == Table{{"a", "b"}});
  CHECK(read(" a , b \n") == Table{{" a ", " b "}});
  CHECK(read("a\rb,c\n") == Table{{"a\rb", "c"}});
}

TEST_CASE("a cell longer than the buffer, and records over its edge") {
  std::string text = "h1,h2\n";
  const std::string long_cell(3 << 20, 'x');
  text += long_cell + ",\"" + long_cell + "\"\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + ",\"q" + std::to_string(i) + "\"\r\n";
  const Table table = read(text);
  REQUIRE(table.size() == 1002);
  CHECK(table[1] == std::vector<std::string>{long_cell, long_cell});
  CHECK(table[1001] == std::vector<std::string>{"999", "q999"});
}

TEST_CASE("a record knows its line, quoted line breaks counted") {
  const TextFile file("h\n\"a\nb\nc\"\nd\n");
  CsvReader csv(file.path());
  std::vector<std::string> cells;
  REQUIRE(csv.next(&cells));
  CHECK(csv.line() == 1);
  REQUIRE(csv.next(&cells));
  CHECK(csv.line() == 2);
  REQUIRE(csv.next(&cells));
  CHECK(csv.line() == 5);
  CHECK_FALSE(csv.next(&cells));
  CHECK(csv.place(5, 2) == file.path() + ":5:2");
}

TEST_CASE("refusals name line and column") {
  CHECK(refusal("a,b\n1,\"2") == ":2:2: the quoted cell has no closing quote");
  CHECK(refusal("a,b\n1,\"2\"x\n") ==
        ":2:2: text after the closing quote, expected a comma or the line's end");
  CHECK(refusal("a,b\n1,2\"\n") ==
        ":2:2: a quote inside an unquoted cell, expected the whole cell in quotes");
  CHECK_THROWS_AS(CsvReader("/no/such/file.csv"), CommandError);
}

TEST_CASE("files that are no UTF-8 text are named with their cure") {
  using namespace std::string_literals;
  CHECK(refusal("\x1F\x8B\x08\x00xyz"s).starts_with(": gzip data, expected text; pipe it in: gunzip -c"));
  CHECK(refusal("\x28\xB5\x2F\xFD x"s).starts_with(": zstd data"));
  CHECK(refusal("PK\x03\x04 x"s).starts_with(": a ZIP archive"));
  CHECK(refusal("PAR1 x"s).starts_with(": a Parquet file"));
  for (const auto& text : {"\xFF\xFE"s
                           "a\0,\0"s,
                           "\xFE\xFF"s
                           "\0a"s,
                           "a\0b\0"s, "\0a\0b"s})
    CHECK(refusal(text).starts_with(": UTF-16 text, expected UTF-8; convert it: iconv"));
  CHECK(refusal("PK,PAR1\n1,2\n").empty());
}

}  // namespace dpi::test::csv_test
