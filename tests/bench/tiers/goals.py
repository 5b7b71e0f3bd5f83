"""What is asked of the host tier, beside what was measured. A goal without a measurement is told as such."""


def _hit_goals(hits):
    small = [h for h in hits if h["mlp"] == "64-32" and h["batch"] >= 64]
    large = [h for h in hits if h["mlp"] != "64-32" and h["batch"] >= 64]
    ratios = [("five largest tables tiered, MLP 3 x 256 and up: at most 1.08 x", 1.08, [h for h in large if h["case"] == "five largest"]),
              ("all tables tiered, MLP 3 x 256 and up: at most 1.15 x", 1.15, [h for h in large if h["case"] == "all"]),
              ("MLP 64-32: at most 1.5 x", 1.5, small)]
    for text, most, found in ratios:
        yield text, max((h["ratio"][0] for h in found), default=None), lambda v, most=most: v <= most
    keys = [h["ns_per_key"] for h in hits if h["case"] == "all"]
    yield ("ns a key, all tables tiered, from 64 rows on: at most 10 (median of all)",
           _median([h["ns_per_key"] for h in hits if h["case"] == "all" and h["batch"] >= 64]), lambda v: v <= 10)
    yield ("ns a key, all tables tiered, at one row: at most 25",
           _median([h["ns_per_key"] for h in hits if h["case"] == "all" and h["batch"] == 1]) if keys else None, lambda v: v <= 25)


def _median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def _disk_goals(disk):
    warm = [d for d in disk if d["page_cache"] == "warm"]
    yield ("set on disk, page cache warm: at most resident + 1.2 x RocksDB's time for the misses",
           max((d["of_allowed"] for d in warm if "of_allowed" in d), default=None), lambda v: v <= 1)
    yield ("set on disk, page cache cold: at least 0.8 of min(resident, disk's reads / misses a row)",
           min((d["of_disk"] for d in disk if d["page_cache"] == "cold" and "of_disk" in d), default=None), lambda v: v >= 0.8)
    for name, least in (("one table", 0.90), ("26 tables", 0.88)):
        yield (f"hit rate, {name}: at least {least}",
               min((d["hit_rate"] for d in disk if d["set"] == name), default=None), lambda v, least=least: v >= least)


def table(results):
    rows = []
    for text, value, good in [*_hit_goals(results.get("hits", [])), *_disk_goals(results.get("disk", []))]:
        rows.append({"goal": text, "measured": value, "met": None if value is None else bool(good(value))})
    return rows
