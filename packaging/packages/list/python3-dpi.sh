# For the one Python whose headers the build found: the code that Debian 12's SWIG writes uses more than the stable part of Python's interface.
rpm="$python_rpm-dpi" section=python
summary='Embedded inference for click-through-rate models: Python'
about='The Python package dpi scores bundles with libdpi.so.1 from numpy arrays,
DataFrames and dicts, inside the process of a service, a batch job or a
notebook.'
files=("$python_native/dpi" "$python_native/dpi-$version.dist-info")
deb=("Depends: python3 (>= $python_is), python3 (<< $python_next), python3-numpy, \${shlibs:Depends}" 'Suggests: python3-pandas, python3-dpi-export')
