// The device layer over the CUDA runtime, which is linked statically: the plugin needs no CUDA library to be
// installed, only the driver, and says so when that is missing.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cuda/layer/device_layer.hpp"

namespace dpi::backend::layer {
namespace {

constexpr int kMinMajor = 8;  // the oldest architecture the plugin is built for

// The runtime keeps a failure for whoever calls cudaGetLastError next. Nobody is to find it: every code that
// leaves this file, or is dropped in it, goes through here.
int told(cudaError_t code) {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  return code;
}

cudaStream_t stream_of(void* s) { return static_cast<cudaStream_t>(s); }
cudaEvent_t event_of(void* e) { return static_cast<cudaEvent_t>(e); }

struct Graph {
  cudaGraph_t graph = nullptr;  // kept for graph_text
  cudaGraphExec_t exec = nullptr;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (exec != nullptr) told(cudaGraphExecDestroy(exec));
    if (graph != nullptr) told(cudaGraphDestroy(graph));
  }
};

std::string node_text(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  if (told(cudaGraphNodeGetType(node, &type)) != 0) return "unknown";
  if (type == cudaGraphNodeTypeMemcpy) return "copy";
  if (type != cudaGraphNodeTypeKernel) return "type " + std::to_string(static_cast<int>(type));
  cudaKernelNodeParams params{};
  const char* name = nullptr;
  if (told(cudaGraphKernelNodeGetParams(node, &params)) != 0 ||
      told(cudaFuncGetName(&name, params.func)) != 0)
    return "kernel";  // a library's, that the runtime has no name for
  return std::string("kernel ") + name;
}

}  // namespace

const char* plugin_name() { return "cuda"; }

int device_count(std::string* why) {
  int n = 0;
  const int code = told(cudaGetDeviceCount(&n));
  if (code != 0) {
    *why = std::string("no usable GPU: ") + cudaGetErrorString(static_cast<cudaError_t>(code)) +
           " (CUDA error " + std::to_string(code) + ")";
    return 0;
  }
  int major = 0;
  if (n > 0 && told(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0)) == 0 &&
      major < kMinMajor) {
    *why = "the GPU has compute capability " + std::to_string(major) + ".x, expected 8.0 or later";
    return 0;
  }
  if (n == 0) *why = "the driver reports no GPU";
  return n;
}

int properties(int device, Properties* out) {
  cudaDeviceProp p{};
  if (const int code = told(cudaGetDeviceProperties(&p, device)); code != 0) return code;
  std::memcpy(out->name, p.name, std::min(sizeof(out->name), sizeof(p.name)) - 1);
  out->multiprocessors = p.multiProcessorCount;
  out->threads_per_multiprocessor = p.maxThreadsPerMultiProcessor;
  out->capability = p.major * 10 + p.minor;
  size_t available = 0, total = 0;
  if (const int code = told(cudaMemGetInfo(&available, &total)); code != 0) return code;
  out->memory_total = total;
  out->memory_free = available;
  return 0;
}

int use(int device) { return told(cudaSetDevice(device)); }

std::string error_text(int code) {
  const auto e = static_cast<cudaError_t>(code);
  return std::string(cudaGetErrorName(e)) + ": " + cudaGetErrorString(e);
}
bool is_out_of_memory(int code) { return code == cudaErrorMemoryAllocation; }

int device_alloc(size_t bytes, void** out) { return told(cudaMalloc(out, bytes)); }
int device_free(void* p) { return told(cudaFree(p)); }
int pinned_alloc(size_t bytes, void** out) { return told(cudaHostAlloc(out, bytes, cudaHostAllocPortable)); }
int pinned_free(void* p) { return told(cudaFreeHost(p)); }

int copy_now(void* dst, const void* src, size_t bytes) {
  if (const int code = told(cudaMemcpy(dst, src, bytes, cudaMemcpyDefault)); code != 0) return code;
  return told(
      cudaStreamSynchronize(nullptr));  // a copy from pageable memory may return before it has arrived
}
int copy_async(void* dst, const void* src, size_t bytes, void* stream) {
  return told(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_of(stream)));
}

int stream_create(int priority, void** out) {
  cudaStream_t s = nullptr;
  const int code = told(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -priority));
  *out = s;
  return code;
}
int stream_destroy(void* stream) { return told(cudaStreamDestroy(stream_of(stream))); }
int stream_synchronize(void* stream) { return told(cudaStreamSynchronize(stream_of(stream))); }

int event_create(bool timed, void** out) {
  cudaEvent_t e = nullptr;
  const int code = told(cudaEventCreateWithFlags(&e, timed ? cudaEventDefault : cudaEventDisableTiming));
  *out = e;
  return code;
}
int event_destroy(void* event) { return told(cudaEventDestroy(event_of(event))); }
int event_record(void* event, void* stream) {
  return told(cudaEventRecord(event_of(event), stream_of(stream)));
}
int event_wait(void* event, void* stream) {
  return told(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}
int event_elapsed(void* from, void* to, float* ms) {
  return told(cudaEventElapsedTime(ms, event_of(from), event_of(to)));
}

// ---- graphs

int capture_begin(void* stream) {
  return told(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
}

int capture_end(void* stream, void** out) {
  *out = nullptr;
  cudaGraph_t graph = nullptr;
  int code = told(cudaStreamEndCapture(stream_of(stream), &graph));
  if (code != 0) return code;
  std::unique_ptr<Graph> made(new (std::nothrow) Graph);  // this is C's side: nothing may be thrown
  if (made == nullptr) {
    told(cudaGraphDestroy(graph));
    return static_cast<int>(cudaErrorMemoryAllocation);
  }
  made->graph = graph;
  code = told(cudaGraphInstantiate(&made->exec, graph, cudaGraphInstantiateFlagUseNodePriority));
  if (code == 0) code = told(cudaGraphUpload(made->exec, stream_of(stream)));
  if (code == 0) *out = made.release();
  return code;
}

int graph_launch(void* graph, void* stream) {
  return told(cudaGraphLaunch(static_cast<Graph*>(graph)->exec, stream_of(stream)));
}

int graph_free(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}

int graph_text(void* graph, std::string* out) {
  size_t n = 0, n_edges = 0;
  cudaGraph_t g = static_cast<Graph*>(graph)->graph;
  if (const int code = told(cudaGraphGetNodes(g, nullptr, &n)); code != 0) return code;
  std::vector<cudaGraphNode_t> nodes(n);
  int code = told(cudaGraphGetNodes(g, nodes.data(), &n));
  if (code == 0) code = told(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &n_edges));
  std::vector<cudaGraphNode_t> from(n_edges), to(n_edges);
  std::vector<cudaGraphEdgeData> data(n_edges);
  if (code == 0) code = told(cudaGraphGetEdges(g, from.data(), to.data(), data.data(), &n_edges));
  if (code != 0) return code;
  for (size_t i = 0; i < n; ++i) {
    *out += std::to_string(i) + " " + node_text(nodes[i]) + " <-";
    for (size_t e = 0; e < n_edges; ++e) {
      if (to[e] != nodes[i]) continue;
      *out += " " + std::to_string(std::find(nodes.begin(), nodes.end(), from[e]) - nodes.begin());
    }
    *out += "\n";
  }
  return 0;
}

}  // namespace dpi::backend::layer
