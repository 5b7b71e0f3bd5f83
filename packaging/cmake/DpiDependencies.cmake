# Third-party libraries, each as one target `dpi::<name>`; `packaging/setup.sh build` installs all that is REQUIRED here.
# The library needs xxhash and nlohmann_json (headers). CLI11 is for the program, HDF5, doctest and benchmark for the tests: the
# library reads bundles with code of its own, and the tests compare it with HDF5's.

find_package(PkgConfig REQUIRED)

pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
add_library(dpi::xxhash ALIAS PkgConfig::xxhash)

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
add_library(dpi_sodium INTERFACE)
if(sodium_FOUND)
  target_link_libraries(dpi_sodium INTERFACE PkgConfig::sodium)
endif()
add_library(dpi::sodium ALIAS dpi_sodium)

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
