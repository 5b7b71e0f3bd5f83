"""An own Triton kernel that looks up every field of every row at once: what a well-made multi-table operator of a framework does."""

import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((32, 4), (64, 4), (64, 8), (128, 8))],
                 key=["pairs", "FIELDS", "DIM"])
@triton.jit
def _lookup_kernel(ids, offsets, table, out, pairs, FIELDS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    row = tl.load(ids + pair, mask=inside, other=0) + tl.load(offsets + pair % FIELDS, mask=inside, other=0)
    column = tl.arange(0, DIM)
    values = tl.load(table + row.to(tl.int64)[:, None] * DIM + column[None, :], mask=inside[:, None], other=0.0)
    tl.store(out + pair.to(tl.int64)[:, None] * DIM + column[None, :], values, mask=inside[:, None])


def lookup(ids, table, offsets):
    """ids [rows, fields], table [all rows, dim] (dim a power of two), offsets [fields] -> [rows, fields * dim]."""
    rows, fields = ids.shape
    dim = table.shape[1]
    out = torch.empty((rows, fields * dim), device=table.device, dtype=table.dtype)
    pairs = rows * fields
    _lookup_kernel[lambda meta: (triton.cdiv(pairs, meta["BLOCK"]),)](ids, offsets, table, out, pairs, fields, dim)
    return out
