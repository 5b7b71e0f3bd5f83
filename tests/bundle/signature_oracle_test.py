"""Hashes and signatures of the program `dpi`, computed and checked again with hashlib and the package cryptography alone (FORMAT.md
part 1), and the other way round: a signature made here opens there.

    signature_oracle_test.py DPI
"""

import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DPI, SKIPPED = sys.argv[1], 77
FAILED = 3  # the program's exit status for a bundle that is refused

try:
    import h5py  # noqa: F401
    import numpy as np
    import xxhash
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(SKIPPED)
from tree_hash import blake, tree_hash  # noqa: E402


class File:
    """A bundle's bytes, taken apart by the offsets of FORMAT.md."""

    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        self.u, self.length, self.n, self.digest = struct.unpack_from("<QQQQ", self.data, 16)
        assert self.data[:16] == b"DPIBNDL\0" + struct.pack("<II", 2, 0) and self.length == len(self.data)
        self.extents = [struct.unpack_from("<QQQ32s", self.data, 768 + 56 * i) for i in range(self.n)]
        count = struct.unpack_from("<Q", self.data, 56)[0]
        self.signatures = [struct.unpack_from("<16s64s", self.data, 128 + 80 * i) for i in range(count)]
        rest, at = [], self.u
        for offset, size, *_ in self.extents:
            rest.append(self.data[at:offset])
            at = offset + size
        self.rest = b"".join([*rest, self.data[at:]])

    def check_hashes(self):
        for offset, size, digest, hashed in self.extents:
            data = self.data[offset:offset + size]
            assert xxhash.xxh3_64_intdigest(data) == digest and tree_hash(b"DPI 2 data", data) == hashed
        assert self.data[64:96] == tree_hash(b"DPI 2 metadata", self.rest)
        assert self.digest == self.digest_now(self.data)

    def digest_now(self, data):
        return xxhash.xxh3_64_intdigest(data[:40] + bytes(8) + data[48:self.u] + self.rest)

    def message(self, key_id):
        head = self.data[:40] + bytes(8) + self.data[48:56] + bytes(8) + self.data[64:128]
        return b"DPI bundle signature" + key_id + blake(b"DPI 2 user block", head, self.data[768:768 + 56 * self.n])

    def signed(self, private, public):
        """The file with one signature, by this key, and the digest that goes with it."""
        key_id = blake(b"DPI 2 key id", public, size=16)
        record = (key_id + private.sign(self.message(key_id))).ljust(640, b"\0")
        data = self.data[:56] + struct.pack("<Q", 1) + self.data[64:128] + record + self.data[768:]
        return data[:40] + struct.pack("<Q", self.digest_now(data)) + data[48:]


def dpi(*args, code=0):
    ran = subprocess.run([DPI, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == code, f"{args}: exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout + ran.stderr


def keygen(path):
    """(public key, key id, secret seed) of a new key file."""
    out = dpi("keygen", path)
    kind, seed = path.read_text().split()
    kind_public, public = pathlib.Path(f"{path}.pub").read_text().split()
    assert (kind, kind_public) == ("dpi-signing-key-1", "dpi-public-key-1") and path.stat().st_mode & 0o77 == 0
    key_id = blake(b"DPI 2 key id", bytes.fromhex(public), size=16)
    assert key_id.hex() in out and public in out
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    assert private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex() == public
    dpi("keygen", path, code=1)  # never over a key that is there
    return bytes.fromhex(public), key_id, private


def large(folder):
    """A bundle whose table has three leaves and a half, written without the package."""
    sys.argv[1] = str(folder)
    sys.path.insert(0, str(ROOT / "tests/bundle"))
    import make_raw_bundles as raw
    import copy
    manifest = copy.deepcopy(raw.MANIFEST)
    manifest["tables"][0].update(rows=400_000)
    rows = np.random.default_rng(1).normal(size=(400_000, 2)).astype("<f4")
    return pathlib.Path(raw.write("large.h5", manifest, {**raw.sets(), "/tables/c": rows}))


def check(path, key_file, key):
    public, key_id, private = key
    before = File(path)
    before.check_hashes()
    unsigned = pathlib.Path(f"{path}.unsigned")
    shutil.copy(path, unsigned)
    assert "is not signed" in dpi("verify", path, "--option", f"require_signature={public.hex()}", code=FAILED)
    dpi("sign", path, "--key", key_file)
    after = File(path)
    after.check_hashes()
    assert after.data[48:56] + after.data[64:128] + after.data[768:] == before.data[48:56] + before.data[64:128] + before.data[768:]
    (found_id, signature), = after.signatures
    assert found_id == key_id
    Ed25519PublicKey.from_public_bytes(public).verify(signature, after.message(key_id))  # raises when it is wrong
    for threads in (1, 4):
        out = dpi("verify", path, "--option", f"require_signature={public.hex()}", "--threads", threads)
        assert "signature ok" in out and key_id.hex() in out
    assert before.signed(private, public) == after.data  # Ed25519 gives one signature for one message
    return before, after


def refuse_forgeries(path, before, after, public):
    """What hashlib can make without the key."""
    def forged(change, text):
        data = bytearray(after.data)
        change(data)
        target = path.with_suffix(".forged.h5")
        target.write_bytes(data)
        again = File(target)
        data[40:48] = struct.pack("<Q", again.digest_now(bytes(data)))
        target.write_bytes(data)
        assert text in dpi("verify", target, "--option", f"require_signature={public.hex()}", code=FAILED)

    def flip(at):
        def change(data):
            data[at] ^= 1
        return change
    forged(flip(after.u + 30), "")
    forged(flip(64), "does not verify")
    forged(flip(768 + 16), "does not verify")
    forged(flip(768 + 30), "does not verify")
    forged(flip(150), "does not verify")
    forged(flip(130), "a signature by")
    assert before.n == after.n


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        key_file = folder / "team.key"
        key = keygen(key_file)
        paths = [large(folder)]
        for source in ("tests/bundle/data/small.h5", "weights/demo/adult_widedeep.h5", "tests/e2e/golden/fx_deepfm_i8.h5"):
            paths.append(folder / pathlib.Path(source).name)
            shutil.copy(ROOT / source, paths[-1])
        assert max(size for _, size, *_ in File(paths[0]).extents) > 3 << 20
        for path in paths:
            before, after = check(path, key_file, key)
            refuse_forgeries(path, before, after, key[0])
        made_here = folder / "made_here.h5"
        other = Ed25519PrivateKey.generate()
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
        public = other.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        made_here.write_bytes(File(f"{paths[1]}.unsigned").signed(other, public))
        dpi("verify", made_here, "--option", f"require_signature={public.hex()}")
        dpi("verify", made_here, "--option", f"require_signature={key[0].hex()},{public.hex()}")
        assert "a signature by" in dpi("verify", made_here, "--option", f"require_signature={key[0].hex()}", code=FAILED)
    print(f"{len(paths)} bundles: hashlib and cryptography find the hashes and signatures that dpi wrote, and dpi theirs")


if __name__ == "__main__":
    main()
