# All C and C++ tests of the release build.
run_ctest release -LE '^rules$'
