// Thread-local variables of a library that may be opened with dlopen. By default a thread's first look at one
// takes the library's block of them from malloc, and where there is no memory the loader ends the process.
// With this mark the block has its place in every thread from the moment the library is opened. There is
// little room for such blocks (about 1.6 KB for all libraries of a process), so they stay small.
#pragma once

#define DPI_STATIC_TLS __attribute__((tls_model("initial-exec")))
