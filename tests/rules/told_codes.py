"""Every call of the CUDA runtime in the backend's device layer goes through told(), which takes a failure out of the runtime's memory: left
there, cudaGetLastError gives it to whoever asks next. The kernels' launches do the same in kernels/cuda/common/simt.hpp."""

import re

from common import CXX, files, read, strip_cxx

PLACES = ("sdk/src/backend/cuda/layer/", "kernels/cuda/")
CALL = re.compile(r"(\btold\(\s*(?:static_cast<int>\(\s*)?)?\b(?:::)?(cuda[A-Z]\w*)\(")
# Texts and the taking itself; of a device, not of the host.
FREE = {"cudaGetErrorName", "cudaGetErrorString", "cudaGetLastError", "cudaGridDependencySynchronize"}
# Whose code is passed to told() by the function they stand in.
LATER = {"kernels/cuda/common/simt.hpp", "kernels/cuda/small_batch/launch.cu"}


def check(root):
    found = []
    for path in files(root, PLACES, CXX + (".cu",)):
        text = strip_cxx(read(root, path))
        if path in LATER:
            if "told(" not in text and CALL.search(text):
                found.append(f"{path}: calls the CUDA runtime and never told()")
            continue
        for match in CALL.finditer(text):
            if not match.group(1) and match.group(2) not in FREE:
                found.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(2)} without told()")
    return found


PLANTED = [
    ("sdk/src/backend/cuda/layer/a.cpp", "int f() { return cudaDeviceSynchronize(); }\n", "a.cpp:1: cudaDeviceSynchronize without told()"),
    ("kernels/cuda/ops/a.cu", "int f() {\n  return told(g(cudaFree(p)));\n}\n", "a.cu:2: cudaFree without"),
    ("kernels/cuda/common/simt.hpp", "int f() { return cudaLaunchKernelEx(&c, k); }\n", "never told()"),
]
CLEAN = [
    ("sdk/src/backend/cuda/layer/a.cpp", "int f() { return told(cudaFree(p)); }\n// cudaFree(p)\nauto t = cudaGetErrorString(e);\n"),
    ("kernels/cuda/ops/a.cu", "int f() { return told(static_cast<int>(cudaFree(p))); }\n"),
]
