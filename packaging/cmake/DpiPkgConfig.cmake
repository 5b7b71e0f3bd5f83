# dpi.pc for users of an installed SDK, and one for programs built against the build tree (<build>/pkgconfig), whose
# linker flags name the build's own library: PKG_CONFIG_PATH=<build>/pkgconfig.
function(dpi_pkg_config output prefix includedir libdir rpath)
  set(DPI_PC_PREFIX ${prefix})
  set(DPI_PC_INCLUDEDIR ${includedir})
  set(DPI_PC_LIBDIR ${libdir})
  set(DPI_PC_RPATH ${rpath})
  configure_file(${PROJECT_SOURCE_DIR}/packaging/dpi.pc.in ${output} @ONLY)
endfunction()

dpi_pkg_config(${PROJECT_BINARY_DIR}/packaging/dpi.pc ${CMAKE_INSTALL_PREFIX} "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}"
               "\${prefix}/${CMAKE_INSTALL_LIBDIR}" "")
dpi_pkg_config(${PROJECT_BINARY_DIR}/pkgconfig/dpi.pc ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/capi/include
               ${PROJECT_BINARY_DIR}/lib " -Wl,-rpath,${PROJECT_BINARY_DIR}/lib")
install(FILES ${PROJECT_BINARY_DIR}/packaging/dpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
