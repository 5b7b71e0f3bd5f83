// The few calls of a GPU that the backend needs: memory, copies, streams, events. Two implementations: the
// CUDA runtime (cuda/layer/cuda_layer.cpp) and, for tests, the emulation (cuda_emu/emu_layer.cpp); a plugin
// is linked with one of them. Called by the sources of sdk/src/backend/cuda and by the programs of tests/gpu.
//
// Functions give the native code, 0 = done, and leave no failure behind for a later call to find
// (cudaGetLastError). Handles are opaque; a device is chosen with `use` on the calling
// thread first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dpi::backend::layer {

/// "cuda" or "cuda_emu".
const char* plugin_name();

/// Devices that can be used; 0 with the reason in *why.
int device_count(std::string* why);

struct Properties {
  char name[128] = "";
  uint64_t memory_total = 0;
  uint64_t memory_free = 0;
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;
  int capability = 0;  // 90 = sm_90; 0 = emulated
};
int properties(int device, Properties* out);
int use(int device);

/// The text of a native code; after a launch the emulation adds where it failed.
std::string error_text(int code);
bool is_out_of_memory(int code);

int device_alloc(size_t bytes, void** out);
int device_free(void* p);
/// Host memory that copies reach at full speed, and kernels of every device by the same address.
int pinned_alloc(size_t bytes, void** out);
int pinned_free(void* p);

/// Ranges of addresses with memory of several devices behind them. A range has addresses only; pieces, whole
/// multiples of the granularity, bring memory of a device to a place in it. Once access is given, kernels of
/// the devices named read and write all of it by plain pointers.
bool can_reach(int device, int owner);             // kernels of `device` memory of `owner`
int piece_granularity(int device, size_t* bytes);  // 0 = the device cannot do this
int range_reserve(size_t bytes, void** out);
int range_free(void* p, size_t bytes);  // after its pieces
int piece_make(void* at, size_t bytes, int device);
int piece_drop(void* at, size_t bytes);
int range_access(void* p, size_t bytes, const int* devices, int n);

/// Done when it returns; either side may be host or device memory.
int copy_now(void* dst, const void* src, size_t bytes);
int copy_async(void* dst, const void* src, size_t bytes, void* stream);

int stream_create(int priority, void** out);
int stream_destroy(void* stream);
int stream_synchronize(void* stream);
/// timed: event_elapsed may be asked.
int event_create(bool timed, void** out);
int event_destroy(void* event);
int event_record(void* event, void* stream);
int event_wait(void* event, void* stream);
/// Milliseconds between two events that have passed.
int event_elapsed(void* from, void* to, float* ms);

/// Everything started on `stream`, and on streams that wait for its events, becomes one graph instead of
/// being run; the caller joins those streams back before the end. Thread-local: other threads go on.
int capture_begin(void* stream);
int capture_end(void* stream, void** graph);
/// Runs the graph once, after what the stream holds; a graph runs once at a time.
int graph_launch(void* graph, void* stream);
int graph_free(void* graph);
/// One line per node: number, what it is, numbers of the nodes it waits for.
int graph_text(void* graph, std::string* out);

}  // namespace dpi::backend::layer
