# Toolchain file: cross-compiles for aarch64 with Debian's compiler, and runs what it made under qemu-user.
#
#   packaging/setup.sh aarch64 && packaging/sysroot.sh build/sysroot-arm64
#   cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=packaging/cmake/aarch64.cmake -DDPI_SYSROOT=$PWD/build/sysroot-arm64
#
# What the Java and Python bindings need beyond that: packaging/sysroot.sh DIR --whole libpython3-dev.
#
# DPI_SYSROOT has headers and libraries of arm64, beside those of the cross compiler. DPI_EMULATED_CPU is the processor that tests see: `max` has
# all that qemu knows (bf16, i8mm), cortex-a76 has dot products, cortex-a72 plain NEON.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(dpi_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(DPI_SYSROOT ${dpi_root}/build/sysroot-arm64 CACHE PATH "Headers and libraries of arm64: packaging/sysroot.sh makes the folder")
set(DPI_EMULATED_CPU max,pauth-impdef=on CACHE STRING "qemu-aarch64 -cpu, for tests")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DPI_SYSROOT DPI_EMULATED_CPU)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${DPI_EMULATED_CPU} -L /usr/aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH ${DPI_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${DPI_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${DPI_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${DPI_SYSROOT})
