# The whole program for AArch64, with the libraries that tools/setup aarch64 unpacked.
include(${CMAKE_CURRENT_LIST_DIR}/aarch64.cmake)
get_filename_component(FORETOKEN_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../.cache/aarch64/root ABSOLUTE)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${FORETOKEN_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${FORETOKEN_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${FORETOKEN_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${FORETOKEN_SYSROOT}/usr/share/pkgconfig)
set(FORETOKEN_CARGO_TARGET aarch64-unknown-linux-gnu)
set(FORETOKEN_CARGO ${CMAKE_COMMAND} -E env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=${CMAKE_C_COMPILER}
    cargo build --target ${FORETOKEN_CARGO_TARGET})
set(debian_rust ${FORETOKEN_SYSROOT}/../rust/usr)
if(EXISTS ${debian_rust})
  set(ENV{RUSTFLAGS} --sysroot=${debian_rust})
endif()
