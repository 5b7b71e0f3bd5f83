# Units: several sources compiled as one, so that the headers they share are read once. A layer of 45 files takes a third of the time.
#
# DPI_UNITY is the number of sources a unit (0: each alone). Names of one unit share a file scope: two sources must not define the same
# name in an anonymous namespace, and a macro must be undefined by the file that defines it. A build of each file alone finds a missing
# include: `ninja dpi_each_file` compiles every source that units hide, and compile_commands.json lists each of them for clang-tidy and clangd.
set(DPI_UNITY 16 CACHE STRING "Sources compiled together as one unit; 0: each alone")
if(NOT DPI_UNITY MATCHES "^[0-9]+$")
  message(FATAL_ERROR "DPI_UNITY must be a number of sources, not '${DPI_UNITY}'")
endif()

# dpi_units(out name SOURCES a.cpp b.cpp ... [APART c.cpp ...] [COLD d.cpp ...]): `out` becomes the files to compile for these sources.
# Sources are paths below the calling folder. APART stay alone. COLD run while a model is loaded or described, never in a predict: they
# get units of their own and -O1, which compiles in two thirds of the time.
function(dpi_units out name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;APART;COLD")
  set(alone ${arg_SOURCES})
  list(FILTER alone EXCLUDE REGEX "[.]cpp$")
  list(APPEND alone ${arg_APART})
  set(hot ${arg_SOURCES})
  list(REMOVE_ITEM hot ${alone} ${arg_COLD})
  set(cold ${arg_COLD})
  list(REMOVE_ITEM cold ${alone})
  dpi_units_of(hot_units ${name} ${hot})
  dpi_units_of(cold_units ${name}_cold ${cold})
  if(NOT DPI_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_source_files_properties(${arg_COLD} ${cold_units} PROPERTIES COMPILE_OPTIONS -O1)
  endif()
  set(${out} ${hot_units} ${cold_units} ${alone} PARENT_SCOPE)
endfunction()

# Units as even as the count allows. Paths in a unit are relative to the project's root, so that a compiler cache finds the same unit in
# another copy of the tree.
function(dpi_units_of out name)
  list(LENGTH ARGN count)
  if(DPI_UNITY EQUAL 0 OR count LESS 2)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(result "")
  math(EXPR units "(${count} + ${DPI_UNITY} - 1) / ${DPI_UNITY}")
  foreach(unit RANGE 1 ${units})
    math(EXPR begin "${count} * (${unit} - 1) / ${units}")
    math(EXPR size "${count} * ${unit} / ${units} - ${begin}")
    list(SUBLIST ARGN ${begin} ${size} members)
    set(text "")
    foreach(member IN LISTS members)
      cmake_path(ABSOLUTE_PATH member BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
      cmake_path(RELATIVE_PATH member BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(APPEND text "#include \"${member}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/units/${name}_${unit}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND result ${file})
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# dpi_each_file(target source...): objects of these sources, each compiled alone with the target's options, made on demand only:
# `ninja dpi_each_file`.
function(dpi_each_file target)
  if(DPI_UNITY EQUAL 0)
    return()
  endif()
  add_library(${target}_files OBJECT EXCLUDE_FROM_ALL ${ARGN})
  target_compile_options(${target}_files PRIVATE $<TARGET_PROPERTY:${target},COMPILE_OPTIONS>)
  target_compile_definitions(${target}_files PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  target_include_directories(${target}_files PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  if(NOT TARGET dpi_each_file)
    add_custom_target(dpi_each_file)
  endif()
  add_dependencies(dpi_each_file ${target}_files)
endfunction()
