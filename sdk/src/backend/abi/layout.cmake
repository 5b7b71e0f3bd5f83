# Included by sdk/src/backend/CMakeLists.txt and by tests/backend.
#
# dpi_backend_layout(out header...): the backend interface's number and a digest of what the headers declare, "4-0123456789abcdef". Every
# member, its type, its place, every value counts; comments and spacing do not. A plugin says which it was compiled with, and the host
# refuses another: two builds of one number with different structs are told apart. The first header defines the number.
function(dpi_backend_layout out)
  set(declared "")
  foreach(header IN LISTS ARGN)
    file(READ ${header} text)
    if(NOT declared AND NOT text MATCHES "#define DPI_BACKEND_ABI ([0-9]+)u\n")
      message(FATAL_ERROR "${header} defines no DPI_BACKEND_ABI")
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

# The headers that a plugin and the host share, the interface's own first.
function(dpi_backend_headers out)
  cmake_path(SET source NORMALIZE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../..)
  file(GLOB attributes ${source}/../../kernels/include/dpi/kernels/*.hpp)
  set(${out} ${source}/backend/abi/dpi_backend.h ${source}/ops/op_desc.h ${attributes} PARENT_SCOPE)
endfunction()
