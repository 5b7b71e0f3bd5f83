# DPI_CUDA=ON|AUTO|OFF and DPI_CUDA_ARCHS. Sets DPI_CUDA_ENABLED; without it no CUDA toolkit is looked for.
set(DPI_CUDA_ARCHS "80;86;89;90;100" CACHE STRING "Architectures of libdpi_cuda.so; PTX of the last one is added")
set(DPI_CUDA_ENABLED OFF)
if(DPI_CUDA STREQUAL "OFF")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(DPI_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DPI_CUDA=ON, but there is no CUDA compiler: put nvcc on PATH or set CMAKE_CUDA_COMPILER")
  endif()
  message(STATUS "no CUDA compiler: libdpi_cuda.so is left out")
  return()
endif()

# All architectures but the last as code only, the last as code and PTX for later ones.
set(dpi_archs ${DPI_CUDA_ARCHS})
list(POP_BACK dpi_archs dpi_last)
list(TRANSFORM dpi_archs APPEND "-real")
set(CMAKE_CUDA_ARCHITECTURES ${dpi_archs} ${dpi_last})
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know the flag of CUDA 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)
set(DPI_CUDA_ENABLED ON)

function(dpi_cuda_options target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  if(DPI_DEVELOPER_MODE)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror>")
  endif()
endfunction()
