"""GEMM rates by precision on random data, and on the paper's shapes at batch 2048. One JSON line per number. --dry: tiny, on the CPU."""

import json
import sys
import time

import torch
from model import DTYPES, set_precision

DRY = "--dry" in sys.argv
SHAPES = [(64, 64, 64)] if DRY else [(8192, 8192, 8192), (2048, 624, 1024), (2048, 1024, 1024), (2048, 1248, 1248), (16384, 432, 400), (16384, 400, 400)]


def measure(work, device):
    """Microseconds of one run, the best of five rounds."""
    rounds, n = (1, 2) if DRY else (5, 20)
    work()
    best = float("inf")
    for _ in range(rounds):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / n * 1e6)
    return best


def main():
    device = "cuda" if torch.cuda.is_available() and not DRY else "cpu"
    for precision in ("fp32",) if DRY else ("fp32", "tf32", "fp16", "bf16"):
        set_precision(precision)
        for m, k, n in SHAPES:
            a = torch.randn(m, k, device=device, dtype=DTYPES[precision])
            b = torch.randn(n, k, device=device, dtype=DTYPES[precision])
            us = measure(lambda: torch.nn.functional.linear(a, b), device)
            print(json.dumps({"precision": precision, "m": m, "k": k, "n": n, "us": us, "tflops": 2e-6 * m * k * n / us}), flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
