// Chooses an instruction set, and defines the functions of dpi::kernels::cpu that <dpi/kernels/*.hpp>
// declares: each calls its form for the widest set this processor has.
#include <cstring>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/tile_permission.hpp"

namespace dpi::kernels::cpu {

namespace {

#define DPI_CPU_FIELD(result, name, params) .name = DPI_CPU_SET::name,
#define DPI_CPU_SET scalar
constexpr Functions kScalarFunctions = {DPI_CPU_FUNCTIONS(DPI_CPU_FIELD)};
#undef DPI_CPU_SET
#define DPI_CPU_REPLACE(result, name, params) f.name = DPI_CPU_SET::name;
#if defined(__x86_64__)
#define DPI_CPU_SET avx2
constexpr Functions kAvx2Functions = {DPI_CPU_FUNCTIONS(DPI_CPU_FIELD)};
#undef DPI_CPU_SET
#define DPI_CPU_SET avx512
constexpr Functions kAvx512Functions = {DPI_CPU_FUNCTIONS(DPI_CPU_FIELD)};
#undef DPI_CPU_SET
#define DPI_CPU_SET avx512_bf16
constexpr Functions with_bf16(Functions f) {
  DPI_CPU_BF16_FUNCTIONS(DPI_CPU_REPLACE)
  return f;
}
#undef DPI_CPU_SET
#define DPI_CPU_SET avx512_vnni
constexpr Functions with_int8(Functions f) {
  DPI_CPU_INT8_FUNCTIONS(DPI_CPU_REPLACE)
  return f;
}
#undef DPI_CPU_SET
#define DPI_CPU_SET amx
constexpr Functions with_amx(Functions f) {
  DPI_CPU_BF16_FUNCTIONS(DPI_CPU_REPLACE)
  DPI_CPU_INT8_FUNCTIONS(DPI_CPU_REPLACE)
  return f;
}
#undef DPI_CPU_SET
constexpr Functions kAvx512Bf16Functions = with_bf16(kAvx512Functions);
constexpr Functions kAvx512VnniFunctions = with_int8(kAvx512Functions);
constexpr Functions kAmxFunctions = with_amx(kAvx512Functions);
#elif defined(__aarch64__)
#define DPI_CPU_SET neon
constexpr Functions kNeonFunctions = {DPI_CPU_FUNCTIONS(DPI_CPU_FIELD)};
#undef DPI_CPU_SET
#define DPI_CPU_SET neon_dot
constexpr Functions with_dot(Functions f) {
  DPI_CPU_INT8_FUNCTIONS(DPI_CPU_REPLACE)
  return f;
}
#undef DPI_CPU_SET
#define DPI_CPU_SET neon_mmla
constexpr Functions with_mmla(Functions f) {
  DPI_CPU_BF16_FUNCTIONS(DPI_CPU_REPLACE)
  DPI_CPU_INT8_FUNCTIONS(DPI_CPU_REPLACE)
  return f;
}
#undef DPI_CPU_SET
constexpr Functions kNeonDotFunctions = with_dot(kNeonFunctions);
constexpr Functions kNeonMmlaFunctions = with_mmla(kNeonFunctions);
#endif
#undef DPI_CPU_REPLACE
#undef DPI_CPU_FIELD

const Functions& best() {
  static const Functions& kBest = functions(best_isa());
  return kBest;
}

// Asked for while the library is loaded: no thread can fork in the middle of the first time.
[[maybe_unused]] const Functions& g_best = best();

}  // namespace

const char* isa_name(Isa isa) {
  constexpr const char* kNames[] = {"scalar", "avx2", "avx512",   "avx512_bf16", "avx512_vnni",
                                    "amx",    "neon", "neon_dot", "neon_mmla"};
  return kNames[static_cast<int>(isa)];
}

#if defined(__x86_64__)
bool isa_supported(Isa isa) {
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (isa == Isa::kScalar) return true;
  if (isa >= Isa::kNeon) return false;
  if (isa == Isa::kAvx2) return avx2;
  if ((isa == Isa::kAvx512Vnni || isa == Isa::kAmx) && !__builtin_cpu_supports("avx512vnni")) return false;
  if (isa == Isa::kAmx && !processor_has_tiles()) return false;
  if ((isa == Isa::kAvx512Bf16 || isa == Isa::kAmx) && !__builtin_cpu_supports("avx512bf16")) return false;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const Functions& functions(Isa isa) {
  if (isa == Isa::kAmx) return kAmxFunctions;
  if (isa == Isa::kAvx512Bf16) return kAvx512Bf16Functions;
  if (isa == Isa::kAvx512Vnni) return kAvx512VnniFunctions;
  if (isa == Isa::kAvx512) return kAvx512Functions;
  return isa == Isa::kAvx2 ? kAvx2Functions : kScalarFunctions;
}
#elif defined(__aarch64__)
bool isa_supported(Isa isa) {
  constexpr unsigned long kMatrices = HWCAP2_I8MM | HWCAP2_BF16;
  if (isa == Isa::kNeonDot) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (isa == Isa::kNeonMmla) return (getauxval(AT_HWCAP2) & kMatrices) == kMatrices;
  return isa == Isa::kScalar || isa == Isa::kNeon;
}

const Functions& functions(Isa isa) {
  if (isa == Isa::kNeonDot) return kNeonDotFunctions;
  if (isa == Isa::kNeonMmla) return kNeonMmlaFunctions;
  return isa == Isa::kNeon ? kNeonFunctions : kScalarFunctions;
}
#else
bool isa_supported(Isa isa) { return isa == Isa::kScalar; }

const Functions& functions(Isa) { return kScalarFunctions; }
#endif

Isa best_isa(Weights weights) {
  if (weights == Weights::kInt8 && isa_supported(Isa::kAvx512Vnni)) return Isa::kAvx512Vnni;
  if (weights == Weights::kBf16 && isa_supported(Isa::kAvx512Bf16)) return Isa::kAvx512Bf16;
  if (weights != Weights::kF32 && isa_supported(Isa::kNeonMmla)) return Isa::kNeonMmla;
  if (weights == Weights::kInt8 && isa_supported(Isa::kNeonDot)) return Isa::kNeonDot;
  if (isa_supported(Isa::kNeon)) return Isa::kNeon;
  if (isa_supported(Isa::kAvx512)) return Isa::kAvx512;
  return isa_supported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar;
}

void multi_lookup(const MultiLookupArgs& a) {
  const int64_t spare =
      spare_floats(a.attrs, a.out.data != nullptr, [&a](int32_t table) { return a.tables[table].dim; });
  best().multi_lookup_fits(a.attrs, spare) ? best().multi_lookup(a) : ref::multi_lookup(a);
}

void softmax(const SoftmaxArgs& a) { softmax_is_plain(a) ? best().softmax(a) : ref::softmax(a); }

bool softmax_is_plain(const SoftmaxArgs& a) {
  if (a.attrs.axis != a.x.dims.rank - 1) return false;
  return a.attrs.mask_mode == SoftmaxMask::kNone || a.mask.dims.at(-1) == a.x.dims.at(-1);
}

void concat(const ConcatArgs& a) { best().concat(a); }
void view(const ViewArgs& a) { best().view(a); }
void broadcast_rows(const BroadcastRowsArgs& a) { best().broadcast_rows(a); }
void embed(const EmbedArgs& a) { best().embed(a); }
void elementwise(const ElementwiseArgs& a) { best().elementwise(a); }
void unary(const UnaryArgs& a) { best().unary(a); }
void binary(const BinaryArgs& a) { best().binary(a); }
void where(const WhereArgs& a) { best().where(a); }
void cross_v1(const CrossV1Args& a) { best().cross_v1(a); }
void cross_v1_closed(const CrossV1ClosedArgs& a) { best().cross_v1_closed(a); }
void fm(const FmArgs& a) { best().fm(a); }
void tail(const TailArgs& a) { best().tail(a); }
void co_action(const CoActionArgs& a) { best().co_action(a); }
void cin(const CinArgs& a) { best().cin(a); }
void layer_norm(const LayerNormArgs& a) { best().layer_norm(a); }
void reduce(const ReduceArgs& a) { best().reduce(a); }
void matmul(const MatMulArgs& a) { best().matmul(a); }
void linear(const LinearArgs& a) { best().linear(a); }

}  // namespace dpi::kernels::cpu
