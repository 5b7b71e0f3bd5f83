"""A0: what machine this is. Decides whether profilers can be used (not under gVisor) and gives every later number its context."""

import json
import os
import platform
import shutil

import common
from common import emit, run


def gpu_fields():
    keys = ("name", "driver_version", "memory.total", "clocks.sm", "clocks.mem", "clocks.max.sm", "pcie.link.gen.current", "pcie.link.width.current",
            "temperature.gpu", "power.draw", "mig.mode.current")
    status, text = run(["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"], 20)
    if status != 0:
        return {"nvidia_smi": text.strip()[-200:]}
    return dict(zip(keys, (part.strip() for part in text.splitlines()[0].split(","))))


def torch_fields():
    code = ("import json,torch,numpy\n"
            "d={'torch':torch.__version__,'numpy':numpy.__version__,'cuda':torch.version.cuda,'available':torch.cuda.is_available()}\n"
            "if d['available']:\n"
            "  p=torch.cuda.get_device_properties(0)\n"
            "  d.update(name=p.name,sms=p.multi_processor_count,memory=p.total_memory,l2=getattr(p,'L2_cache_size',0))\n"
            "try:\n"
            "  import triton; d['triton']=triton.__version__\n"
            "except ImportError: pass\n"
            "print(json.dumps(d))\n")
    end = {}
    answer = next(common.stream("torch", [os.environ.get("PYTHON", "python3"), "-c", code], end, ours=False), None)
    return answer or {"torch": "none", "why": "out of time" if end["late"] else end["log"][-200:]}


def clocks(label):
    """One record of the clocks as they are; they are never set."""
    if common.DRY:
        return
    emit("clocks", "ok", when=label, **gpu_fields())


def stage():
    kernel = platform.release()
    tools = {name: shutil.which(name) or "" for name in ("nvcc", "ncu", "compute-sanitizer", "g++", "cmake", "ninja")}
    version = run(["nvcc", "--version"], 20)[1].strip().splitlines()[-1:] if tools["nvcc"] else []
    gvisor = "gVisor" in run(["dmesg"], 5)[1] or kernel.startswith("4.4.0")
    emit("machine", "ok", kernel=kernel, gvisor=gvisor, cpus=os.cpu_count(), tools=tools, nvcc=version, gpu=gpu_fields(), python=platform.python_version())
    pack = common.PACK / "VERSION.json"
    emit("pack", "ok", **(json.loads(pack.read_text()) if pack.exists() else {"commit": "none"}))
    emit("torch", "ok", **torch_fields())  # last: importing it may take longer than this stage has


if __name__ == "__main__":
    common.main(stage)
