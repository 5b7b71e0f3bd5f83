rpm=python3-dpi-export section=python arch=all
summary='Embedded inference for click-through-rate models: exporter'
about='The Python package dpi_export writes, reads and checks bundles: from models
of FuxiCTR and DeepCTR-Torch, or by hand. "python3 -m dpi_export" and
"dpi repack" work on bundles from a shell.'
files=("$python/dpi_export" "$python/dpi_export-*" usr/share/dpi)
deb=('Depends: python3 (>= 3.9), python3-h5py, python3-numpy, python3-xxhash' 'Recommends: python3-cryptography' 'Suggests: python3-sklearn, python3-torch')
rpm_tags=('Recommends: python3-cryptography')
