# For another processor: the libraries of the floors without Rust and without a terminal, from headers alone.
# Debian's cross compilers search the machine's own /usr/include, whose fmt, spdlog and nlohmann_json work for
# every processor. googletest is built from the sources of libgtest-dev.
foreach(target fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json)
  add_library(${target} INTERFACE IMPORTED)
endforeach()
set_target_properties(fmt::fmt PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY)
set_target_properties(spdlog::spdlog PROPERTIES INTERFACE_COMPILE_DEFINITIONS
                      "SPDLOG_HEADER_ONLY;SPDLOG_FMT_EXTERNAL")

find_path(GOOGLETEST_SOURCES googletest/CMakeLists.txt PATHS /usr/src/googletest REQUIRED)
set(INSTALL_GTEST OFF)
set(BUILD_GMOCK OFF)
add_subdirectory(${GOOGLETEST_SOURCES} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
