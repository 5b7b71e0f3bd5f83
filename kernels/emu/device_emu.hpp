// The emulated device as the host sees it: streams, events, copies, captured graphs. Tests only. Used by the
// emulated device layer of the backend and by tests.
//
// Nothing runs when it is started: launches and copies become tasks that run when the host synchronises, in a
// random order that stream order and events allow (seed: DPI_SIMT_SEED or seed()). So a missing event gives a
// wrong result for some seeds, and under TSan, where every stream has a clock of its own, a race.
//
// Functions give 0 or a code with the number that the CUDA runtime uses; last_error() has the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace dpi::emu {

struct Stream;
struct Event;
struct Graph;
struct Piece;
using Body = std::function<void()>;

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidConfiguration = 9;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidHandle = 400;
constexpr int kNoPeer = 217;
constexpr int kNotReady = 600;
constexpr int kFault = 719;  // a kernel did what no kernel may do
constexpr int kCaptureUnsupported = 900;
constexpr int kCaptureInvalidated = 901;
constexpr int kCaptureUnmatched = 903;
constexpr int kCaptureUnjoined = 904;
constexpr int kCaptureIsolation = 905;
constexpr int kCapturedEvent = 907;
constexpr int kCaptureWrongThread = 908;

/// The message of this thread's last failed call.
const char* last_error();
/// CUDA's memory of failures, per thread: the code of the last call that failed, until someone takes it.
/// Calls that succeed leave it there.
int take_last_code();
int peek_last_code();

/// While one of these lives, memory is taken and given back for the emulation's own needs: a test that counts
/// or fails the library's allocations leaves those out (dpi_emu_own).
struct Own {
  Own() { count(1); }
  ~Own() { count(-1); }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  static void count(int n);
};

/// Seed of every random order of the process: of threads, blocks and tasks.
void seed(unsigned value);

/// Starts `body` once for every thread; owns it. `kernel`: the function's address, for its name.
int launch_body(const void* kernel, dim3 grid, dim3 block, Stream* stream, const Body* body);

/// Devices that there are: 4, or DPI_EMU_DEVICES of the environment. Each has memory of its own.
int device_count();
constexpr int kMostDevices = 16;
/// The device of what this thread makes from now on: streams, events, memory. Work on a stream of another
/// device is refused, as CUDA refuses it.
int use(int device);
int current_device();

int stream_create(Stream** out);
int stream_destroy(Stream* s);
/// Runs what the stream holds. A fault of a kernel that the stream waited for is reported here, with the
/// kernel's name and the place; what came after the kernel has not run.
int stream_sync(Stream* s);

int event_create(bool timed, Event** out);
int event_destroy(Event* e);
int event_record(Event* e, Stream* s);
int event_wait(Event* e, Stream* s);
/// Milliseconds on the emulated clock: a kernel takes the longer the more threads it has, a copy the more
/// bytes.
int event_elapsed(Event* from, Event* to, float* ms);

int copy(void* dst, const void* src, size_t bytes, Stream* s);

/// Device memory starts as 0xFF; freeing waits for all that was started.
int device_alloc(size_t bytes, void** out);
int device_free(void* p);
int pinned_alloc(size_t bytes, void** out);
int pinned_free(void* p);
/// By the calling thread, whatever the streams hold.
int copy_now(void* dst, const void* src, size_t bytes);

/// Ranges of addresses with memory of several devices behind them, as cuMemAddressReserve, cuMemCreate,
/// cuMemMap and cuMemSetAccess. Sizes are multiples of kPieceBytes. A piece lives until it is released and
/// lies nowhere.
constexpr size_t kPieceBytes = size_t{2} << 20;
int range_reserve(size_t bytes, void** out);
int range_free(void* p, size_t bytes);
int piece_create(int device, size_t bytes, Piece** out);
int piece_release(Piece* piece);
int piece_map(void* at, size_t bytes, Piece* piece);
int piece_unmap(void* at);
/// All that lies in the range may be touched by kernels of these devices and of no others.
int range_access(void* p, size_t bytes, const int* devices, int n);
/// May kernels of `device` touch memory of `owner`? DPI_EMU_PEERS=off in the environment: of no other.
bool can_reach(int device, int owner);

/// How large the emulated device says it is: as an H200. DPI_EMU_SHARED in the environment sets shared_bytes.
struct Properties {
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
  int shared_bytes = 227 * 1024;  // that a block may have
};
Properties properties();
/// Bytes of one device; all have the same.
uint64_t memory_total();
uint64_t memory_used(int device);

/// The same as in the device layer (sdk/src/backend/cuda/layer/device_layer.hpp). While a thread captures it
/// may not synchronise, allocate or copy at once.
int capture_begin(Stream* s);
int capture_end(Stream* s, Graph** out);
int graph_launch(Graph* g, Stream* s);
int graph_free(Graph* g);
/// "<number> kernel <name> <- <numbers>" or "<number> copy <bytes> <- <numbers>", a line per node.
std::string graph_text(const Graph* g);
/// For calls that no capture allows: invalidates the captures of the calling thread.
int refuse_in_capture(const char* call);

}  // namespace dpi::emu
