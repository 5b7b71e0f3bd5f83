// What dpi_gpu_tune times, in order (tune.cpp).
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "backend/cuda/gemm/gemm.hpp"

namespace dpi::gpu {

using backend::GemmPrecision;
using backend::kMostLtCandidates;
using backend::precision_name;

struct Shape {
  int64_t in, out;
  bool fused;
};

struct Plan {
  std::vector<Shape> shapes;
  std::vector<int64_t> rows;
  int precisions = 4;                  // of the order fp32, tf32, fp16, bf16
  int algorithms = kMostLtCandidates;  // of each of the library's implementations
  int runs = 16;                       // per graph
  int rounds = 3;                      // of a graph that is worth measuring well
  double seconds = 90;
  std::string out;
};

// The layers of the paper's grid, DeepFM's and DCNv2's on Criteo first: 39 fields (Avazu: 24) at dim 16
// and 32.
inline std::vector<Shape> grid_shapes() {
  std::vector<Shape> shapes;
  for (const int64_t in : {624, 1248, 384, 768}) {
    shapes.push_back({in, in, true});
    for (const int64_t h : {256, 512, 1024}) {
      shapes.push_back({in, h, false});
      if (in == 624) shapes.push_back({h, h, false});
    }
  }
  return shapes;
}

inline Plan first_plan() {
  Plan p;
  p.shapes = grid_shapes();
  p.rows = {2048};
  p.precisions = 3;
  p.algorithms = 8;
  return p;
}

// FuxiCTR's default size with numeric fields (26 * 16 + 13 inputs, or 624 where they are not folded), the
// grid, and the large size of stage B1's sweep.
inline Plan full_plan() {
  Plan p;
  p.shapes = {{429, 400, false}, {400, 400, false}, {624, 400, false}};
  for (const Shape& s : grid_shapes()) p.shapes.push_back(s);
  for (const int64_t in : {1677, 2496}) p.shapes.push_back({in, 1024, false});
  for (const Shape& s : {Shape{1024, 512, false}, {512, 256, false}, {2496, 2496, true}})
    p.shapes.push_back(s);
  p.rows = {64, 2048, 512, 4096, 16384};
  return p;
}

inline Plan dry_plan() {
  Plan p;
  p.shapes = {{33, 20, false}, {40, 40, true}};
  p.rows = {4, 64};
  p.runs = 1;
  p.rounds = 1;
  return p;
}

/// One JSON line per cell.
inline void list(const Plan& plan) {
  for (const Shape& s : plan.shapes) {
    for (int p = 0; p < plan.precisions; ++p) {
      for (const int64_t rows : plan.rows) {
        std::printf(
            "{\"precision\": \"%s\", \"end\": \"%s\", \"in\": %lld, \"out\": %lld, \"rows\": %lld, "
            "\"algorithms\": %d}\n",
            precision_name(static_cast<GemmPrecision>(p)), s.fused ? "fused" : "plain",
            static_cast<long long>(s.in), static_cast<long long>(s.out), static_cast<long long>(rows),
            plan.algorithms);
      }
    }
  }
}

}  // namespace dpi::gpu
