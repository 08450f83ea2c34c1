# aarch64 macOS by zig, on Linux (tools/setup mac): zig brings a C++ library and the headers of macOS that are
# free. What it links has system libraries only. Nothing is run: there is no emulator for macOS.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_ARCHITECTURES "" CACHE STRING "zig's target says it")
set(CMAKE_OSX_DEPLOYMENT_TARGET "" CACHE STRING "zig's target says it")
set(CMAKE_OSX_SYSROOT "" CACHE STRING "zig brings the headers")
set(FORETOKEN_ZIG 1)
set(mac ${CMAKE_CURRENT_LIST_DIR}/../.cache/mac)
set(CMAKE_CXX_COMPILER ${mac}/bin/c++)
set(CMAKE_AR ${mac}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${mac}/bin/ranlib CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL /bin/true CACHE FILEPATH "There is none, and nothing to rename")
set(CMAKE_FIND_ROOT_PATH ${mac})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Not the machine's own cargo alone: the standard library for macOS is built from its source (tools/setup
# mac).
set(FORETOKEN_CARGO ${mac}/bin/cargo-for-mac)
set(FORETOKEN_CARGO_TARGET aarch64-apple-darwin)
set(CMAKE_CXX_FLAGS_INIT "-include ${CMAKE_CURRENT_LIST_DIR}/macos/first.inc")
