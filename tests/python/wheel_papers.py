"""A wheel's papers: wheel_papers.py WHEEL. Record, licences, a bill of materials that fits the content."""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/install"))
import sbom  # noqa: E402

LINKED = {"libstdc++", "libgcc", "xxHash", "libsodium", "nlohmann-json"}


def main(path):
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        assert not any("rocksdb" in name or "redis" in name or "kafka" in name for name in names), names  # as bindings/python/README.md says
        info, = {n.split("/")[0] for n in names if ".dist-info/" in n}
        record = dict(line.split(",", 1) for line in wheel.read(f"{info}/RECORD").decode().splitlines())
        assert set(record) == set(names) and len(names) == len(set(names))
        for name in names:
            if not name.endswith("/RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
                assert record[name] == f"sha256={digest},{len(wheel.read(name))}", name
        tag = Path(path).name[:-4].split("-", 2)[2]
        assert f"Tag: {tag}\n" in wheel.read(f"{info}/WHEEL").decode() and "manylinux_2_34" in tag
        assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        bill_name = f"{info}/sboms/dpi-wheel.spdx.json"
        described = [n for n in names if n != bill_name and n.split("/")[-1] not in ("METADATA", "WHEEL", "RECORD")]
        bill = sbom.check(wheel.read(bill_name).decode(), wheel.read, described, {"dpi/libdpi.so.1": LINKED})
        for package in bill["packages"]:
            if package["name"] != "dpi":
                assert len(wheel.read(f"{info}/licenses/licenses/{package['name']}.txt")) > 50, package
    print(f"passed: {Path(path).name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
