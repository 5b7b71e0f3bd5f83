// Address ranges of the emulated devices: reserved addresses, and pieces of memory of any device behind them,
// as CUDA's virtual memory management has them. A piece is a file in memory, so that it can lie behind
// several ranges. Compile as fiber.cpp.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "kernels/emu/heap.hpp"
#include "kernels/emu/memory.hpp"
#include "kernels/emu/schedule.hpp"

namespace dpi::emu {

struct Piece {
  int file = -1;
  size_t bytes = 0;
  int device = 0;
  int held = 1;  // by its maker and by the places where it lies
};

namespace {

std::map<char*, Piece*>& mapped() {
  static auto* const kMapped = new std::map<char*, Piece*>;
  return *kMapped;
}

void drop(Piece* p) {
  if (--p->held > 0) return;
  close(p->file);
  give_memory(p->device, p->bytes);
  --heap().pieces;
  delete p;
}

bool whole(size_t bytes) { return bytes > 0 && bytes % kPieceBytes == 0; }

bool is_reserved(const char* at, size_t bytes) {
  auto next = heap().ranges.upper_bound(const_cast<char*>(at));
  if (next == heap().ranges.begin()) return false;
  --next;
  return at + bytes <= next->first + next->second;
}

/// New memory is no number.
bool fill(int file, size_t bytes) {
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) return false;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (p == MAP_FAILED) return false;
  std::memset(p, 0xFF, bytes);
  munmap(p, bytes);
  return true;
}

}  // namespace

bool can_reach(int device, int owner) {
  const char* const text = std::getenv("DPI_EMU_PEERS");
  return device == owner || text == nullptr || std::strcmp(text, "off") != 0;
}

int range_reserve(size_t bytes, void** out) {
  *out = nullptr;
  if (const int code = refuse_in_capture("range_reserve"); code != 0) return code;
  const Busy busy;
  if (const int code = injected(Kind::kMap); code != 0) return code;
  if (!whole(bytes)) return failed(kInvalidValue, "a range of " + std::to_string(bytes) + " bytes");
  void* p = mmap(nullptr, bytes + kPieceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return failed(kOutOfMemory, "no addresses for a range");
  auto* base = static_cast<char*>(p);
  const size_t before = (kPieceBytes - reinterpret_cast<uintptr_t>(base) % kPieceBytes) % kPieceBytes;
  if (before > 0) munmap(base, before);
  munmap(base + before + bytes, kPieceBytes - before);
  heap().ranges[base + before] = bytes;
  *out = base + before;
  return 0;
}

int range_free(void* p, size_t bytes) {
  const Busy busy;
  auto* const base = static_cast<char*>(p);
  const auto it = heap().ranges.find(base);
  if (it == heap().ranges.end() || it->second != bytes)
    return failed(kInvalidValue, "range_free of what is no range");
  const auto inside = mapped().lower_bound(base);
  if (inside != mapped().end() && inside->first < base + bytes)
    return failed(kInvalidValue, "range_free of a range with memory behind it");
  munmap(base, bytes);
  heap().ranges.erase(it);
  return 0;
}

int piece_create(int device, size_t bytes, Piece** out) {
  *out = nullptr;
  if (const int code = refuse_in_capture("piece_create"); code != 0) return code;
  const Busy busy;
  if (const int code = injected(Kind::kMap); code != 0) return code;
  if (device < 0 || device >= device_count())
    return failed(kInvalidDevice, "there is no device " + std::to_string(device));
  if (!whole(bytes)) return failed(kInvalidValue, "a piece of " + std::to_string(bytes) + " bytes");
  if (!take_memory(device, bytes))
    return failed(kOutOfMemory, "the emulated device " + std::to_string(device) + " is out of memory");
  const int file = memfd_create("dpi_emu", MFD_CLOEXEC);
  if (file < 0 || !fill(file, bytes)) {
    if (file >= 0) close(file);
    give_memory(device, bytes);
    return failed(kOutOfMemory, "the host is out of memory or files");
  }
  ++heap().pieces;
  *out = new Piece{file, bytes, device, 1};
  return 0;
}

int piece_release(Piece* piece) {
  const Busy busy;
  drop(piece);
  return 0;
}

int piece_map(void* at, size_t bytes, Piece* piece) {
  const Busy busy;
  if (const int code = injected(Kind::kMap); code != 0) return code;
  auto* const to = static_cast<char*>(at);
  if (bytes != piece->bytes || reinterpret_cast<uintptr_t>(to) % kPieceBytes != 0 || !is_reserved(to, bytes))
    return failed(kInvalidValue, "a piece of " + std::to_string(piece->bytes) + " bytes does not go there");
  const auto next = mapped().lower_bound(to);
  const bool taken =
      (next != mapped().end() && next->first < to + bytes) ||
      (next != mapped().begin() && std::prev(next)->first + std::prev(next)->second->bytes > to);
  if (taken) return failed(kInvalidValue, "a piece lies there already");
  if (mmap(to, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, piece->file, 0) == MAP_FAILED)
    return failed(kOutOfMemory, "the host is out of memory");
  ++piece->held;
  mapped()[to] = piece;
  heap().device[to] = {bytes, piece->device, 0, true};
  return 0;
}

int piece_unmap(void* at) {
  run_all();  // what was started may still read it
  const Busy busy;
  auto* const from = static_cast<char*>(at);
  const auto it = mapped().find(from);
  if (it == mapped().end()) return failed(kInvalidValue, "no piece lies there");
  const size_t bytes = it->second->bytes;
  unpoison(from, bytes);
  mmap(from, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  drop(it->second);
  mapped().erase(it);
  heap().device.erase(from);
  return 0;
}

int range_access(void* p, size_t bytes, const int* devices, int n) {
  const Busy busy;
  if (const int code = injected(Kind::kMap); code != 0) return code;
  auto* const base = static_cast<char*>(p);
  char* at = base;
  for (auto it = mapped().find(base); it != mapped().end() && it->first == at && at < base + bytes; ++it)
    at += it->second->bytes;
  if (at != base + bytes) return failed(kInvalidValue, "access to addresses that have no memory behind them");
  for (auto it = mapped().find(base); it != mapped().end() && it->first < at; ++it) {
    Block& block = heap().device[it->first];
    block.access = 0;
    for (int i = 0; i < n; ++i) {
      if (!can_reach(devices[i], block.device))
        return failed(kNoPeer, "device " + std::to_string(devices[i]) + " cannot reach memory of device " +
                                   std::to_string(block.device));
      block.access |= 1u << devices[i];
    }
    if (mprotect(it->first, block.bytes, PROT_READ | PROT_WRITE) != 0)
      return failed(kOutOfMemory, "the host is out of memory");
    poison(it->first, block.bytes);
  }
  return 0;
}

}  // namespace dpi::emu
