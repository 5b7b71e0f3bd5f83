# Included by sdk/src/backend/CMakeLists.txt.
set(DPI_CPU_BACKEND_SOURCES cpu/cpu_backend.cpp cpu/cpu_op.cpp)
set_source_files_properties(${DPI_CPU_BACKEND_SOURCES} PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR})
