"""Checks the HDF5 profile of FORMAT.md part 2 through h5py's low-level API."""

import h5py
import numpy as np

from .errors import DATASET, BundleError

_GROUPS = ("tables", "params", "encoders", "golden")
_TYPES = {np.dtype(t) for t in ("u1", "i1", "<u2", "<i8", "<u8", "<f4")}


def _links(group):
    """(name, link class) pairs; nothing is opened."""
    for name in group.id:
        yield name.decode("utf-8", "replace"), group.id.links.get_info(name).type


def _check_data_set(path, ds, extents):
    kind, plist = ds.id.get_type(), ds.id.get_create_plist()
    if kind.get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT) or ds.dtype not in _TYPES:
        raise BundleError(f"{path}: element type {ds.dtype} is outside the profile")
    if plist.get_layout() != h5py.h5d.CONTIGUOUS or plist.get_nfilters() or plist.get_external_count():
        raise BundleError(f"{path}: not a contiguous, unfiltered data set inside the file")
    if ds.id.get_space().get_simple_extent_type() != h5py.h5s.SIMPLE:
        raise BundleError(f"{path}: not an array")
    info = {"shape": ds.shape, "dtype": ds.dtype, "offset": None, "bytes": int(ds.size) * ds.dtype.itemsize}
    if ds.size:
        info["offset"] = ds.id.get_offset()
        if path != "/manifest" and extents.pop(info["offset"], None) != info["bytes"]:
            raise BundleError(f"{path}: no extent covers exactly its {info['bytes']} bytes at {info['offset']}")
    return info


def check_profile(h5, extents):
    """path -> {shape, dtype, offset, bytes} of every data set; raises on anything outside the profile."""
    left = {offset: size for offset, size, _ in extents}
    out = {}
    for name, kind in _links(h5):
        if kind != h5py.h5l.TYPE_HARD:
            raise BundleError(f"/{name}: soft, external and user-defined links are outside the profile")
        if name == "manifest":
            if not isinstance(h5[name], h5py.Dataset) or h5[name].ndim != 1 or h5[name].dtype != np.uint8:
                raise BundleError("/manifest: not a one-dimensional u8 data set")
            out["/manifest"] = _check_data_set("/manifest", h5[name], left)
        elif name not in _GROUPS or not isinstance(h5[name], h5py.Group):
            raise BundleError(f"/{name}: outside the profile")
    for group in _GROUPS:
        for name, kind in _links(h5[group]) if group in h5 else ():
            path = f"/{group}/{name}"
            if kind != h5py.h5l.TYPE_HARD:
                raise BundleError(f"{path}: soft, external and user-defined links are outside the profile")
            if not DATASET.match(name) or not isinstance(h5[path], h5py.Dataset):
                raise BundleError(f"{path}: outside the profile")
            out[path] = _check_data_set(path, h5[path], left)
    if left:
        raise BundleError(f"the extent at {sorted(left)[0]} belongs to no data set")
    return out
