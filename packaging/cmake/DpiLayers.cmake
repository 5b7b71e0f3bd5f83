# One helper per kind of target. A folder's CMakeLists.txt holds one or two calls and nothing else:
#
#   sdk/src/graph/CMakeLists.txt     dpi_stage(graph SOURCES graph.cpp build.cpp DEPS base bundle LIBS JSON)
#   kernels/ref/CMakeLists.txt       dpi_kernels(ref SOURCES linear.cpp)
#   capi/src/CMakeLists.txt          dpi_capi(SOURCES model.cpp error.cpp DEPS runtime)
#   sdk/tools/dpi/CMakeLists.txt     dpi_program(dpi SOURCES main.cpp LIBS CLI11 JSON)
#   tests/graph/CMakeLists.txt       dpi_test(shape_test SOURCES shape_test.cpp LIBS graph DEVICES ref cpu)      (DpiTests.cmake)
#   tests/bench/CMakeLists.txt       dpi_bench(lookup_bench SOURCES lookup_bench.cpp LIBS kernels_cpu)
#
# DEPS and LIBS name layers or third-party libraries:
#   a layer     base bundle encode ops graph plan backend store runtime kernels_ref kernels_cpu capi
#               -> its objects and, through its DEPS, the objects of all layers below it
#   engine      -> everything below the C API, as one static library (libdpi_engine.a)
#   libdpi      -> the shared library libdpi.so.1, as a user of the SDK links it
#   HDF5 XXHASH JSON DNNL SODIUM CLI11 -> the target dpi::<name>
#   any other name is passed to target_link_libraries unchanged.

set(DPI_STAGES base bundle encode ops graph plan backend store runtime)
set(DPI_LAYERS kernels_ref kernels_cpu ${DPI_STAGES} capi)
set(DPI_THIRD_PARTY HDF5 XXHASH JSON DNNL SODIUM CLI11)

# Adds a folder by its path from the project's root, whoever asks. One without a CMakeLists.txt is an error: tests that nobody
# runs would otherwise go unnoticed.
function(dpi_add_folder path)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${path}/CMakeLists.txt)
    message(FATAL_ERROR "dpi_add_folder: ${path}/CMakeLists.txt does not exist")
  endif()
  add_subdirectory(${PROJECT_SOURCE_DIR}/${path})
endfunction()

# An OBJECT library dpi_<layer>. Its order among the layers is checked here, its includes by tests/rules. Sources are compiled in units
# (DpiUnits.cmake says what APART and COLD are).
function(dpi_layer layer)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;LIBS;APART;COLD")
  list(FIND DPI_LAYERS ${layer} own_rank)
  foreach(dep IN LISTS arg_DEPS)
    list(FIND DPI_LAYERS ${dep} dep_rank)
    if(dep_rank LESS 0 OR NOT dep_rank LESS own_rank)
      message(FATAL_ERROR "layer '${layer}' must not depend on '${dep}': the order is ${DPI_LAYERS}")
    endif()
  endforeach()
  dpi_units(compiled dpi_${layer} SOURCES ${arg_SOURCES} APART ${arg_APART} COLD ${arg_COLD})
  add_library(dpi_${layer} OBJECT ${compiled})
  target_link_libraries(dpi_${layer} PRIVATE dpi_flags)
  target_include_directories(dpi_${layer} PRIVATE ${PROJECT_SOURCE_DIR})  # units name their sources from there
  dpi_each_file(dpi_${layer} ${arg_SOURCES})
  set(third_party "")
  foreach(lib IN LISTS arg_LIBS)
    string(TOLOWER ${lib} lower)
    if(lib IN_LIST DPI_THIRD_PARTY)
      list(APPEND third_party dpi::${lower})
    else()
      list(APPEND third_party ${lib})
    endif()
  endforeach()
  target_link_libraries(dpi_${layer} PRIVATE ${third_party})
  set_target_properties(dpi_${layer} PROPERTIES DPI_DEPS "${arg_DEPS}" DPI_THIRD_PARTY "${third_party}" DPI_SOURCES "${arg_SOURCES}")
  set_property(GLOBAL APPEND PROPERTY DPI_LAYERS_BUILT ${layer})
endfunction()

function(dpi_stage stage)
  if(NOT stage IN_LIST DPI_STAGES)
    message(FATAL_ERROR "unknown stage '${stage}'; the stages are ${DPI_STAGES}")
  endif()
  dpi_layer(${stage} ${ARGN})
endfunction()

function(dpi_kernels backend)
  dpi_layer(kernels_${backend} ${ARGN})
endfunction()

function(dpi_capi)
  dpi_layer(capi ${ARGN})
endfunction()

# out_layers: `layers` and everything below them, each once.
function(dpi_closure out_layers)
  set(queue ${ARGN})
  set(seen "")
  while(queue)
    list(POP_FRONT queue layer)
    if(layer IN_LIST seen)
      continue()
    endif()
    if(NOT TARGET dpi_${layer})
      message(FATAL_ERROR "there is no layer '${layer}'; the layers are ${DPI_LAYERS}")
    endif()
    list(APPEND seen ${layer})
    get_target_property(deps dpi_${layer} DPI_DEPS)
    if(deps)
      list(APPEND queue ${deps})
    endif()
  endwhile()
  set(${out_layers} ${seen} PARENT_SCOPE)
endfunction()

# Gives `target` the objects and third-party libraries of the layers (and all below them).
function(dpi_use_layers target scope)
  dpi_closure(layers ${ARGN})
  foreach(layer IN LISTS layers)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:dpi_${layer}>)
    get_target_property(third_party dpi_${layer} DPI_THIRD_PARTY)
    if(third_party)
      target_link_libraries(${target} ${scope} ${third_party})
    endif()
  endforeach()
endfunction()

# Resolves LIBS as described at the top of this file.
function(dpi_link target)
  target_link_libraries(${target} PRIVATE dpi_flags)
  set(layers "")
  foreach(lib IN LISTS ARGN)
    string(TOLOWER ${lib} lower)
    if(lib IN_LIST DPI_LAYERS)
      list(APPEND layers ${lib})
    elseif(lib STREQUAL engine)
      target_link_libraries(${target} PRIVATE dpi_engine)
    elseif(lib STREQUAL libdpi)
      target_link_libraries(${target} PRIVATE dpi)
    elseif(lib IN_LIST DPI_THIRD_PARTY)
      target_link_libraries(${target} PRIVATE dpi::${lower})
    else()
      target_link_libraries(${target} PRIVATE ${lib})
    endif()
  endforeach()
  dpi_use_layers(${target} PRIVATE ${layers})
endfunction()

# What runs briefly for what it takes to compile: tests, the program, code that loads and describes. -O1, and with a sanitizer, whose code
# is slow to compile, none.
function(dpi_quick_to_compile target)
  if(DPI_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# A program of the SDK (build/<preset>/bin/<name>), linked with the engine's objects: it may print internal structs. A
# program and a library target cannot share the name `dpi`, hence the suffix.
function(dpi_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  dpi_units(compiled ${name}_program SOURCES ${arg_SOURCES})
  add_executable(${name}_program ${compiled})
  target_include_directories(${name}_program PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${name}_program PROPERTIES OUTPUT_NAME ${name})
  dpi_ship(${name}_program)
  dpi_link(${name}_program engine ${arg_LIBS})
  dpi_quick_to_compile(${name}_program)
  dpi_each_file(${name}_program ${arg_SOURCES})
  install(TARGETS ${name}_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# A plugin of the build tree is trusted whatever the umask: nobody but its owner may write to it or its folder.
function(dpi_plugin_rights target)
  add_custom_command(TARGET ${target} POST_BUILD COMMAND chmod go-w $<TARGET_FILE_DIR:${target}> $<TARGET_FILE:${target}> VERBATIM)
endfunction()

# A sample in C or C++ over <dpi/dpi.h> only.
function(dpi_sample name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES})
  dpi_link(${name} libdpi ${arg_LIBS})
endfunction()

# A Google Benchmark program in bin/bench; never run by ctest.
function(dpi_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  if(NOT benchmark_FOUND)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/bench)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  dpi_link(${name} benchmark::benchmark ${arg_LIBS})
endfunction()
