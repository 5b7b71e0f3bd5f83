/* python.i - the Python part of bindings/dpi.i: the extension dpi._native. Every function of the C API one to one, pointers as integer
 * addresses (or None; bytes and bytearray where memory is read or filled), a dpi_error as an exception, a handle that a function makes as
 * its result. Texts are str or bytes. The GIL is released around every call but those on rows and small ones. Beside them the
 * hand-written calls over arrays, src/predict.h, src/batcher.h, src/raw.h and src/table.h.
 */
%{
#define SWIG_PYTHON_STRICT_BYTE_CHAR
#include "python/src/call.h"
#include "python/src/predict.h"
#include "python/src/batcher.h"
#include "python/src/raw.h"
#include "python/src/table.h"
%}

%apply int { int32_t, dpi_status };
%apply unsigned int { uint32_t };
%apply long long { int64_t };
%apply unsigned long long { uint64_t, size_t };

%define DPI_ADDRESS(TYPE)
%typemap(in) TYPE (void *address = NULL) {
  if (!dpi_py_address($input, &address)) SWIG_fail;
  $1 = ($1_ltype)(uintptr_t)address;
}
%typemap(out) TYPE "$result = PyLong_FromVoidPtr((void *)(uintptr_t)$1);"
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
DPI_ADDRESS(const float *)
DPI_ADDRESS(const int64_t *)
DPI_ADDRESS(uint64_t *)
DPI_ADDRESS(const volatile int32_t *)
DPI_ADDRESS(size_t *)
DPI_ADDRESS(dpi_completion_fn)
DPI_ADDRESS(dpi_log_fn)
DPI_ADDRESS(dpi_progress_fn)
DPI_ADDRESS(dpi_alloc_fn)
DPI_ADDRESS(dpi_free_fn)

%typemap(in) const char * "if (!dpi_py_text($input, (const char **)&$1)) SWIG_fail;"
%typemap(freearg) const char * ""
%typemap(out) const char * "$result = $1 == NULL ? (Py_INCREF(Py_None), Py_None) : PyUnicode_DecodeUTF8($1, (Py_ssize_t)strlen($1), \"replace\");"

%typemap(in, numinputs=0) dpi_error *error (dpi_error failed = DPI_ERROR_INIT) "$1 = &failed;"
%typemap(argout) dpi_error *error {
  if ($1->code != DPI_OK) {
    Py_CLEAR($result);
    dpi_py_raise($1);
    SWIG_fail;
  }
}
%typemap(out) dpi_status "Py_INCREF(Py_None); $result = Py_None;"

%define DPI_MADE(TYPE)
%typemap(in, numinputs=0) TYPE **out (TYPE *made = NULL) "$1 = &made;"
%typemap(argout) TYPE **out "Py_XSETREF($result, PyLong_FromVoidPtr(*$1));"
%enddef
DPI_MADE(dpi_env)
DPI_MADE(dpi_model)
DPI_MADE(dpi_context)
DPI_MADE(dpi_rows)
DPI_MADE(dpi_endpoint)
DPI_MADE(dpi_batcher)

/* Short calls, and those on an object that one thread uses at a time: another thread does not get in between. */
%nothread dpi_version;
%nothread dpi_batcher_fd;
%nothread dpi_batcher_cancel;
%nothread dpi_status_name;
%nothread dpi_options_create;
%nothread dpi_options_set;
%nothread dpi_options_set_env;
%nothread dpi_options_set_progress;
%nothread dpi_options_free;
%nothread dpi_model_retain;
%nothread dpi_model_get_info;
%nothread dpi_model_get_feature;
%nothread dpi_model_feature_index;
%nothread dpi_model_feature_name;
%nothread dpi_model_head_name;
%nothread dpi_table_dim;
%nothread dpi_rows_create;
%nothread dpi_rows_clear;
%nothread dpi_rows_begin;
%nothread dpi_rows_begin_shared;
%nothread dpi_rows_set_text;
%nothread dpi_rows_set_number;
%nothread dpi_rows_set_integer;
%nothread dpi_rows_set_unsigned;
%nothread dpi_rows_add_text;
%nothread dpi_rows_add_integers;
%nothread dpi_rows_set_ids;
%nothread dpi_rows_set_floats;
%nothread dpi_rows_get_batch;
%nothread dpi_rows_count;

%native(dpi_py_setup) PyObject *dpi_py_setup(PyObject *, PyObject *);
%native(dpi_py_cell_make) PyObject *dpi_py_cell_make(PyObject *, PyObject *);
%native(dpi_py_cell_retain) PyObject *dpi_py_cell_retain(PyObject *, PyObject *);
%native(dpi_py_cell_close) PyObject *dpi_py_cell_close(PyObject *, PyObject *);
%native(dpi_py_cell_free) PyObject *dpi_py_cell_free(PyObject *, PyObject *);
%native(dpi_py_cell_sizes) PyObject *dpi_py_cell_sizes(PyObject *, PyObject *);
%native(dpi_py_predict) PyObject *dpi_py_predict(PyObject *, PyObject *);
%native(dpi_py_batcher_predict) PyObject *dpi_py_batcher_predict(PyObject *, PyObject *);
%native(dpi_py_batcher_submit) PyObject *dpi_py_batcher_submit(PyObject *, PyObject *);
%native(dpi_py_batcher_rows) PyObject *dpi_py_batcher_rows(PyObject *, PyObject *);
%native(dpi_py_batcher_poll) PyObject *dpi_py_batcher_poll(PyObject *, PyObject *);
%native(dpi_py_table_lookup) PyObject *dpi_py_table_lookup(PyObject *, PyObject *);
%native(dpi_py_rows_predict) PyObject *dpi_py_rows_predict(PyObject *, PyObject *);
%native(dpi_py_rows_fill) PyObject *dpi_py_rows_fill(PyObject *, PyObject *);
%native(dpi_py_rows_set) PyObject *dpi_py_rows_set(PyObject *, PyObject *);
%native(dpi_py_rows_arrays) PyObject *dpi_py_rows_arrays(PyObject *, PyObject *);
