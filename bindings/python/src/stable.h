/* stable.h - what the other headers here use, where Python's stable ABI of version 3.9 is asked for
 * (Py_LIMITED_API): one extension for every CPython from 3.9 on. Functions in place of macros, and what the
 * interpreter exports under that version though its headers hide it until 3.10 and 3.11. */
#ifndef DPI_PYTHON_STABLE_H
#define DPI_PYTHON_STABLE_H
#include <Python.h>

#if defined(Py_LIMITED_API)
#define PyBytes_AS_STRING PyBytes_AsString
#define PyBytes_GET_SIZE PyBytes_Size
#define PyByteArray_AS_STRING PyByteArray_AsString
#define PyFloat_AS_DOUBLE PyFloat_AsDouble
#define PyList_SET_ITEM PyList_SetItem
#ifndef PyList_GET_ITEM
#define PyList_GET_ITEM PyList_GetItem
#endif
#ifndef PyList_GET_SIZE
#define PyList_GET_SIZE PyList_Size
#endif
#ifndef PyTuple_GET_ITEM
#define PyTuple_GET_ITEM PyTuple_GetItem
#endif
#ifndef PyTuple_GET_SIZE
#define PyTuple_GET_SIZE PyTuple_Size
#endif
#define Py_XSETREF(place, value)    \
  do {                              \
    PyObject* dpi_py_old = (place); \
    (place) = (value);              \
    Py_XDECREF(dpi_py_old);         \
  } while (0)

#if Py_LIMITED_API + 0 < 0x030A0000
/* A function of 3.3; part of the stable ABI since 3.10. */
PyAPI_FUNC(const char*) PyUnicode_AsUTF8AndSize(PyObject* unicode, Py_ssize_t* size);
#endif

#if Py_LIMITED_API + 0 < 0x030B0000
/* The buffer protocol became part of the stable ABI in 3.11 as it had been since 3.3: 3.9 and 3.10 have the
 * same struct, the same numbers and the same functions. */
typedef struct {
  void* buf;
  PyObject* obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char* format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void* internal;
} Py_buffer;
#define PyBUF_WRITABLE 0x1
#define PyBUF_FORMAT 0x4
#define PyBUF_ND 0x8
#define PyBUF_STRIDES (0x10 | PyBUF_ND)
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject* object, Py_buffer* view, int flags);
PyAPI_FUNC(int) PyBuffer_IsContiguous(const Py_buffer* view, char order);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer* view);
PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject* object);
#endif
#endif

/* The first `n` items of a tuple, borrowed. */
static PyObject* const* dpi_py_items(PyObject* tuple, Py_ssize_t n, PyObject** room) {
  for (Py_ssize_t i = 0; i < n; i++) room[i] = PyTuple_GET_ITEM(tuple, i);
  return room;
}
#endif
