# Included by sdk/src/backend/CMakeLists.txt, sdk/src/store/CMakeLists.txt, sdk/src/runtime/CMakeLists.txt and by tests.
#
# dpi_plugin_layout(out name header...): the number DPI_<name>_ABI of a plugins' interface and a digest of what the headers declare,
# "4-0123456789abcdef". Every member, its type, its place, every value counts; comments and spacing do not. A plugin says which it was
# compiled with, and the host refuses another: two builds of one number with different structs are told apart. The first header defines the
# number.
function(dpi_plugin_layout out name)
  set(declared "")
  foreach(header IN LISTS ARGN)
    file(READ ${header} text)
    if(NOT declared AND NOT text MATCHES "#define DPI_${name}_ABI ([0-9]+)u\n")
      message(FATAL_ERROR "${header} defines no DPI_${name}_ABI")
    elseif(NOT declared)
      set(number ${CMAKE_MATCH_1})
    endif()
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
    string(REGEX REPLACE "[ \t\n]+" " " text "${text}")
    string(REGEX REPLACE " ?([^A-Za-z0-9_ ]) ?" "\\1" text "${text}")
    string(APPEND declared "${text}\n")
  endforeach()
  string(SHA256 digest "${declared}")
  string(SUBSTRING ${digest} 0 16 digest)
  set(${out} ${number}-${digest} PARENT_SCOPE)
endfunction()

# The backends' interface, and target dpi_<name>_layout of any: what a host and its plugins are compiled with, made anew when a header of
# the interface changes.
function(dpi_backend_layout out)
  dpi_plugin_layout(layout BACKEND ${ARGN})
  set(${out} ${layout} PARENT_SCOPE)
endfunction()

function(dpi_layout_target name)
  string(TOUPPER ${name} upper)
  dpi_plugin_layout(layout ${upper} ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  add_library(dpi_${name}_layout INTERFACE)
  target_compile_definitions(dpi_${name}_layout INTERFACE DPI_${upper}_LAYOUT="${layout}")
endfunction()

# The headers that a plugin and the host share, the interface's own first.
function(dpi_backend_headers out)
  cmake_path(SET source NORMALIZE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../..)
  file(GLOB attributes ${source}/../../kernels/include/dpi/kernels/*.hpp)
  set(${out} ${source}/backend/abi/dpi_backend.h ${source}/ops/op_desc.h ${attributes} PARENT_SCOPE)
endfunction()

function(dpi_store_headers out)
  cmake_path(SET source NORMALIZE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../..)
  set(${out} ${source}/store/abi/dpi_store.h ${source}/../../kernels/include/dpi/kernels/tensor.hpp PARENT_SCOPE)
endfunction()

function(dpi_stream_headers out)
  cmake_path(SET source NORMALIZE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../..)
  set(${out} ${source}/runtime/stream/abi/dpi_stream.h PARENT_SCOPE)
endfunction()
