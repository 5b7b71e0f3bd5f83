/* dpi.i - SWIG interface over the headers <dpi/*.h> for Java, Go and Python: the whole C API, one to one, as the layer below the packages
 * org.dpiframe, dpiframe.org/dpi and dpi. All see every C pointer as an address. Java: `long`, whatever it points
 * to. Go: uintptr for handles, structs and C memory; a typed pointer (*byte, *float32, *int64, ...) where Go memory may be
 * handed over. Python: int, see python/python.i. Integers keep their width: int32_t is int / int32, int64_t, uint64_t and size_t
 * are long / (u)int64. No proxy class is made; structs are read and written through the offsets at the end of this file.
 *
 *   swig -java -package org.dpiframe.internal -I<include> ...     -> DpiNative, DpiNativeJNI, DpiNativeConstants
 *   swig -go -cgo -intgosize 64 -package native -I<include> ...   -> native.go and its C wrapper
 *   swig -python -noproxy -I<include> -I<bindings> ...            -> the extension dpi._native
 */
#if defined(SWIGJAVA)
%module DpiNative
#elif defined(SWIGPYTHON)
%module(package="dpi", threads="1") _native
#else
%module native
#endif

%{
#include <dpi/dpi.h>
#include <dpi/batcher.h>
#include <dpi/endpoint.h>
#include <dpi/metrics.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
%}

/* stdint.i is not used: it makes int64_t an `int` (Java with SWIGWORDSIZE64) or uint64_t a BigInteger (without). */
typedef int int32_t;
typedef unsigned int uint32_t;

/* ---- Java ------------------------------------------------------------------------------------------------ */
#if defined(SWIGJAVA)
%apply int { int32_t, dpi_status };
%apply unsigned int { uint32_t };
%apply long long { int64_t, uint64_t, size_t };

%pragma(java) jniclassclassmodifiers="final class"
%pragma(java) moduleclassmodifiers="public final class"

%define DPI_ADDRESS(TYPE)
%typemap(jni) TYPE "jlong"
%typemap(jtype) TYPE "long"
%typemap(jstype) TYPE "long"
%typemap(javain) TYPE "$javainput"
%typemap(javaout) TYPE "{ return $jnicall; }"
%typemap(in) TYPE "$1 = ($1_ltype)(intptr_t)$input;"
%typemap(out) TYPE "$result = (jlong)(intptr_t)$1;"
%typemap(argout) TYPE ""
%typemap(freearg) TYPE ""
%enddef
DPI_ADDRESS(SWIGTYPE *)
DPI_ADDRESS(SWIGTYPE **)
DPI_ADDRESS(char *)
DPI_ADDRESS(void *)
DPI_ADDRESS(float *)
DPI_ADDRESS(int32_t *)
DPI_ADDRESS(int64_t *)
DPI_ADDRESS(uint64_t *)
DPI_ADDRESS(dpi_completion_fn)
DPI_ADDRESS(size_t *)
DPI_ADDRESS(dpi_log_fn)
DPI_ADDRESS(dpi_progress_fn)
DPI_ADDRESS(dpi_alloc_fn)
DPI_ADDRESS(dpi_free_fn)

/* Memory and buffers. The environment is not a parameter in Java. */
%typemap(in, numinputs=0) JNIEnv *jenv "$1 = jenv;"
%typemap(jtype) jobject buffer "java.nio.Buffer"
%typemap(jstype) jobject buffer "java.nio.Buffer"
%typemap(jtype) jobject dpi_java_buffer_over "java.nio.ByteBuffer"
%typemap(jstype) jobject dpi_java_buffer_over "java.nio.ByteBuffer"
%inline %{
/* Address of a direct buffer's first byte (position 0); 0 for null and for a buffer that is not direct. */
static int64_t dpi_java_buffer_address(JNIEnv *jenv, jobject buffer) {
  return buffer == NULL ? 0 : (int64_t)(intptr_t)(*jenv)->GetDirectBufferAddress(jenv, buffer);
}
/* A direct buffer (big-endian until .order(nativeOrder())) over `size` bytes at `address`, which it does not own. */
static jobject dpi_java_buffer_over(JNIEnv *jenv, int64_t address, int64_t size) {
  return address == 0 ? NULL : (*jenv)->NewDirectByteBuffer(jenv, (void *)(intptr_t)address, (jlong)size);
}
/* Zeroed memory that dpi_java_release frees; 0 when there is none. */
static int64_t dpi_java_allocate(int64_t size) {
  return size < 0 ? 0 : (int64_t)(intptr_t)calloc(1, size == 0 ? 1 : (size_t)size);
}
static void dpi_java_release(int64_t address) { free((void *)(intptr_t)address); }
/* Bytes before the NUL of the text at `address`; 0 for address 0. */
static int64_t dpi_java_text_length(int64_t address) {
  return address == 0 ? 0 : (int64_t)strlen((const char *)(intptr_t)address);
}
%}
%javaconst(1);
#endif

/* ---- Go -------------------------------------------------------------------------------------------------- */
#if defined(SWIGGO)
%define DPI_GO(TYPE, GOTYPE)
%typemap(gotype) TYPE "GOTYPE"
%typemap(in) TYPE "$1 = ($1_ltype)$input;"
%typemap(out) TYPE "$result = ($1_ltype)$1;"
%enddef
DPI_GO(int32_t, int32)
DPI_GO(dpi_status, int32)
DPI_GO(uint32_t, uint32)
DPI_GO(int64_t, int64)
DPI_GO(uint64_t, uint64)
DPI_GO(size_t, uint64)
DPI_GO(double, float64)
DPI_GO(float, float32)

/* C memory: an address, which Go's collector does not look at. */
%define DPI_ADDRESS(TYPE)
%typemap(gotype) TYPE "uintptr"
%typemap(in) TYPE "$1 = ($1_ltype)(uintptr_t)$input;"
%typemap(out) TYPE "*(uintptr_t *)&$result = (uintptr_t)$1;"
%typemap(argout) TYPE ""
%typemap(freearg) TYPE ""
%enddef
DPI_ADDRESS(SWIGTYPE *)
DPI_ADDRESS(dpi_completion_fn)
DPI_ADDRESS(dpi_log_fn)
DPI_ADDRESS(dpi_progress_fn)
DPI_ADDRESS(dpi_env *)
DPI_ADDRESS(dpi_memory_hooks *)
DPI_ADDRESS(void *user)
DPI_ADDRESS(const volatile int32_t *cancel)
DPI_ADDRESS(dpi_model *)
DPI_ADDRESS(dpi_options *)
DPI_ADDRESS(dpi_context *)
DPI_ADDRESS(dpi_rows *)
DPI_ADDRESS(dpi_endpoint *)
DPI_ADDRESS(const dpi_endpoint *)
DPI_ADDRESS(dpi_batcher *)
DPI_ADDRESS(const dpi_batcher *)
DPI_ADDRESS(dpi_completion *)
DPI_ADDRESS(uint64_t *)
DPI_ADDRESS(size_t *)
DPI_ADDRESS(dpi_batch *)
DPI_ADDRESS(dpi_error *)
DPI_ADDRESS(dpi_run_options *)
DPI_ADDRESS(dpi_model_info *)
DPI_ADDRESS(dpi_feature_info *)
DPI_ADDRESS(dpi_context_view *)

/* Go or C memory: a typed pointer, checked by cgo and kept alive during the call. */
%define DPI_POINTER(TYPE, GOTYPE)
%typemap(gotype) TYPE "GOTYPE"
%typemap(in) TYPE "$1 = ($1_ltype)$input;"
%typemap(out) TYPE "*($&1_ltype)&$result = ($1_ltype)$1;"
%typemap(argout) TYPE ""
%typemap(freearg) TYPE ""
%typemap(goargout) TYPE ""
%typemap(goout) TYPE "$result = $1"
%enddef
DPI_POINTER(char *, *byte)
DPI_POINTER(const char *, *byte)
DPI_POINTER(const void *bytes, *byte)
DPI_POINTER(float *, *float32)
DPI_POINTER(const float *, *float32)
DPI_POINTER(const int64_t *, *int64)
DPI_POINTER(int32_t *level, *int32)
DPI_POINTER(dpi_env **, *uintptr)
DPI_POINTER(dpi_model **, *uintptr)
DPI_POINTER(dpi_context **, *uintptr)
DPI_POINTER(dpi_rows **, *uintptr)
DPI_POINTER(dpi_endpoint **, *uintptr)
DPI_POINTER(dpi_batcher **, *uintptr)
DPI_POINTER(uint64_t *version, *uint64)
#endif

/* ---- Python ---------------------------------------------------------------------------------------------- */
#if defined(SWIGPYTHON)
%include "python/python.i"
#endif

/* ---- the header ------------------------------------------------------------------------------------------ */
%ignore dpi_error;
%ignore dpi_model_info;
%ignore dpi_feature_info;
%ignore dpi_batch;
%ignore dpi_memory_hooks;
%ignore dpi_run_options;
%ignore dpi_context_view;
%ignore dpi_completion;
%ignore DPI_COMPLETION_1_2_SIZE;
%ignore DPI_BATCH_1_0_SIZE;
%ignore DPI_ERROR_1_0_SIZE;
%ignore DPI_NODISCARD;
%ignore DPI_NOEXCEPT;
%ignore DPI_API;
%include <dpi/dpi.h>
%include <dpi/endpoint.h>
%include <dpi/batcher.h>
%include <dpi/metrics.h>

/* ---- sizes and offsets of the structs, as the wrapper's compiler sees them -------------------------------- */
#if defined(SWIGJAVA)
%javaconst(0);
#endif
%define DPI_SIZE(STRUCT)
%constant int SIZEOF_##STRUCT = sizeof(STRUCT);
%enddef
%define DPI_FIELD(STRUCT, FIELD)
%constant int OFFSET_##STRUCT##_##FIELD = offsetof(STRUCT, FIELD);
%enddef

DPI_SIZE(dpi_error)
DPI_FIELD(dpi_error, struct_size)
DPI_FIELD(dpi_error, code)
DPI_FIELD(dpi_error, row)
DPI_FIELD(dpi_error, feature)
DPI_FIELD(dpi_error, native_code)
DPI_FIELD(dpi_error, in_shared)
DPI_FIELD(dpi_error, message)
%constant int SIZEOF_dpi_error_message = sizeof(dpi_error) - offsetof(dpi_error, message);

DPI_SIZE(dpi_model_info)
DPI_FIELD(dpi_model_info, struct_size)
DPI_FIELD(dpi_model_info, num_features)
DPI_FIELD(dpi_model_info, num_slots)
DPI_FIELD(dpi_model_info, dense_dim)
DPI_FIELD(dpi_model_info, num_item_slots)
DPI_FIELD(dpi_model_info, num_shared_slots)
DPI_FIELD(dpi_model_info, item_dense_dim)
DPI_FIELD(dpi_model_info, shared_dense_dim)
DPI_FIELD(dpi_model_info, num_heads)
DPI_FIELD(dpi_model_info, device_kind)
DPI_FIELD(dpi_model_info, device_index)
DPI_FIELD(dpi_model_info, reserved)
DPI_FIELD(dpi_model_info, max_rows)
DPI_FIELD(dpi_model_info, host_bytes)
DPI_FIELD(dpi_model_info, device_bytes)
DPI_FIELD(dpi_model_info, content_digest)
DPI_FIELD(dpi_model_info, version)

DPI_SIZE(dpi_feature_info)
DPI_FIELD(dpi_feature_info, struct_size)
DPI_FIELD(dpi_feature_info, kind)
DPI_FIELD(dpi_feature_info, shared)
DPI_FIELD(dpi_feature_info, slot)
DPI_FIELD(dpi_feature_info, part_slot)
DPI_FIELD(dpi_feature_info, dense_column)
DPI_FIELD(dpi_feature_info, part_column)
DPI_FIELD(dpi_feature_info, dim)
DPI_FIELD(dpi_feature_info, vocab_size)
DPI_FIELD(dpi_feature_info, max_len)
DPI_FIELD(dpi_feature_info, has_encoder)
DPI_FIELD(dpi_feature_info, weighted)

DPI_SIZE(dpi_memory_hooks)
DPI_FIELD(dpi_memory_hooks, struct_size)
DPI_FIELD(dpi_memory_hooks, flags)
DPI_FIELD(dpi_memory_hooks, alloc)
DPI_FIELD(dpi_memory_hooks, free)
DPI_FIELD(dpi_memory_hooks, user)

DPI_SIZE(dpi_batch)
DPI_FIELD(dpi_batch, struct_size)
DPI_FIELD(dpi_batch, flags)
DPI_FIELD(dpi_batch, rows)
DPI_FIELD(dpi_batch, dense)
DPI_FIELD(dpi_batch, dense_stride)
DPI_FIELD(dpi_batch, ids)
DPI_FIELD(dpi_batch, offsets)
DPI_FIELD(dpi_batch, weights)
DPI_FIELD(dpi_batch, nnz)
DPI_FIELD(dpi_batch, layout)
DPI_FIELD(dpi_batch, memory)
DPI_FIELD(dpi_batch, shared_rows)
DPI_FIELD(dpi_batch, shared_offsets)
DPI_FIELD(dpi_batch, shared_dense)
DPI_FIELD(dpi_batch, shared_dense_stride)
DPI_FIELD(dpi_batch, shared_ids)
DPI_FIELD(dpi_batch, shared_bag_offsets)
DPI_FIELD(dpi_batch, shared_weights)
DPI_FIELD(dpi_batch, shared_nnz)

DPI_SIZE(dpi_run_options)
DPI_FIELD(dpi_run_options, struct_size)
DPI_FIELD(dpi_run_options, flags)
DPI_FIELD(dpi_run_options, deadline_ns)
DPI_FIELD(dpi_run_options, cancel)
DPI_FIELD(dpi_run_options, logits)
DPI_FIELD(dpi_run_options, logits_len)
DPI_FIELD(dpi_run_options, version)

DPI_SIZE(dpi_context_view)
DPI_FIELD(dpi_context_view, struct_size)
DPI_FIELD(dpi_context_view, reserved)
DPI_FIELD(dpi_context_view, max_rows)
DPI_FIELD(dpi_context_view, max_nnz)
DPI_FIELD(dpi_context_view, dense)
DPI_FIELD(dpi_context_view, ids)
DPI_FIELD(dpi_context_view, offsets)
DPI_FIELD(dpi_context_view, weights)
DPI_FIELD(dpi_context_view, out)

DPI_SIZE(dpi_completion)
DPI_FIELD(dpi_completion, struct_size)
DPI_FIELD(dpi_completion, status)
DPI_FIELD(dpi_completion, user)
DPI_FIELD(dpi_completion, ticket)
DPI_FIELD(dpi_completion, version)
DPI_FIELD(dpi_completion, queued_ns)
DPI_FIELD(dpi_completion, run_ns)
DPI_FIELD(dpi_completion, error)
