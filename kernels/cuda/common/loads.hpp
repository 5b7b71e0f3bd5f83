// Loads and stores of 4, 8 and 16 bytes at once, with the cache hints that reading rows of tables wants:
// memory that this launch does not write, past L1, 64 bytes at a time into L2. Addresses are multiples of the
// size. The emulation has no caches: there a hint is a plain load.
#pragma once

#include "kernels/cuda/common/simt.hpp"

namespace dpi::kernels::cuda {

/// Which hint a table row is read with.
enum class RowHint : int32_t {
  kStream = 0,  // not into L1, 64 bytes into L2
  kPlain = 1,   // as any other load
  kKeep = 2,    // kStream, and L2 evicts it last
};

/// In front of a loop over rare cases: one copy of its body, so that it takes few registers.
#ifdef __CUDACC__
#define DPI_ROLLED _Pragma("unroll 1")
/// A function for rare cases that stays a call.
#define DPI_COLD __noinline__
#else
#define DPI_ROLLED
#define DPI_COLD inline
#endif

/// Instead of a RowHint: of memory that other kernels write meanwhile. Past L1, in the order of the program.
struct FreshRead {};
/// Instead of a RowHint: of memory that this launch writes too, each element by the thread that reads it.
struct OwnRead {};

struct alignas(16) Word4 {
  uint32_t w[4];
};

#ifdef __CUDACC__

__device__ __forceinline__ uint64_t keep_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ uint32_t load4(const void* p, RowHint hint) {
  uint32_t v;
  if (hint == RowHint::kPlain) return __ldg(static_cast<const unsigned*>(p));
  if (hint == RowHint::kKeep) {
    asm("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::64B.u32 %0, [%1], %2;"
        : "=r"(v)
        : "l"(p), "l"(keep_policy()));
    return v;
  }
  asm("ld.global.nc.L1::no_allocate.L2::64B.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

__device__ __forceinline__ void load8(const void* p, RowHint hint, uint32_t* v) {
  if (hint == RowHint::kPlain) {
    const uint2 x = __ldg(static_cast<const uint2*>(p));
    v[0] = x.x;
    v[1] = x.y;
  } else if (hint == RowHint::kKeep) {
    asm("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::64B.v2.u32 {%0, %1}, [%2], %3;"
        : "=r"(v[0]), "=r"(v[1])
        : "l"(p), "l"(keep_policy()));
  } else {
    asm("ld.global.nc.L1::no_allocate.L2::64B.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "l"(p));
  }
}

__device__ __forceinline__ void load16(const void* p, RowHint hint, uint32_t* v) {
  if (hint == RowHint::kPlain) {
    const float4 x = __ldg(static_cast<const float4*>(p));
    v[0] = __float_as_uint(x.x);
    v[1] = __float_as_uint(x.y);
    v[2] = __float_as_uint(x.z);
    v[3] = __float_as_uint(x.w);
  } else if (hint == RowHint::kKeep) {
    asm("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::64B.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
        : "l"(p), "l"(keep_policy()));
  } else {
    asm("ld.global.nc.L1::no_allocate.L2::64B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
        : "l"(p));
  }
}

__device__ __forceinline__ void load8(const void* p, OwnRead, uint32_t* v) {
  const uint2 x = *static_cast<const uint2*>(p);
  v[0] = x.x;
  v[1] = x.y;
}

__device__ __forceinline__ void load16(const void* p, OwnRead, uint32_t* v) {
  const uint4 x = *static_cast<const uint4*>(p);
  v[0] = x.x;
  v[1] = x.y;
  v[2] = x.z;
  v[3] = x.w;
}

__device__ __forceinline__ void store16(void* p, const Word4& v) { *static_cast<Word4*>(p) = v; }
/// One instruction whatever stands around it: among other stores a compiler leaves that of a struct in
/// pieces.
__device__ __forceinline__ void store16(void* p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
__device__ __forceinline__ void store8(void* p, uint32_t low, uint32_t high) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(low), "r"(high) : "memory");
}

/// A store of what is not read again before L2 has seen as much as it holds: it is the first to leave L2.
__device__ __forceinline__ void store16_streaming(void* p, const Word4& v) {
  __stcs(static_cast<uint4*>(p), make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]));
}

/// 16 bytes of a kernel's arguments, each lane its own, read here and not where they are used. By a generic
/// load, which brings what lies together at once: the load of arguments (ld.param) takes the lanes' addresses
/// one after another.
__device__ __forceinline__ Word4 load16_argument(const void* p) {
  Word4 v;
  asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(p));
  return v;
}

/// 16 bytes of shared memory, read here and not where the compiler would rather have it, behind a branch.
__device__ __forceinline__ Word4 load16_shared(const void* p) {
  Word4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(p))));
  return v;
}

/// `p`, which came out of memory, as the compiler is to know it: an address in global memory.
template <class T>
__device__ __forceinline__ const T* in_global(const T* p) {
  __builtin_assume(__isGlobal(p));
  return p;
}

__device__ __forceinline__ uint32_t load4(const void* p, FreshRead) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ void load8(const void* p, FreshRead, uint32_t* v) {
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "l"(p) : "memory");
}

__device__ __forceinline__ void load16(const void* p, FreshRead, uint32_t* v) {
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "l"(p)
               : "memory");
}

/// A word of which an older value will do, until this kernel is over.
__device__ __forceinline__ uint32_t load_word(const uint32_t* p) { return *p; }
/// Four tags of a row cache, and one as it is published.
__device__ __forceinline__ void load_tags(const uint32_t* p, uint32_t* v) {  // pairs with store_tag
  asm volatile("ld.acquire.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "l"(p)
               : "memory");
}
__device__ __forceinline__ void store_tag(uint32_t* p, uint32_t v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

#else

// Typed accesses, not memcpy, so that UBSan sees an address that is not aligned; may_alias, because the
// memory holds other types than those asked for.
struct __attribute__((may_alias, aligned(4))) Alias4 {
  uint32_t w;
};
struct __attribute__((may_alias, aligned(8))) Alias8 {
  uint32_t w[2];
};
struct __attribute__((may_alias, aligned(16))) Alias16 {
  uint32_t w[4];
};

inline uint32_t load4(const void* p, RowHint) { return static_cast<const Alias4*>(p)->w; }
inline void load8(const void* p, RowHint, uint32_t* v) {
  const Alias8 x = *static_cast<const Alias8*>(p);
  for (int i = 0; i < 2; ++i) v[i] = x.w[i];
}
inline void load16(const void* p, RowHint, uint32_t* v) {
  const Alias16 x = *static_cast<const Alias16*>(p);
  for (int i = 0; i < 4; ++i) v[i] = x.w[i];
}
inline void store16(void* p, const Word4& v) {
  Alias16 x;
  for (int i = 0; i < 4; ++i) x.w[i] = v.w[i];
  *static_cast<Alias16*>(p) = x;
}
inline void store16_streaming(void* p, const Word4& v) { store16(p, v); }
inline Word4 load16_argument(const void* p) {
  Word4 v;
  load16(p, RowHint::kPlain, v.w);
  return v;
}
inline Word4 load16_shared(const void* p) { return load16_argument(p); }
template <class T>
const T* in_global(const T* p) {
  return p;
}
inline void store16(void* p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) { store16(p, {{a, b, c, d}}); }
inline void store8(void* p, uint32_t low, uint32_t high) { *static_cast<Alias8*>(p) = {{low, high}}; }

inline void load8(const void* p, OwnRead, uint32_t* v) { load8(p, RowHint::kPlain, v); }
inline void load16(const void* p, OwnRead, uint32_t* v) { load16(p, RowHint::kPlain, v); }

inline uint32_t load4(const void* p, FreshRead) { return load4(p, RowHint::kPlain); }
inline void load8(const void* p, FreshRead, uint32_t* v) { load8(p, RowHint::kPlain, v); }
inline void load16(const void* p, FreshRead, uint32_t* v) { load16(p, RowHint::kPlain, v); }
// The order that the device has from L2 and from the ends of kernels.
inline uint32_t load_word(const uint32_t* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
inline void load_tags(const uint32_t* p, uint32_t* v) {
  for (int i = 0; i < 4; ++i) v[i] = __atomic_load_n(p + i, __ATOMIC_ACQUIRE);
}
inline void store_tag(uint32_t* p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

#endif

}  // namespace dpi::kernels::cuda
