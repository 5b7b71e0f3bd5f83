# Installs the Debian packages that are missing.
essential
packages build test
