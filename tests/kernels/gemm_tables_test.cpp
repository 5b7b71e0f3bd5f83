// Which implementation of Dense a tuning table chooses, and which of its lines and tables are left alone.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "kernels/gemm_layer.hpp"

namespace dpi::test::gemm_tables_test {
namespace {

using namespace gemm;

/// What runs for the most rows: the last of "chosen: A (rows 1-4), B (rows 5-9); ...".
std::string for_most_rows(const std::string& report) {
  const std::string chosen = report.substr(0, report.find(';'));
  const std::string last = chosen.substr(chosen.find_last_of(':') + 2);
  const size_t comma = last.rfind(", ");
  const std::string choice = comma == std::string::npos ? last : last.substr(comma + 2);
  return choice.substr(0, choice.find(' '));
}

TEST_CASE("gemm: lines of a table about plain and fused layers of one shape do not mix") {
  const Shape s = {9, 40, 24};
  const Forced table({"own-simt", 0, "-"}, s, false);
  const std::string head = "dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\n";
  const std::string simt = " 24 40 16 own-simt - - 1.0\n";
  const std::string split = " 24 40 16 own-3xtf32 32 - 1.0\n";
  for (const bool fused_first : {false, true}) {
    for (const bool plain_is_simt : {false, true}) {
      const std::string plain = "fp32 plain" + (plain_is_simt ? simt : split);
      const std::string fused = "fp32 fused" + (plain_is_simt ? split : simt);
      std::ofstream(table.path) << head << (fused_first ? fused + plain : plain + fused);
      for (const bool is_fused : {false, true}) {
        Layer layer(s, {DType::kF32, DType::kF32, is_fused, 0, 0});
        TypedBackend backend(0, table.path);
        CHECK(layer.error(layer.op.run(backend), 0) <= 1);
        const char* want = is_fused != plain_is_simt ? "own-simt" : "own-3xtf32";
        CHECK_MESSAGE(for_most_rows(layer.op.report) == want, layer.op.report);
      }
    }
  }
}

TEST_CASE("gemm: the line that is nearest in rows is taken, none from beyond four times") {
  const auto chosen = [](const std::string& lines) {
    const Shape s = {9, 40, 24};
    const Forced table({"own-simt", 0, "-"}, s, false);
    std::ofstream(table.path) << "dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\n" << lines;
    Layer layer(s, {});
    TypedBackend backend(0, table.path);
    CHECK(layer.error(layer.op.run(backend), 0) <= 1);
    return for_most_rows(layer.op.report);
  };
  const std::string rule = chosen("");
  const std::string other = rule == "own-simt" ? "own-3xtf32" : "own-simt";
  const auto line = [](const std::string& impl, int rows) {
    return "fp32 plain 24 40 " + std::to_string(rows) + " " + impl +
           (impl == "own-simt" ? " - - 1\n" : " 32 - 1\n");
  };
  CHECK(chosen(line(other, 36)) == other);
  CHECK(chosen(line(other, 37)) == rule);
  CHECK(chosen(line(other, 3)) == other);
  CHECK(chosen(line(other, 2)) == rule);
  CHECK(chosen(line(rule, 8) + line(other, 20) + line(rule, 30)) == other);  // of at least as many rows
  CHECK(chosen(line(rule, 4) + line(other, 8)) == other);
}

TEST_CASE("gemm: a table of this kind of GPU is taken whatever its name, another library's lines are left") {
  if (device() != "cuda_emu") return;  // capability 0, 132 multiprocessors
  setenv("DPI_EMU_CUBLASLT", "1", 1);
  const Shape s = {37, 33, 24};
  const Forced table({"own-tf32", 1, "64"}, s, false);
  const auto report = [&](const char* processors, const char* library) {
    std::ofstream(table.path) << "dpi-tuning 2\ndevice Sister\ncapability 0\nmultiprocessors " << processors
                              << "\ncublaslt " << library << "\ntf32 plain 24 33 37 cublaslt-tf32 - "
                              << "6470692d616c676f0000000000000002" << std::string(96, '0') << " 1.5\n"
                              << "tf32 plain 24 33 30 own-tf32 128 - 1.5\n";
    Layer layer(s, {DType::kF32, DType::kF32, false, 3, 0});
    TypedBackend backend(1, table.path);
    CHECK(layer.error(layer.op.run(backend), operand_error(1, "")) <= 1);
    return layer.op.report;
  };
  const std::string ours = report("131", "1"), foreign = report("132", "1");
  CHECK_MESSAGE(ours.find("'Sister' with 131 multiprocessors") != std::string::npos, ours);
  CHECK_MESSAGE(for_most_rows(foreign) == "own-tf32", foreign);
  CHECK_MESSAGE(foreign.find("1 lines about cuBLASLt 1 are left alone") != std::string::npos, foreign);
  const std::string version = foreign.substr(foreign.find("this is ") + 8);
  const std::string same = report("132", version.substr(0, version.find_first_not_of("0123456789")).c_str());
  CHECK_MESSAGE(for_most_rows(same) == "cublaslt-tf32", same);
  unsetenv("DPI_EMU_CUBLASLT");
}

TEST_CASE("gemm: a table's algorithm is taken when the library offers it") {
  if (device() != "cuda_emu") return;  // the algorithms of lt_emu.cpp
  setenv("DPI_EMU_CUBLASLT", "1", 1);
  const Shape s = {37, 33, 24};
  for (const char* staging : {"-", "staged"}) {
    for (const char* number : {"0000000000000002", "00000000000000aa"}) {
      CAPTURE(staging);
      CAPTURE(number);
      const Forced table({"own-tf32", 1, "64"}, s, false);
      std::ofstream(table.path)
          << "dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\ntf32 plain 24 33 37 cublaslt-tf32 " << staging
          << " 6470692d616c676f" << number << std::string(96, '0') << " 1.5\n";
      Layer layer(s, {DType::kF32, DType::kF32, false, 3, 0});
      TypedBackend backend(1, table.path);
      CHECK(layer.error(layer.op.run(backend), operand_error(1, "")) <= 1);
      CHECK(layer.op.report.find("chosen: cublaslt-tf32") == 0);
      const bool offered = number[15] == '2';
      CHECK((layer.op.report.find("offers no such") == std::string::npos) == offered);
    }
  }
  unsetenv("DPI_EMU_CUBLASLT");
}

TEST_CASE("gemm: a table that is wrong is refused by name, one for another GPU is left") {
  const Shape s = {4, 33, 20};
  const Forced good({"own-simt", 0, "-"}, s, false);
  {
    std::ofstream(good.path)
        << "dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\nfp32 plain 20 33 1 magic - - 1\n";
    TypedBackend backend(0, good.path);
    CHECK_FALSE(backend.status.ok());
    CHECK(backend.status.message().find("line 5") != std::string::npos);
  }
  std::ofstream(good.path) << "dpi-tuning 1\ndevice Another GPU\ncapability 90\ncublaslt 130100\n";
  Layer layer(s, {});
  TypedBackend backend(0, good.path);
  CHECK(layer.error(layer.op.run(backend), 0) <= 1);
  CHECK(layer.op.report.find("'Another GPU'") != std::string::npos);
}

}  // namespace
}  // namespace dpi::test::gemm_tables_test
