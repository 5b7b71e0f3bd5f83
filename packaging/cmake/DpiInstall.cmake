# What `cmake --install` writes: a tree that may be moved as a whole. Nothing in it names the prefix, the build or the sources;
# tests/install holds it to that.
#
#   bin/dpi   include/dpi   lib/libdpi.so.1   lib/dpi/backends-1/ (plugins)   lib/pkgconfig/dpi.pc   lib/cmake/dpi
#   share/dpi/python/dpi_export (what `dpi repack` runs; a PYTHONPATH for exporters)
#   share/doc/dpi/   LICENSE, THIRD_PARTY.md, licenses/, dpi.spdx.json, samples/
#
# Folders are writable by their owner alone, whatever the umask: the library refuses plugins from others.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CMakePackageConfigHelpers)

# dpi.pc of an installation, and one for programs built against the build tree (<build>/pkgconfig), whose linker flags name the
# build's own library: PKG_CONFIG_PATH=<build>/pkgconfig.
function(dpi_pkg_config output prefix includedir libdir rpath)
  set(DPI_PC_PREFIX ${prefix})
  set(DPI_PC_INCLUDEDIR ${includedir})
  set(DPI_PC_LIBDIR ${libdir})
  set(DPI_PC_RPATH ${rpath})
  configure_file(${PROJECT_SOURCE_DIR}/packaging/install/dpi.pc.in ${output} @ONLY)
endfunction()
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" up "${up}")
dpi_pkg_config(${PROJECT_BINARY_DIR}/packaging/dpi.pc "\${pcfiledir}/${up}" "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}"
               "\${prefix}/${CMAKE_INSTALL_LIBDIR}" "")
dpi_pkg_config(${PROJECT_BINARY_DIR}/pkgconfig/dpi.pc ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/capi/include
               ${PROJECT_BINARY_DIR}/lib " -Wl,-rpath,${PROJECT_BINARY_DIR}/lib")
install(FILES ${PROJECT_BINARY_DIR}/packaging/dpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/dpi)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/install/dpi-config.cmake.in ${PROJECT_BINARY_DIR}/packaging/dpi-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/packaging/dpi-config-version.cmake COMPATIBILITY SameMajorVersion)
install(EXPORT dpi-targets NAMESPACE dpi:: DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/packaging/dpi-config.cmake ${PROJECT_BINARY_DIR}/packaging/dpi-config-version.cmake
        DESTINATION ${package})

if(DPI_NOTICES_MISSING)
  list(JOIN DPI_NOTICES_MISSING ", " missing)
  install(CODE "message(FATAL_ERROR \"without the licence's text nothing may be passed on: ${missing}\")")
endif()
install(DIRECTORY ${DPI_NOTICES}/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(DIRECTORY weights/python/dpi_export DESTINATION ${CMAKE_INSTALL_DATADIR}/dpi/python
        FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)

set(samples ${CMAKE_INSTALL_DOCDIR}/samples)
install(FILES samples/01_score_csv.c samples/02_score_batch.c samples/03_score_candidates.cpp weights/demo/adult_widedeep.h5
              weights/demo/adult_test.csv weights/demo/msweb_deepfm.h5 DESTINATION ${samples})
install(DIRECTORY samples/java samples/go samples/python samples/prometheus DESTINATION ${samples}
        FILES_MATCHING PATTERN "*.java" PATTERN "*.go" PATTERN "*.py" PATTERN "*.yml" PATTERN "*.json" PATTERN "*_test.go" EXCLUDE)
file(READ samples/go/go.mod module)  # with the module where it is installed
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS samples/go/go.mod)
string(REPLACE "=> ../../bindings/go" "=> ../../../../gocode/src/dpiframe.org/dpi" module "${module}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/packaging/go.mod CONTENT "${module}" @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/packaging/go.mod DESTINATION ${samples}/go)
install(FILES samples/services.md DESTINATION ${samples})
install(FILES packaging/install/samples.cmake DESTINATION ${samples} RENAME CMakeLists.txt)
install(FILES packaging/install/samples.md DESTINATION ${samples} RENAME README.md)
install(FILES weights/demo/README.md DESTINATION ${samples} RENAME demo_data.md)

configure_file(${PROJECT_SOURCE_DIR}/packaging/install/list_installed.cmake.in ${PROJECT_BINARY_DIR}/packaging/list_installed.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/packaging/list_installed.cmake)  # after all others
