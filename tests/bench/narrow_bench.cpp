// Stacks of layers (bias and relu fused) with weights in float32, in bf16 widened, and in bf16 and int8
// multiplied by the processor where it can, by AMX too, and as oneDNN computes them: the calling thread's own
// time, forms in turn, medians. Microseconds of a call, and how many times fp32's speed.
//
//   OMP_NUM_THREADS=1 narrow_bench [repeats]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/bench.hpp"
#include "bench/narrow_peer.hpp"
#include "kernels/cpu/tile_permission.hpp"

namespace {

using namespace dpi::kernels;

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// One stack of layers in one form.
struct Stack {
  const cpu::Functions* f;
  void (*gemm)(const cpu::GemmCall&);
  std::vector<int64_t> widths;
  std::vector<std::vector<uint32_t>> packed;
  std::vector<std::vector<float>> values;
  std::vector<uint32_t> scratch;
  DenseSegment relu{{UnaryKind::kRelu, 0, 0}, 0, 0};

  Stack(cpu::Isa isa, cpu::Weights as, const std::vector<int64_t>& w, int64_t rows)
      : f(&cpu::functions(isa)), widths(w) {
    const bool bf16 = as == cpu::Weights::kBf16, plain = as == cpu::Weights::kF32;
    gemm = plain ? f->gemm : bf16 ? f->gemm_bf16 : f->gemm_int8;
    const auto words = plain ? f->gemm_packed_floats : bf16 ? f->gemm_bf16_words : f->gemm_int8_words;
    const auto pack = bf16 ? f->gemm_bf16_pack : f->gemm_int8_pack;
    const auto needs = bf16 ? f->gemm_bf16_scratch : f->gemm_int8_scratch;
    for (size_t i = 0; i + 1 < w.size(); ++i) {
      const int64_t k = w[i], n = w[i + 1];
      const std::vector<float> weight = dpi::bench::random_floats(n * k, static_cast<uint32_t>(i) + 1);
      packed.emplace_back(static_cast<size_t>(words(n, k)));
      if (plain) f->gemm_pack(weight.data(), n, k, reinterpret_cast<float*>(packed.back().data()));
      if (!plain) pack(weight.data(), n, k, packed.back().data());
      if (!plain) scratch.resize(std::max(scratch.size(), static_cast<size_t>(needs(rows, k)) / 4));
    }
    for (const int64_t n : w) values.push_back(dpi::bench::random_floats(n * rows, 7));
  }

  void run(int64_t rows) {
    for (size_t i = 0; i < packed.size(); ++i) {
      cpu::GemmCall c;
      c.x = values[i].data();
      c.packed = packed[i].data();
      c.scratch = scratch.data();
      c.dst = values[i + 1].data();
      c.m = rows;
      c.n = c.ldd = widths[i + 1];
      c.k = c.ldx = widths[i];
      relu.end = c.n;
      c.segments = &relu;
      c.n_segments = 1;
      gemm(c);
    }
  }
};

double median(std::vector<double>* v) {
  std::nth_element(v->begin(), v->begin() + static_cast<int64_t>(v->size() / 2), v->end());
  return (*v)[v->size() / 2];
}

void measure(const std::string& name, const std::vector<int64_t>& widths, int64_t rows, int repeats) {
  std::vector<Stack> forms;
  std::vector<const char*> names = {"fp32", "widened"};
  forms.emplace_back(cpu::best_isa(), cpu::Weights::kF32, widths, rows);
  forms.emplace_back(cpu::best_isa(), cpu::Weights::kBf16, widths, rows);
  const std::tuple<cpu::Isa, cpu::Weights, const char*> own[] = {
      {cpu::Isa::kAvx512Bf16, cpu::Weights::kBf16, "bf16"},
      {cpu::Isa::kAvx512Vnni, cpu::Weights::kInt8, "int8"},
      {cpu::Isa::kAmx, cpu::Weights::kBf16, "amx bf16"},
      {cpu::Isa::kAmx, cpu::Weights::kInt8, "amx int8"}};
  for (const auto& [isa, as, form] : own) {
    if (!cpu::isa_supported(isa) || (isa == cpu::Isa::kAmx && !cpu::ask_for_tiles())) continue;
    names.push_back(form);
    forms.emplace_back(isa, as, widths, rows);
  }
  std::vector<std::function<void()>> runs;
  for (Stack& s : forms) runs.emplace_back([&s, rows] { s.run(rows); });
  for (const bool int8 : {false, true}) {
    if (auto peer = dpi::bench::onednn_layers(widths, rows, int8)) {
      runs.push_back(std::move(peer));
      names.push_back(int8 ? "oneDNN int8" : "oneDNN bf16");
    }
  }
  std::vector<std::vector<double>> times(runs.size());
  double once = thread_seconds();
  runs[0]();
  runs[0]();
  once = (thread_seconds() - once) / 2;
  const int calls = std::max(1, static_cast<int>(3e-4 / once));
  for (int i = 0; i < repeats; ++i) {
    for (size_t f = 0; f < runs.size(); ++f) {
      runs[f]();
      const double from = thread_seconds();
      for (int j = 0; j < calls; ++j) runs[f]();
      times[f].push_back((thread_seconds() - from) / calls);
    }
  }
  const double plain = median(&times[0]);
  std::printf("%-12s %5lld rows  fp32 %9.2f us", name.c_str(), static_cast<long long>(rows), plain * 1e6);
  for (size_t f = 1; f < runs.size(); ++f) {
    const double t = median(&times[f]);
    std::printf("   %s %9.2f us %5.2f x", names[f], t * 1e6, plain / t);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 51;
  const std::pair<const char*, std::vector<int64_t>> stacks[] = {{"16-1", {16, 1}},
                                                                 {"64-32", {429, 64, 32, 1}},
                                                                 {"400-16", {400, 16}},
                                                                 {"3x256", {429, 256, 256, 256}},
                                                                 {"3x1024", {429, 1024, 1024, 1024}},
                                                                 {"cross 624", {624, 624, 624}}};
  for (const auto& s : stacks) {
    for (const int64_t rows : {1, 4, 16, 64, 512}) measure(s.first, s.second, rows, repeats);
  }
  return 0;
}
