# For another processor or system: libraries from headers alone. Debian's own /usr/include has those that work
# everywhere: fmt, spdlog and nlohmann_json; for macOS also the ones of the floors above.
foreach(target fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json)
  add_library(${target} INTERFACE IMPORTED)
endforeach()
set_target_properties(fmt::fmt PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY)
set_target_properties(spdlog::spdlog PROPERTIES INTERFACE_COMPILE_DEFINITIONS
                      "SPDLOG_HEADER_ONLY;SPDLOG_FMT_EXTERNAL")

if(APPLE)
  # A folder of links, because the rest of /usr/include is Linux's. On a Mac these come from Homebrew;
  # libcurl, libedit and SQLite are parts of macOS, whose headers are those of the same libraries here.
  set(borrowed ${CMAKE_BINARY_DIR}/borrowed_headers)
  file(MAKE_DIRECTORY ${borrowed})
  file(GLOB curl_headers /usr/include/*/curl /usr/include/curl)
  list(GET curl_headers 0 curl_headers)
  foreach(header fmt spdlog nlohmann CLI toml++ boost xxhash.h histedit.h sqlite3.h)
    file(CREATE_LINK /usr/include/${header} ${borrowed}/${header} SYMBOLIC)
  endforeach()
  file(CREATE_LINK ${curl_headers} ${borrowed}/curl SYMBOLIC)
  foreach(target CLI11::CLI11 Boost::headers PkgConfig::tomlplusplus PkgConfig::libedit SQLite::SQLite3)
    add_library(${target} INTERFACE IMPORTED)
  endforeach()
  foreach(target fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json CLI11::CLI11 Boost::headers
                 PkgConfig::tomlplusplus PkgConfig::libedit SQLite::SQLite3)
    target_include_directories(${target} SYSTEM INTERFACE ${borrowed})
  endforeach()
  target_link_libraries(PkgConfig::libedit INTERFACE -L${CMAKE_SOURCE_DIR}/cmake/macos -ledit)
  target_link_libraries(SQLite::SQLite3 INTERFACE -L${CMAKE_SOURCE_DIR}/cmake/macos -lsqlite3)
  set(CURL_INCLUDE_DIRS ${borrowed})
endif()

if(BUILD_TESTING)
  # googletest is built from the sources of libgtest-dev.
  find_path(GOOGLETEST_SOURCES googletest/CMakeLists.txt PATHS /usr/src/googletest REQUIRED)
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  add_subdirectory(${GOOGLETEST_SOURCES} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
endif()
