# Third-party libraries, each as one target `dpi::<name>`; `packaging/setup.sh build` installs all that is REQUIRED here.
# The library needs xxhash and nlohmann_json (headers). CLI11 is for the program, HDF5, doctest and benchmark for the tests: the
# library reads bundles with code of its own, and the tests compare it with HDF5's.

find_package(PkgConfig REQUIRED)

# dpi_found_library(name package): target dpi::<name> of what pkg_check_modules found; its archive where everything goes inside
# (Debian's are position-independent), else the shared library.
function(dpi_found_library name package)
  add_library(dpi_${name} INTERFACE)
  add_library(dpi::${name} ALIAS dpi_${name})
  if(NOT DPI_SELF_CONTAINED)
    target_link_libraries(dpi_${name} INTERFACE PkgConfig::${name})
    return()
  endif()
  find_library(DPI_ARCHIVE_${name} NAMES lib${name}.a HINTS ${${name}_LIBRARY_DIRS})
  mark_as_advanced(DPI_ARCHIVE_${name})
  if(NOT DPI_ARCHIVE_${name})
    message(FATAL_ERROR "lib${name}.a is not here: packaging/setup.sh build installs it (${package}); "
                        "-DDPI_SELF_CONTAINED=OFF makes a library that needs the system's lib${name}.so")
  endif()
  target_include_directories(dpi_${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIRS})
  target_link_libraries(dpi_${name} INTERFACE ${DPI_ARCHIVE_${name}})
endfunction()

pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
dpi_found_library(xxhash libxxhash-dev)

find_package(nlohmann_json 3.10 REQUIRED)
add_library(dpi_json INTERFACE)
target_link_libraries(dpi_json INTERFACE nlohmann_json::nlohmann_json)
add_library(dpi::json ALIAS dpi_json)

add_library(dpi_dnnl INTERFACE)
if(DPI_ONEDNN)
  # Not find_package(dnnl): Debian's config file asks for OpenCL's headers, which nothing here uses.
  find_path(DNNL_INCLUDE_DIR dnnl.hpp)
  find_library(DNNL_LIBRARY dnnl)
  if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
    target_include_directories(dpi_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
    target_link_libraries(dpi_dnnl INTERFACE ${DNNL_LIBRARY})
    target_compile_definitions(dpi_dnnl INTERFACE DPI_WITH_ONEDNN=1)
  else()
    message(STATUS "oneDNN not found: the benchmarks leave that comparison out (packaging/setup.sh test installs it)")
  endif()
endif()
add_library(dpi::dnnl ALIAS dpi_dnnl)

pkg_check_modules(sodium QUIET IMPORTED_TARGET libsodium)
if(sodium_FOUND)
  dpi_found_library(sodium libsodium-dev)
else()
  add_library(dpi_sodium INTERFACE)
  add_library(dpi::sodium ALIAS dpi_sodium)
endif()

find_package(CLI11 QUIET)
add_library(dpi_cli11 INTERFACE)
if(CLI11_FOUND)
  target_link_libraries(dpi_cli11 INTERFACE CLI11::CLI11)
endif()
add_library(dpi::cli11 ALIAS dpi_cli11)

if(DPI_DEVELOPER_MODE)
  find_package(doctest QUIET)
  if(NOT doctest_FOUND)
    message(STATUS "doctest not found: the tests are left out (packaging/setup.sh test installs it)")
  endif()
  find_package(benchmark QUIET)
  set(HDF5_PREFER_PARALLEL OFF)
  find_package(HDF5 QUIET COMPONENTS C)
  if(HDF5_FOUND)
    add_library(dpi_hdf5 INTERFACE)
    target_include_directories(dpi_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
    target_link_libraries(dpi_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
    add_library(dpi::hdf5 ALIAS dpi_hdf5)
  else()
    message(STATUS "HDF5 not found: tests that compare with it are left out (packaging/setup.sh test installs it)")
  endif()
  # Debian's own interpreter first: setup.sh installs numpy, h5py and pytest for it.
  find_program(DPI_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(DPI_PYTHON NAMES python3)
endif()
