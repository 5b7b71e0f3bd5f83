# Third-party code that becomes part of what is shipped: the one table that dpi_build_info_json, the notices and the bills of
# materials (packaging/sbom.cmake) are made of.
#
#   <build>/generated/linked_libraries.inc     for capi/src/library.cpp
#   <build>/packaging/third_party.cmake        the table, for packaging/sbom.cmake
#   <build>/packaging/notices                  LICENSE, THIRD_PARTY.md, licenses/<name>.txt, for the installation and the archives

set(DPI_NOTICES ${PROJECT_BINARY_DIR}/packaging/notices)
set(DPI_THIRD_PARTY_TABLE ${PROJECT_BINARY_DIR}/packaging/third_party.cmake)
set(dpi_table "")
set(dpi_inc "")
set(dpi_notices "")
set(dpi_texts "")
set(DPI_NOTICES_MISSING "")

# INSIDE: the files that it is part of, of libdpi.so dpi libdpi_cuda.so libdpi_redis.so libdpi_kafka.so; libdpi_rocksdb.so has nothing inside.
# COPYRIGHT: its licence's text; another system than Debian has it elsewhere, hence the cache variable.
macro(dpi_third_party name)
  cmake_parse_arguments(row "ARCHIVE" "VERSION;LICENSE;COPYRIGHT;URL;ABOUT" "INSIDE" ${ARGN})
  string(MAKE_C_IDENTIFIER ${name} row_id)
  set(DPI_COPYRIGHT_${row_id} ${row_COPYRIGHT} CACHE FILEPATH "The licence and copyright of ${name}")
  mark_as_advanced(DPI_COPYRIGHT_${row_id})
  set(row_linked static)
  if(row_ARCHIVE AND NOT DPI_SELF_CONTAINED)
    set(row_linked shared)
  endif()
  if("libdpi.so" IN_LIST row_INSIDE)
    string(APPEND dpi_inc "{\"${name}\", \"${row_VERSION}\", \"${row_LICENSE}\", \"${row_linked}\"},\n")
  endif()
  if(row_linked STREQUAL "static")
    string(APPEND dpi_table "list(APPEND names \"${name}\")\nset(${name}_version \"${row_VERSION}\")\nset(${name}_license \"${row_LICENSE}\")\n"
                            "set(${name}_url \"${row_URL}\")\nset(${name}_inside \"${row_INSIDE}\")\n")
    list(JOIN row_INSIDE "`, `" row_files)
    string(APPEND dpi_notices "| ${name} | ${row_VERSION} | ${row_LICENSE} | `${row_files}` | `licenses/${name}.txt` |\n")
    list(APPEND dpi_texts ${DPI_NOTICES}/licenses/${name}.txt)
    if(EXISTS ${DPI_COPYRIGHT_${row_id}})
      configure_file(${DPI_COPYRIGHT_${row_id}} ${DPI_NOTICES}/licenses/${name}.txt COPYONLY)
    else()
      list(APPEND DPI_NOTICES_MISSING "${name} (-DDPI_COPYRIGHT_${row_id}=FILE)")
    endif()
  endif()
endmacro()

# The C++ runtime is the compiler's own; another compiler than g++ takes it from a g++ that is there.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE dpi_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCH "/([0-9.]+)/libstdc\\+\\+\\.a$" dpi_runtime "${dpi_runtime}")
set(dpi_gcc ${CMAKE_MATCH_1})
string(REGEX MATCH "^[0-9]+" dpi_gcc_major "${dpi_gcc}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(dpi_gcc ${CMAKE_CXX_COMPILER_VERSION})
endif()

dpi_third_party(xxHash ARCHIVE VERSION ${xxhash_VERSION} LICENSE BSD-2-Clause URL https://github.com/Cyan4973/xxHash
                COPYRIGHT /usr/share/doc/libxxhash-dev/copyright INSIDE libdpi.so dpi)
if(sodium_FOUND)
  dpi_third_party(libsodium ARCHIVE VERSION ${sodium_VERSION} LICENSE ISC URL https://github.com/jedisct1/libsodium
                  COPYRIGHT /usr/share/doc/libsodium-dev/copyright INSIDE libdpi.so dpi)
endif()
dpi_third_party(nlohmann-json VERSION ${nlohmann_json_VERSION} LICENSE MIT URL https://github.com/nlohmann/json
                COPYRIGHT /usr/share/doc/nlohmann-json3-dev/copyright INSIDE libdpi.so dpi)
if(CLI11_FOUND)
  dpi_third_party(CLI11 VERSION ${CLI11_VERSION} LICENSE BSD-3-Clause URL https://github.com/CLIUtils/CLI11
                  COPYRIGHT /usr/share/doc/libcli11-dev/copyright INSIDE dpi)
endif()
set(dpi_gcc_license "GPL-3.0-or-later WITH GCC-exception-3.1")
dpi_third_party(libstdc++ ARCHIVE VERSION "${dpi_gcc}" LICENSE ${dpi_gcc_license} URL https://gcc.gnu.org
                COPYRIGHT /usr/share/doc/libstdc++-${dpi_gcc_major}-dev/copyright INSIDE libdpi.so dpi libdpi_cuda.so libdpi_redis.so libdpi_kafka.so)
dpi_third_party(libgcc ARCHIVE VERSION "${dpi_gcc}" LICENSE ${dpi_gcc_license} URL https://gcc.gnu.org
                COPYRIGHT /usr/share/doc/libgcc-${dpi_gcc_major}-dev/copyright INSIDE libdpi.so dpi libdpi_cuda.so libdpi_redis.so libdpi_kafka.so)
if(DPI_CUDA_ENABLED)
  set(dpi_eula ${CUDAToolkit_LIBRARY_ROOT}/EULA.txt)
  if(NOT EXISTS ${dpi_eula})  # not every way to install the toolkit brings it
    set(dpi_eula ${PROJECT_BINARY_DIR}/packaging/cuda_eula.txt)
    file(CONFIGURE OUTPUT ${dpi_eula} CONTENT "The CUDA runtime library (libcudart_static.a) is part of the NVIDIA CUDA Toolkit; its licence:
https://docs.nvidia.com/cuda/eula\n")
  endif()
  dpi_third_party(cudart VERSION ${CUDAToolkit_VERSION} LICENSE LicenseRef-NVIDIA-CUDA-EULA URL https://docs.nvidia.com/cuda/eula
                  COPYRIGHT ${dpi_eula} INSIDE libdpi_cuda.so)
endif()
file(GLOB dpi_old_texts ${DPI_NOTICES}/licenses/*.txt)
list(REMOVE_ITEM dpi_old_texts ${dpi_texts})
if(dpi_old_texts)
  file(REMOVE ${dpi_old_texts})
endif()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/linked_libraries.inc CONTENT "${dpi_inc}")
file(CONFIGURE OUTPUT ${DPI_THIRD_PARTY_TABLE} CONTENT "${dpi_table}" @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/LICENSE ${DPI_NOTICES}/LICENSE COPYONLY)
file(CONFIGURE OUTPUT ${DPI_NOTICES}/THIRD_PARTY.md @ONLY CONTENT "# Third-party code in the DPIFrame SDK ${PROJECT_VERSION}

The SDK itself is licensed under Apache-2.0 (`LICENSE`). Linked into its files are:

| name | version | licence (SPDX) | in | text |
|---|---|---|---|---|
${dpi_notices}")
