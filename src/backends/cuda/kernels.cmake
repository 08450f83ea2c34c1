# The kernels of the cuda backend, compiled by NVRTC (tools/setup cuda) and embedded. Without NVRTC the
# backend is built without them and says so when somebody asks for it.
set(FORETOKEN_CUDA AUTO CACHE STRING "Compile kernels for NVIDIA GPUs: ON, OFF, or AUTO (if NVRTC is there)")
set_property(CACHE FORETOKEN_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FORETOKEN_CUDA_TARGETS all CACHE STRING "Architectures with commas between, as sm_90a,compute_80; or all")

set(nvrtc ${CMAKE_SOURCE_DIR}/.cache/cuda/nvidia/cuda_nvrtc/lib)
if(FORETOKEN_CUDA STREQUAL "OFF" OR CMAKE_CROSSCOMPILING OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  return()
endif()
if(NOT EXISTS ${nvrtc}/libnvrtc.so.12)
  if(FORETOKEN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FORETOKEN_CUDA is ON, but there is no NVRTC in .cache/cuda: run tools/setup cuda")
  endif()
  message(STATUS "The cuda backend is left out: .cache/cuda has no NVRTC. tools/setup cuda brings it.")
  return()
endif()

add_executable(compile_kernels ${kernel_compiler})
target_link_libraries(compile_kernels PRIVATE ft_options ${CMAKE_DL_LIBS} Threads::Threads)
file(GLOB cuda_kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels/*.cu)
file(GLOB cuda_headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels/*.cuh)
set(cuda_bytes ${CMAKE_CURRENT_BINARY_DIR}/kernels.bin)
add_custom_command(
  OUTPUT ${cuda_bytes}
  BYPRODUCTS ${cuda_bytes}.log
  COMMAND compile_kernels ${nvrtc} ${CMAKE_SOURCE_DIR}/.cache/cuda/images ${CMAKE_SOURCE_DIR}/src
          ${cuda_bytes} ${FORETOKEN_CUDA_TARGETS} ${cuda_kernels}
  DEPENDS compile_kernels ${cuda_kernels} ${cuda_headers} ${CMAKE_CURRENT_SOURCE_DIR}/cuda/arguments.h
  COMMENT "The kernels for NVIDIA GPUs, with NVRTC (-DFORETOKEN_CUDA=OFF builds without)"
  VERBATIM)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/kernel_bytes.cpp @ONLY CONTENT [=[
#include "backends/cuda/kernel_images.h"

asm(R"(
.section .rodata
.balign 64
.globl ft_cuda_kernels
ft_cuda_kernels:
.incbin "@cuda_bytes@"
.globl ft_cuda_kernels_end
ft_cuda_kernels_end:
.previous
)");
extern "C" const std::byte ft_cuda_kernels[], ft_cuda_kernels_end[];

namespace ft::cuda {

std::span<const std::byte> kernel_bytes() { return {ft_cuda_kernels, ft_cuda_kernels_end}; }

}  // namespace ft::cuda
]=])
set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/kernel_bytes.cpp PROPERTIES
                            OBJECT_DEPENDS ${cuda_bytes} SKIP_UNITY_BUILD_INCLUSION ON)
list(REMOVE_ITEM backend_sources ${CMAKE_CURRENT_SOURCE_DIR}/cuda/no_kernels.cpp)
list(APPEND backend_sources ${CMAKE_CURRENT_BINARY_DIR}/kernel_bytes.cpp)

# Registers and spills of every kernel against the table in the tree, for the architectures of this build.
if(BUILD_TESTING)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME cuda_kernels.resources COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/gpu/resources
                                               ${cuda_bytes}.log)
endif()
