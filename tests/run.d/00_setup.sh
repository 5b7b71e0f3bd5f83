# Installs missing Debian packages.
essential
check "packages of the groups build and test" packaging/setup.sh build test || exit 1
check "$PYTHON has what the tests import" "$PYTHON" -c 'import h5py, numpy, pytest, sklearn, xxhash'
