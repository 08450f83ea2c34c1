# Every external library, with the oldest version known to work (Debian 12's).
find_package(Threads REQUIRED)
if(CMAKE_CROSSCOMPILING AND NOT FORETOKEN_SYSROOT)
  include(cmake/cross_dependencies.cmake)
else()
  find_package(fmt 9 REQUIRED)
  find_package(spdlog 1.10 REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
  find_package(CLI11 2.1 REQUIRED)
  if(BUILD_TESTING)
    find_package(GTest 1.12 REQUIRED)
  endif()
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(libedit REQUIRED IMPORTED_TARGET libedit)
  pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
  pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
  find_package(Boost 1.81 REQUIRED)  # Beast and Asio: headers only
  find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)  # hashes of downloads
  find_package(CURL 7.85 REQUIRED)  # headers only
  find_package(SQLite3 3.40 REQUIRED)  # stored responses
  find_package(benchmark 1.7 QUIET)
endif()
find_program(CCACHE ccache)
if(CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE} CACHE STRING "Runs the compiler; empty: nothing")
endif()
