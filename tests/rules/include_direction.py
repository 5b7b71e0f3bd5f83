"""Includes point one way: bindings, samples -> capi -> sdk -> kernels; inside sdk/src a stage sees earlier stages only, and inside a stage a
room (a folder of it) earlier rooms only.

Third-party headers stay where they belong too, so that a change of library touches one folder."""

import re

from common import CXX, STAGES, files, read, strip_cxx

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)

# header prefix -> folders that may include it (tests may include anything)
THIRD_PARTY = {
    "hdf5": (),  # bundles are read by sdk/src/bundle/hdf5; the library is what tests compare it with
    "H5": (),
    "hiredis/": ("sdk/src/store/redis/",),  # what needs it is a plugin, so that the library does not
    "openssl/": ("sdk/src/store/redis/",),  # as hiredis
    "librdkafka/": ("sdk/src/runtime/stream/kafka/",),  # as hiredis
    "dnnl": ("sdk/src/backend/", "kernels/cpu/"),
    "oneapi/": ("sdk/src/backend/", "kernels/cpu/"),
    "CLI/": ("sdk/tools/",),
    # its parser only: values of its type have destructors that may need memory, which ends the host when there is none
    "nlohmann/": ("sdk/src/bundle/manifest/json_reader.cpp", "sdk/tools/"),
    "cuda": ("kernels/cuda/", "kernels/emu/", "sdk/src/backend/cuda/"),
    "rocksdb/": ("sdk/src/store/rocksdb/",),  # what needs it is a plugin, so that the library does not
    "cublas": ("kernels/cuda/", "kernels/emu/", "sdk/src/backend/cuda/"),
    "doctest": (),
    "benchmark/": (),
}

# Folder -> its rooms; each sees those before it. "" are the files that lie in the folder itself; where it is missing they are the door of the
# rooms: headers that all may include, above sources that include all.
ROOMS = {
    "sdk/src/backend/": ("abi", "ref", "cpu", "cuda", "cuda_emu"),
    "sdk/src/backend/cuda/": ("layer", "tuning", "gemm", "device", "small_batch", ""),
    "sdk/src/bundle/": ("hdf5", "manifest", "delta"),
    "sdk/src/plan/": ("analysis", "passes", "print"),
    "sdk/src/store/": ("", "abi", "redis", "rocksdb", "hot_keys", "tiered", "device_cache", "spread", "resident", "external", "host_tier"),
    "sdk/src/runtime/": ("options", "request", "record", "load", "engine", "execute", "model", "batch", "stream", "endpoint", "describe"),
    "sdk/tools/dpi/": ("shared", "csv", "commands", ""),
}


def check(root):
    found = []
    for path in files(root, ("kernels/", "sdk/", "capi/", "samples/", "bindings/"), CXX):
        for line, quote, header in includes(read(root, path)):
            reason = refuse(path, quote, header) or refuse_room(path, header)
            if reason:
                found.append(f"{path}:{line}: includes {header}: {reason}")
    return found


def includes(text):
    clean = strip_cxx(text, keep_strings=True)
    for match in INCLUDE.finditer(clean):
        yield clean.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def refuse(path, quote, header):
    for prefix, allowed in THIRD_PARTY.items():
        if header.startswith(prefix) and quote == "<" and not path.startswith(allowed):
            return f"allowed in {', '.join(allowed) or 'tests'} only"
    first = header.split("/")[0]
    is_stage = first in STAGES and "/" in header
    is_public = header.startswith("dpi/") and not header.startswith("dpi/kernels/")
    is_kernel = header.startswith("dpi/kernels/")
    if path.startswith(("samples/", "bindings/")) and (is_stage or is_kernel):
        return "samples and bindings use <dpi/dpi.h> only"
    if path.startswith("kernels/"):
        return "kernels know nothing of the sdk" if is_stage or is_public else refuse_kernel(path, header)
    if path.startswith("sdk/src/") and is_public:
        return "the sdk is below the C API"  # sdk/tools is above both
    if path.startswith("sdk/src/"):
        stage = path.split("/")[2]
        if is_stage and STAGES.index(first) > STAGES.index(stage):
            return f"stage '{stage}' comes before '{first}' ({' < '.join(STAGES)})"
        if first == "tools":
            return "tools are on top of the stages"
    return None


def refuse_kernel(path, header):
    backend = path.split("/")[1]
    for other in ("ref", "cpu", "cuda"):
        if header.startswith(other + "/") and backend in ("ref", "cpu") and other != backend:
            return f"the {backend} kernels stand alone"
    return None


def refuse_room(path, header):
    header = header if header.startswith("sdk/") else "sdk/src/" + header
    reasons = (refuse_room_of(folder, rooms, path, header) for folder, rooms in ROOMS.items() if path.startswith(folder))
    return next(filter(None, reasons), None)


def refuse_room_of(folder, rooms, path, header):
    own = room_of(path, folder)
    if own not in rooms and own != "":
        return f"room '{own}' of {folder} is in no list of ROOMS (tests/rules/include_direction.py)"
    other = room_of(header, folder) if header.startswith(folder) else own
    if own in rooms and other in rooms and rooms.index(other) > rooms.index(own):
        return f"room '{own}' comes before '{other}' ({' < '.join(room or folder for room in rooms)})"
    return None


def room_of(path, folder):
    rest = path[len(folder):]
    return rest.split("/")[0] if "/" in rest else ""


PLANTED = [
    ("kernels/ref/a.cpp", '#include "base/status.hpp"\n', "kernels know nothing"),
    ("kernels/cpu/a.cpp", "#include <dpi/dpi.h>\n", "kernels know nothing"),
    ("sdk/src/bundle/a.cpp", '#include "graph/graph.hpp"\n', "comes before 'graph'"),
    ("sdk/src/runtime/a.cpp", "#include <dpi/dpi.h>\n", "below the C API"),
    ("sdk/src/plan/a.cpp", "#include <hdf5.h>\n", "tests only"),
    ("sdk/src/bundle/hdf5/file.cpp", "#include <H5Fpublic.h>\n", "tests only"),
    ("sdk/src/store/a.cpp", "#include <hiredis/read.h>\n", "store/redis/ only"),
    ("sdk/src/runtime/a.cpp", "#include <librdkafka/rdkafka.h>\n", "stream/kafka/ only"),
    ("samples/a.c", '#include "base/status.hpp"\n', "use <dpi/dpi.h> only"),
    ("sdk/src/store/a.cpp", "#include <rocksdb/db.h>\n", "store/rocksdb/ only"),
    ("capi/src/a.cpp", "#include <doctest/doctest.h>\n", "tests only"),
    ("capi/src/a.cpp", "#include <nlohmann/json.hpp>\n", "json_reader.cpp, sdk/tools/ only"),
    ("sdk/src/bundle/manifest.hpp", "#include <nlohmann/json.hpp>\n", "json_reader.cpp, sdk/tools/ only"),
    ("sdk/src/runtime/describe/a.cpp", "#include <nlohmann/json_fwd.hpp>\n", "json_reader.cpp, sdk/tools/ only"),
    ("sdk/src/runtime/engine/a.cpp", '#include "runtime/model/model.hpp"\n', "room 'engine' comes before 'model'"),
    ("sdk/src/runtime/request/a.cpp", '#include "runtime/load/tiers.hpp"\n', "room 'request' comes before 'load'"),
    ("sdk/src/store/arena_map.cpp", '#include "store/tiered/arena.hpp"\n', "room '' comes before 'tiered'"),
    ("sdk/src/backend/cuda/gemm/gemm.cpp", '#include "backend/cuda/device/cuda_op.hpp"\n', "room 'gemm' comes before 'device'"),
    ("sdk/src/backend/cuda/device/cuda_streams.cpp", '#include "backend/cuda_emu/a.hpp"\n', "room 'cuda' comes before 'cuda_emu'"),
    ("sdk/src/backend/cuda/lookup/a.cpp", '#include "base/status.hpp"\n', "room 'lookup' of sdk/src/backend/cuda/"),
    ("sdk/src/store/attic/a.cpp", '#include "base/status.hpp"\n', "room 'attic' of sdk/src/store/"),
    ("sdk/tools/dpi/shared/a.cpp", '#include "sdk/tools/dpi/commands/flags.hpp"\n', "room 'shared' comes before 'commands'"),
]
CLEAN = [
    ("sdk/src/plan/plan.cpp", '#include "plan/passes/passes.hpp"\n'),
    ("sdk/src/plan/passes/a.cpp", '#include "plan/plan.hpp"\n#include "plan/analysis/ir.hpp"\n'),
    ("sdk/src/backend/cuda/cuda_backend.cpp", '#include "backend/cuda/small_batch/small_batch_op.hpp"\n'),
    ("sdk/tools/dpi/main.cpp", '#include "sdk/tools/dpi/commands/flags.hpp"\n'),
    ("sdk/src/bundle/manifest/json_reader.cpp", "#include <nlohmann/json.hpp>\n"),
    ("sdk/tools/dpi/a.cpp", "#include <nlohmann/json.hpp>\n"),
    ("sdk/src/graph/a.cpp", '#include "base/status.hpp"\n#include <dpi/kernels/op.hpp>\n// #include "runtime/x.hpp"\n'),
    ("capi/src/a.cpp", '#include <dpi/dpi.h>\n#include "runtime/model/model.hpp"\n'),
]
