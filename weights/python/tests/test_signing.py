"""Keys, signatures and hashes of the package, and what it refuses. What the program `dpi` thinks of them: tests/bundle."""

import hashlib
import os
import shutil
import struct

import pytest

from dpi_export import Bundle, BundleError, Rows, make_keys, sign
from dpi_export.bundle import signing
from dpi_export.cli import main
from dpi_export.bundle.content_hash import DATA, TreeHash

pytest.importorskip("cryptography")


@pytest.fixture
def signed(small, tmp_path):
    """(path of a signed bundle, its public key in hex, the key file)."""
    key_file = tmp_path / "team.key"
    public = make_keys(key_file)
    small.golden(Rows.from_columns(small, small.columns))
    small.write(tmp_path / "a.h5", sign=key_file)
    return tmp_path / "a.h5", public, key_file


def test_tree_hash_by_hand():
    data = os.urandom((2 << 20) + 5)
    leaves = [hashlib.blake2b(data[at:at + 2**20], digest_size=32, person=b"DPI 2 leaf").digest() for at in range(0, len(data), 2**20)]
    want = hashlib.blake2b(b"".join(leaves) + struct.pack("<Q", len(data)), digest_size=32, person=b"DPI 2 data").digest()
    for step in (len(data), 2**20, 1000003):
        state = TreeHash(DATA)
        for at in range(0, len(data), step):
            state.update(data[at:at + step])
        assert state.digest() == want


def test_write_signed(signed):
    path, public, _ = signed
    with Bundle(path, require_signature=public) as q:
        assert q.signed_by == [signing.key_id(bytes.fromhex(public)).hex()]
        assert q.verify_digests() > 0
    assert main(["verify", str(path), "--require-signature", public]) == 0
    assert main(["verify", str(path), "--require-signature", "00" * 32]) == 1


def test_keys_change(signed, tmp_path):
    path, old, _ = signed
    new = make_keys(tmp_path / "next.key")
    sign(path, tmp_path / "next.key")
    for key in (old, new, f"{'11' * 32},{new}"):
        Bundle(path, require_signature=key).close()
    with Bundle(path) as q:
        assert len(q.signed_by) == 2


def test_key_files(signed, tmp_path, capsys):
    _, public, key_file = signed
    assert key_file.stat().st_mode & 0o77 == 0
    assert (tmp_path / "team.key.pub").read_text().split() == ["dpi-public-key-1", public]
    with pytest.raises(BundleError, match="File exists"):
        make_keys(key_file)
    key_file.rename(tmp_path / "old.key")  # team.key.pub is still there
    with pytest.raises(BundleError, match="team.key.pub: File exists"):
        make_keys(key_file)
    assert not key_file.exists() and public in (tmp_path / "team.key.pub").read_text()
    (tmp_path / "bad.key").write_text("dpi-signing-key-1 abc\n")
    for name in ("bad.key", "team.key.pub", "none.key"):
        with pytest.raises(BundleError, match="is no signing key|cannot be read"):
            signing.read_signing_key(tmp_path / name)
    assert main(["keygen", str(tmp_path / "cli.key")]) == 0
    assert len(capsys.readouterr().out.strip()) == 64


def test_every_change_is_refused(signed, tmp_path):
    path, public, _ = signed
    data = path.read_bytes()
    for at in range(0, len(data), 61):
        spoiled = bytearray(data)
        spoiled[at] ^= 1
        (tmp_path / "b.h5").write_bytes(spoiled)
        with pytest.raises(BundleError):
            with Bundle(tmp_path / "b.h5", require_signature=public) as q:
                q.verify_digests()


def test_refusals(signed, small, tmp_path):
    path, public, key_file = signed
    small.write(tmp_path / "plain.h5")
    for bundle, key, text in ((tmp_path / "plain.h5", public, "is not signed"), (path, "22" * 32, "a signature by"),
                              (path, "x", "64 hex digits")):
        with pytest.raises(BundleError, match=text):
            Bundle(bundle, require_signature=key)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged.h5").write_bytes(data)
    with pytest.raises(BundleError):
        sign(tmp_path / "damaged.h5", key_file)
    for n in range(8):
        make_keys(tmp_path / f"{n}.key")
    shutil.copy(path, tmp_path / "full.h5")
    for n in range(7):
        sign(tmp_path / "full.h5", tmp_path / f"{n}.key")
    with pytest.raises(BundleError, match="8 signatures by other keys"):
        sign(tmp_path / "full.h5", tmp_path / "7.key")
