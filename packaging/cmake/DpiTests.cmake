# What ctest runs. One program per folder of tests/ holds its doctest cases: tests/capi is bin/tests/capi_tests, tests/store/redis is
# bin/tests/store_redis_tests. Its sources are compiled in units (DpiUnits.cmake). Each call of dpi_test is a ctest entry of its own, in a process
# of its own, that runs the cases of its own files: `capi_tests --device=cpu --source-file=*/tests/capi/predict_test.cpp`. A filter that matches
# no case fails (tests/support/test_main.cpp).
#
#   dpi_test(capi_predict_test SOURCES predict_test.cpp LIBS libdpi DEVICES ref cpu)
#   dpi_test(redis_parts_test SOURCES parts_test.cpp fixture.cpp LIBS store NEEDS dpi_redis DEFINITIONS DPI_REDIS="$<TARGET_FILE:dpi_redis>")
#
#   SOURCES       cases stand in files named *_test.cpp; the others support them. Objects are fine: $<TARGET_OBJECTS:x>. Another test of the
#                 folder may name the same ones
#   LIBS          as DpiLayers.cmake says; a program gets those of all its tests
#   DEVICES       one entry a device, named <name>.<device>, which gets --device=<device>
#   ARGS, LABELS, TIMEOUT, DEFINITIONS, NEEDS      further arguments; labels beside the area; seconds; macros of the program; what to build before it, where this build has it
#   ALONE         of SOURCES, those that stay out of units: they define a macro that changes a header. So does a source with options of its own
#   IN            the program, where a folder has several: what it links differs (an emulated device inside; libdpi.so and not its layers)
#   APART         a program of its own, bin/tests/<name>: it replaces functions of the C or C++ library (operator new, malloc, fsync), or links
#                 what must not be in the others
#   NO_MAIN       APART, and brings its own main
#
# Files of one unit share a file scope. So every *_test.cpp is inside a namespace named after it (`namespace dpi::test::predict_test {`),
# has `using namespace` inside it only, and undefines its macros. What two files of a folder need alike has one home in tests/support or
# in a header of the folder.
#
# `ctest -L capi` runs an area (the folder below tests/), `ninja dpi_tests_capi` builds its programs, and `ninja capi_predict_test` the program
# of one test. Exit status 77 means skipped.
#
# A tree that is cross-compiled has the tests of some areas (tests/CMakeLists.txt), which ctest runs through CMAKE_CROSSCOMPILING_EMULATOR. The
# emulated GPU and commands are left out: one is slow enough by itself, the others start programs that this machine cannot run.
function(dpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "APART;NO_MAIN" "IN;TIMEOUT" "SOURCES;ALONE;LIBS;DEVICES;ARGS;LABELS;DEFINITIONS;NEEDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "dpi_test(${name}): what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  if(arg_NO_MAIN OR arg_APART)
    set(program ${name})
    set(filter "")
  else()
    dpi_test_filter(filter ${name} ${arg_SOURCES})
    if(arg_IN)
      set(program ${arg_IN})
    else()
      cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests OUTPUT_VARIABLE folder)
      string(REPLACE "/" "_" folder ${folder})
      set(program ${folder}_tests)
    endif()
    add_custom_target(${name} DEPENDS ${program})
  endif()
  if(CMAKE_CROSSCOMPILING AND arg_DEVICES)
    list(REMOVE_ITEM arg_DEVICES cuda_emu cpu:avx2)
    if(NOT arg_DEVICES)
      return()
    endif()
  endif()
  if("cuda_emu" IN_LIST arg_DEVICES)
    list(APPEND arg_NEEDS dpi_cuda_emu)
  endif()
  get_property(known DIRECTORY PROPERTY DPI_TEST_PROGRAMS)
  if(NOT program IN_LIST known)
    set_property(DIRECTORY APPEND PROPERTY DPI_TEST_PROGRAMS ${program})
    # At the end of the folder, when all tests of the program are known.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL dpi_test_program ${program} ${arg_NO_MAIN})")
    cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME area)
    if(NOT TARGET dpi_tests_${area})
      add_custom_target(dpi_tests_${area})
    endif()
    add_dependencies(dpi_tests_${area} ${program})
  endif()
  foreach(what SOURCES ALONE LIBS DEFINITIONS NEEDS)
    set_property(DIRECTORY APPEND PROPERTY DPI_${program}_${what} ${arg_${what}})
  endforeach()
  if(arg_DEVICES)
    foreach(device IN LISTS arg_DEVICES)
      add_test(NAME ${name}.${device} COMMAND ${program} --device=${device} ${filter} ${arg_ARGS})
      dpi_test_properties(${name}.${device})
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${program} ${filter} ${arg_ARGS})
    dpi_test_properties(${name})
  endif()
endfunction()

# doctest's filter for the cases of these sources: __FILE__ ends with the path from the project's root, in a unit or not.
function(dpi_test_filter out name)
  set(patterns "")
  foreach(source IN LISTS ARGN)
    if(source MATCHES "_test[.]cpp$")
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      list(APPEND patterns "*/${source}")
    endif()
  endforeach()
  if(NOT patterns)
    message(FATAL_ERROR "dpi_test(${name}): none of its sources is named *_test.cpp")
  endif()
  list(JOIN patterns "," patterns)
  set(${out} "--source-file=${patterns}" PARENT_SCOPE)
endfunction()

# Makes a program out of what its tests named. Called at the end of their folder.
function(dpi_test_program program no_main)
  foreach(what SOURCES ALONE LIBS DEFINITIONS NEEDS)
    get_property(${what} DIRECTORY PROPERTY DPI_${program}_${what})
    list(REMOVE_DUPLICATES ${what})
  endforeach()
  if("libdpi" IN_LIST LIBS AND "engine" IN_LIST LIBS)
    message(FATAL_ERROR "${program}: libdpi and its layers do not go into one program; see IN")
  endif()
  foreach(source IN LISTS SOURCES)
    if(source MATCHES "[.]cpp$")
      get_source_file_property(options ${source} COMPILE_OPTIONS)
      get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
      if(options OR definitions)
        list(APPEND ALONE ${source})
      endif()
    endif()
  endforeach()
  dpi_units(compiled ${program} SOURCES ${SOURCES} APART ${ALONE})
  add_executable(${program} ${compiled})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${program} PRIVATE ${DEFINITIONS})
  dpi_link(${program} ${LIBS})
  dpi_quick_to_compile(${program})
  if(NOT no_main)
    target_link_libraries(${program} PRIVATE dpi_test_main)
  endif()
  foreach(need IN LISTS NEEDS)
    if(TARGET ${need})
      add_dependencies(${program} ${need})
    endif()
  endforeach()
  if(NOT compiled STREQUAL SOURCES)
    list(FILTER SOURCES INCLUDE REGEX "[.]cpp$")
    dpi_each_file(${program} ${SOURCES})
  endif()
endfunction()

# A test that is any command: dpi_command_test(name COMMAND python3 x.py [LABELS ...] [TIMEOUT seconds]).
function(dpi_command_test name)
  if(CMAKE_CROSSCOMPILING)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;LABELS")
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  dpi_test_properties(${name})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME area)
  cmake_language(EVAL CODE "cmake_language(DEFER CALL dpi_commands_area ${area})")
endfunction()

# An area of commands alone has a target too: they run the program, the library, and the plugins that this build has.
function(dpi_commands_area area)
  if(TARGET dpi_tests_${area})
    return()
  endif()
  add_custom_target(dpi_tests_${area})
  foreach(need dpi_program dpi dpi_cuda_emu dpi_redis dpi_rocksdb)
    if(TARGET ${need})
      add_dependencies(dpi_tests_${area} ${need})
    endif()
  endforeach()
endfunction()

# Called by dpi_test and dpi_command_test only; reads their arg_TIMEOUT and arg_LABELS.
macro(dpi_test_properties test)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME dpi_area)
  if("${arg_TIMEOUT}" STREQUAL "")
    set(arg_TIMEOUT 300)
  endif()
  set(dpi_timeout ${arg_TIMEOUT})
  if(CMAKE_CROSSCOMPILING)  # an emulator takes ten to thirty times as long
    math(EXPR dpi_timeout "12 * ${arg_TIMEOUT}")
  endif()
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${dpi_timeout} LABELS "${dpi_area};${arg_LABELS}"
                                          WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  list(FIND DPI_LONGEST_TESTS ${test} dpi_place)
  if(dpi_place GREATER_EQUAL 0)  # ctest starts what costs most first, or the longest would run alone at the end
    math(EXPR dpi_cost "1000 - ${dpi_place}")
    set_tests_properties(${test} PROPERTIES COST ${dpi_cost})
  endif()
  if(TARGET dpi_cuda_emu)  # where plugins of the build tree lie
    set_tests_properties(${test} PROPERTIES ENVIRONMENT_MODIFICATION
                                            "DPI_BACKEND_DIR=set:$<TARGET_FILE_DIR:dpi_cuda_emu>")
  endif()
  if(DPI_SANITIZE MATCHES thread)
    # oneDNN's OpenMP runtime is not instrumented: its own threads would be reported, so it gets one.
    set(dpi_supp ${PROJECT_SOURCE_DIR}/tests/support/tsan.supp)
    set_tests_properties(${test} PROPERTIES ENVIRONMENT
                                            "OMP_NUM_THREADS=1;TSAN_OPTIONS=suppressions=${dpi_supp}:atexit_sleep_ms=0")
  endif()
endmacro()
