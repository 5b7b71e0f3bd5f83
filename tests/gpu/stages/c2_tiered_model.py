"""C2: one model whose tables take four times the device memory that they may have, host to host, over the C API: rows resident, warm ones in the device
cache (store.gpu_bytes), none of them there (store.host_bytes alone), and spread over four allocations (store.peer_devices); one caller and sixteen; then
other budgets. Settles whether the goal is met: 80 % of the resident model's rows a second at Zipf(1.05)."""

import common
import data
import tiers
from common import DRY, answers, emit

BATCH = 16 if DRY else tiers.ROWS
CHECK_SETS = 2
WARM_SETS = 4 if DRY else 128
TIMED_SETS = {1: 4 if DRY else 256, 16: 32 if DRY else 1024}  # every set is asked for once
LOG_ROWS = 200 if DRY else 32768
PRECISION = "tf32"


def options(way, part, hot):
    """What makes the model's tables lie there. The host tier has a place for every row."""
    tables = tiers.table_bytes(DRY)
    tier = {"store.host_bytes": str(3 * tables), "store.resident_bytes": str(tiers.resident_bytes(DRY)), **({"store.hot_keys": str(hot)} if hot else {})}
    devices = ["0"] * (2 if DRY else tiers.SHARES)
    return {"resident": {}, "mapped": tier, "cached": {**tier, "store.gpu_bytes": str(tiers.budget(max(part, 1), DRY))},
            "peers": {"store.peer_devices": ",".join(devices)}}[way]


def sample(zipf, sets, turn):
    shape = tiers.shape(DRY)
    ids, dense = data.rows(shape, BATCH, f"zipf{zipf}", sets, turn)
    return {"ids": str(ids), "dense": str(dense) if dense else "", "sets": sets, "batch": BATCH}


def job(way, part, zipf, callers, hot):
    labels = {"level": "model", "way": way, "part": part, "zipf": zipf, "batch": tiers.ROWS, "callers": callers, "engine": "dpi", "group": "tiers"}
    made = data.bench_job(tiers.shape(DRY), BATCH, {"precision": PRECISION, **options(way, part, hot), "max_contexts": str(max(tiers.CALLERS))}, labels,
                          f"zipf{zipf}", CHECK_SETS, callers=callers, once=True)
    made["check"] = {k: made[k] for k in ("ids", "dense", "sets", "batch")}
    made.update(sample(zipf, TIMED_SETS[callers], 1 + tiers.CALLERS.index(callers)), warm=sample(zipf, WARM_SETS, 9), warm_seconds=0.05 if DRY else 1.0)
    return made


def cells():
    if DRY:
        return [c for c in tiers.model_cells() if c[2] == "1.05" and c[1] in (0, 4)]
    return tiers.model_cells()


def prepared(shape, zipf):
    """Makes the rows of one exponent and their reference; whether there is time left for what they are for."""
    for sets, turn in ((CHECK_SETS, 0), (WARM_SETS, 9), *((TIMED_SETS[c], 1 + i) for i, c in enumerate(tiers.CALLERS))):
        if common.left() < 1:
            return False
        data.rows(shape, BATCH, f"zipf{zipf}", sets, turn)
    error = data.make_references([(shape, BATCH, f"zipf{zipf}")], ("fp32",), CHECK_SETS) if data.bundle(shape).exists() else None
    if error:
        emit("reference in float64", "failed", error=error)
    return True


def stage():
    import a0_probe
    a0_probe.clocks("before tiered model")
    shape, wanted = tiers.shape(DRY), cells()
    for error in data.make_bundles([shape]):
        emit("make bundle", "skipped" if common.left() < 1 else "failed", error=error)
    hot = data.hot_list(shape, f"zipf{tiers.GOAL[0]}", LOG_ROWS) if common.left() > 1 and data.bundle(shape).exists() else None
    for zipfs in (tiers.ZIPFS[:1], tiers.ZIPFS[1:]):
        now = [cell for cell in wanted if cell[2] in zipfs]
        if not now or not all(prepared(shape, zipf) for zipf in zipfs):
            break
        for result in answers("gpu_bench", [job(*cell, hot) for cell in now]):
            status = result.pop("status")
            emit("tier", "failed" if status == "unsupported" else status, **result)  # every build has these options
    a0_probe.clocks("after tiered model")


if __name__ == "__main__":
    common.main(stage)
