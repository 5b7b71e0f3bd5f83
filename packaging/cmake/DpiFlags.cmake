# The interface target `dpi_flags`: what every target of the project compiles with. No -march=native and no -ffast-math:
# one binary runs on every x86-64 host, and instruction sets are chosen at run time in kernels/cpu.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

include(CheckPIESupported)
check_pie_supported()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(dpi_flags INTERFACE)
target_compile_options(dpi_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra>)
# g++ 12 warns falsely about "literal" + std::string (its bug 105651).
target_compile_options(dpi_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
# clang sees libstdc++ 12's own std::stable_sort use a function that C++17 deprecates.
target_compile_options(dpi_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
if(DPI_DEVELOPER_MODE)
  target_compile_options(dpi_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
target_include_directories(dpi_flags INTERFACE ${PROJECT_SOURCE_DIR}/sdk/src ${PROJECT_SOURCE_DIR}/kernels/include
                                               ${PROJECT_SOURCE_DIR}/capi/include)
target_link_libraries(dpi_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

# What a mistake of ours would meet: a guard word behind arrays on the stack, checked copies into buffers of known size, and
# entry marks for indirect calls. dpi_ship below adds what the linker does.
set(dpi_hardening -fstack-protector-strong)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
  list(APPEND dpi_hardening -fcf-protection=full)
endif()
if(NOT DPI_SANITIZE)  # a sanitizer checks more, and does not see through the checked copies
  target_compile_options(dpi_flags INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${dpi_hardening}>")
  target_compile_options(dpi_flags INTERFACE  # needs an optimising compiler
    "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
endif()

# dpi_ship(target): a library or program that is installed or packed. Every symbol is bound at load and read-only from then on,
# no stack is executable, no code is written to; and the C++ runtime is inside and hidden, so that it needs libc and libm only. What
# nothing refers to is left out: of the runtime that would be what asks for a newer glibc (std::random_device: arc4random of 2.36).
# SYSTEM_RUNTIME: a plugin over a library in C++ shares that library's runtime instead.
function(dpi_ship target)
  target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,text -Wl,--as-needed)
  if(DPI_SELF_CONTAINED AND NOT "SYSTEM_RUNTIME" IN_LIST ARGN)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,--gc-sections)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/link/find_object.c)
  endif()
  if(NOT DPI_SANITIZE)
    # A sanitizer's runtime is resolved from the program at load time, so its symbols are undefined at this link.
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

if(DPI_SANITIZE)
  # -fno-sanitize-recover: undefined behaviour ends the test with an error instead of a line in a log.
  set(dpi_sanitize_flags -fsanitize=${DPI_SANITIZE} -fno-omit-frame-pointer)
  if(DPI_SANITIZE MATCHES undefined)
    # Without vptr: clang's runtime for it wants C++ in the program, and ours are also C, Go and Java.
    list(APPEND dpi_sanitize_flags -fno-sanitize-recover=undefined -fno-sanitize=vptr)
  endif()
  target_compile_options(dpi_flags INTERFACE ${dpi_sanitize_flags})
  # g++ 12 takes members of a variant for uninitialised where a sanitizer's checks stand between (its bug 105562), and with them
  # an address compared with null is no constant: the op table's compile-time checks ask for this definition.
  target_compile_options(dpi_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_compile_definitions(dpi_flags INTERFACE DPI_SANITIZED)
  target_link_options(dpi_flags INTERFACE ${dpi_sanitize_flags})
endif()
