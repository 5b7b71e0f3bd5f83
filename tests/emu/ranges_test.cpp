// Several emulated devices: work, memory and failures belong to one of them; ranges of addresses have memory
// of several behind them; a device may be late without another waiting for it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "emu/planted.hpp"
#include "kernels/emu/control.hpp"
#include "kernels/emu/device_emu.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::ranges_test {
namespace {

constexpr int kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

bool mentions(const char* text) { return std::string(emu::last_error()).find(text) != std::string::npos; }

/// A stream and some memory of one device.
struct Place {
  int device;
  emu::Stream* stream = nullptr;
  emu::Event* event = nullptr;
  float* memory = nullptr;

  explicit Place(int d) : device(d) {
    REQUIRE(emu::use(d) == 0);
    emu::stream_create(&stream);
    emu::event_create(false, &event);
    emu::device_alloc(kBytes, reinterpret_cast<void**>(&memory));
  }
  ~Place() {
    emu::use(device);
    emu::stream_destroy(stream);
    emu::event_destroy(event);
    emu::device_free(memory);
    emu::use(0);
  }
  Place(const Place&) = delete;
};

/// A range of pieces, one per device named.
struct Range {
  void* base = nullptr;
  size_t bytes = 0;
  size_t made = 0;

  explicit Range(const std::vector<int>& owners) : bytes(owners.size() * emu::kPieceBytes) {
    REQUIRE(emu::range_reserve(bytes, &base) == 0);
    for (const int owner : owners) {
      emu::Piece* piece = nullptr;
      REQUIRE(emu::piece_create(owner, emu::kPieceBytes, &piece) == 0);
      CHECK(emu::piece_map(at(made), emu::kPieceBytes, piece) == 0);
      CHECK(emu::piece_release(piece) == 0);
      ++made;
    }
  }
  ~Range() {
    for (size_t p = 0; p < made; ++p) emu::piece_unmap(at(p));
    CHECK(emu::range_free(base, bytes) == 0);
  }
  Range(const Range&) = delete;
  char* at(size_t piece) const { return static_cast<char*>(base) + piece * emu::kPieceBytes; }
};

DpiEmuLive alive() {
  DpiEmuLive n{};
  dpi_emu_live(&n);
  return n;
}

TEST_CASE("ranges: work on another device's stream is refused by name") {
  const Place a(0), b(1);
  emu::use(0);
  CHECK(scale(a.memory, a.memory, kCount, Fault::kNone, b.stream) == emu::kInvalidHandle);
  CHECK(mentions("a stream of device 1 while device 0 is in use"));
  CHECK(emu::copy(a.memory, a.memory, 4, b.stream) == emu::kInvalidHandle);
  CHECK(emu::event_record(a.event, b.stream) == emu::kInvalidHandle);
  CHECK(emu::event_record(a.event, a.stream) == 0);
  CHECK(emu::event_wait(a.event, b.stream) == 0);  // waiting for another device is right
  CHECK(emu::use(emu::device_count()) == emu::kInvalidDevice);
  CHECK(mentions("there is no device 4"));
  CHECK(emu::stream_sync(b.stream) == 0);
}

TEST_CASE("ranges: a graph runs on the device it was captured on") {
  const Place a(0), b(1);
  emu::Graph* g = nullptr;
  emu::use(0);
  CHECK(emu::capture_begin(a.stream) == 0);
  CHECK(scale(a.memory, a.memory, kCount, Fault::kNone, a.stream) == 0);
  REQUIRE(emu::capture_end(a.stream, &g) == 0);
  CHECK(emu::graph_launch(g, b.stream) == emu::kInvalidHandle);
  CHECK(emu::graph_launch(g, a.stream) == 0);
  CHECK(emu::stream_sync(a.stream) == 0);
  emu::graph_free(g);
}

TEST_CASE("ranges: each device has memory of its own") {
  setenv("DPI_EMU_MEMORY", "1000", 1);
  void *p = nullptr, *q = nullptr, *more = nullptr;
  emu::use(0);
  CHECK(emu::device_alloc(900, &p) == 0);
  emu::use(2);
  CHECK(emu::device_alloc(900, &q) == 0);
  CHECK(dpi_emu_device_bytes(0) == 900);
  CHECK(dpi_emu_device_bytes(1) == 0);
  CHECK(dpi_emu_device_bytes(2) == 900);
  CHECK(emu::device_alloc(200, &more) == emu::kOutOfMemory);
  CHECK(mentions("device 2 is out of memory"));
  emu::use(0);
  for (void* block : {p, q}) CHECK(emu::device_free(block) == 0);
  unsetenv("DPI_EMU_MEMORY");
}

TEST_CASE("ranges: kernels of every device that has access read and write all pieces by one address") {
  const DpiEmuLive before = alive();
  {
    const Range range({0, 1, 1, 3});
    CHECK(dpi_emu_device_bytes(1) == static_cast<int64_t>(2 * emu::kPieceBytes));
    const int all[] = {0, 1, 2, 3};
    REQUIRE(emu::range_access(range.base, range.bytes, all, 4) == 0);
    float in[kCount], out[kCount];
    for (int i = 0; i < kCount; ++i) in[i] = static_cast<float>(i + 1);
    for (size_t border = 1; border < 4; ++border) {  // the row lies on both sides of it
      auto* row = reinterpret_cast<float*>(range.at(border) - kBytes / 2);
      const Place writer(static_cast<int>(border)), reader(static_cast<int>(border + 1) % 4);
      emu::use(writer.device);
      CHECK(scale(in, row, kCount, Fault::kNone, writer.stream) == 0);
      CHECK(emu::stream_sync(writer.stream) == 0);
      emu::use(reader.device);
      CHECK(scale(row, out, kCount, Fault::kNone, reader.stream) == 0);
      CHECK(emu::stream_sync(reader.stream) == 0);
      for (int i = 0; i < kCount; ++i) CHECK(out[i] == 4 * in[i]);
    }
    CHECK(alive().pieces == before.pieces + 4);
  }
  CHECK(alive().pieces == before.pieces);
  CHECK(alive().ranges == before.ranges);
  CHECK(dpi_emu_device_bytes(1) == 0);
}

TEST_CASE("ranges: what is no whole piece, lies outside or lies twice is refused") {
  void* base = nullptr;
  emu::Piece* piece = nullptr;
  CHECK(emu::range_reserve(emu::kPieceBytes / 2, &base) == emu::kInvalidValue);
  CHECK(emu::piece_create(9, emu::kPieceBytes, &piece) == emu::kInvalidDevice);
  const Range range({2});
  REQUIRE(emu::piece_create(0, emu::kPieceBytes, &piece) == 0);
  CHECK(emu::piece_map(range.at(0), emu::kPieceBytes, piece) == emu::kInvalidValue);
  CHECK(mentions("a piece lies there already"));
  CHECK(emu::piece_map(range.at(1), emu::kPieceBytes, piece) == emu::kInvalidValue);
  CHECK(emu::piece_release(piece) == 0);
  const int one[] = {0};
  CHECK(emu::range_access(range.base, 2 * emu::kPieceBytes, one, 1) == emu::kInvalidValue);
  CHECK(emu::range_free(range.base, range.bytes) == emu::kInvalidValue);
  setenv("DPI_EMU_PEERS", "off", 1);
  CHECK(emu::range_access(range.base, range.bytes, one, 1) == emu::kNoPeer);
  CHECK(mentions("device 0 cannot reach memory of device 2"));
  unsetenv("DPI_EMU_PEERS");
}

TEST_CASE("ranges: a device that is late keeps no other waiting, and loses nothing") {
  const Place slow(1), quick(2);
  float in[kCount], first[kCount] = {}, second[kCount] = {};
  for (int i = 0; i < kCount; ++i) in[i] = 1;
  for (const int64_t late : {int64_t{-1}, int64_t{2000}}) {
    dpi_emu_delay(1, late);
    emu::use(1);
    CHECK(scale(in, first, kCount, Fault::kNone, slow.stream) == 0);
    emu::use(2);
    CHECK(scale(in, second, kCount, Fault::kNone, quick.stream) == 0);
    CHECK(emu::stream_sync(quick.stream) == 0);
    CHECK(second[kCount - 1] == 2);
    // A look at what nobody has waited for: a race, were the kernel not held up.
    if (late < 0 && !DPI_UNDER_TSAN) CHECK(first[0] == 0);
    if (late < 0) dpi_emu_delay(1, 0);
    emu::use(1);
    CHECK(emu::stream_sync(slow.stream) == 0);
    CHECK(first[kCount - 1] == 2);
    second[kCount - 1] = 0;
  }
  dpi_emu_delay(1, 0);
}

}  // namespace
}  // namespace dpi::test::ranges_test
