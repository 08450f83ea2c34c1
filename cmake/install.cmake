# cmake --install: the program, its model, its licence, man page, shell completions, systemd user unit; and
# the Debian package of the same (cpack -G DEB).
include(GNUInstallDirs)

# Debug information in a separate file: the program is a sixth of the size, and a debugger finds both.
find_program(FORETOKEN_OBJCOPY NAMES ${CMAKE_OBJCOPY} objcopy)
if(FORETOKEN_OBJCOPY AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT APPLE)
  add_custom_command(
    TARGET foretoken POST_BUILD
    COMMAND ${FORETOKEN_OBJCOPY} --only-keep-debug $<TARGET_FILE:foretoken> $<TARGET_FILE:foretoken>.debug
    COMMAND ${FORETOKEN_OBJCOPY} --strip-all --add-gnu-debuglink=$<TARGET_FILE:foretoken>.debug
            $<TARGET_FILE:foretoken>
    COMMENT "Debug information into foretoken.debug"
    VERBATIM)
endif()

set(words ${CMAKE_BINARY_DIR}/words)
file(MAKE_DIRECTORY ${words})
set(completions)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${words}/${shell} DEPENDS foretoken
                     COMMAND foretoken completions ${shell} > ${words}/${shell} VERBATIM)
  list(APPEND completions ${words}/${shell})
endforeach()
add_custom_command(OUTPUT ${words}/foretoken.1 DEPENDS foretoken
                   COMMAND foretoken manual > ${words}/foretoken.1 VERBATIM)
add_custom_target(shell_words ALL DEPENDS ${completions} ${words}/foretoken.1)

install(TARGETS foretoken RUNTIME)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/assets/ DESTINATION ${CMAKE_INSTALL_DATADIR}/foretoken/assets)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/THIRD_PARTY.md ${CMAKE_SOURCE_DIR}/README.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${words}/foretoken.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${words}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME foretoken)
install(FILES ${words}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _foretoken)
install(FILES ${words}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        RENAME foretoken.fish)
# systemd looks for user units in share/systemd/user of /usr, /usr/local and ~/.local. It does not know the
# PATH of a login shell, so the unit names the program by the prefix that it is installed into. It names no
# man page: systemd-analyze asks `man`, which finds those of ~/.local only with ~/.local/bin in PATH.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  install(CODE "set(bin \"${CMAKE_INSTALL_BINDIR}\")
                set(doc \"${CMAKE_INSTALL_DOCDIR}\")
                set(unit \"${CMAKE_SOURCE_DIR}/packaging/foretoken.service.in\")
                set(made \"${CMAKE_BINARY_DIR}/foretoken.service\")")
  install(CODE [[
    get_filename_component(FORETOKEN_PROGRAM "${CMAKE_INSTALL_PREFIX}/${bin}/foretoken" ABSOLUTE)
    get_filename_component(FORETOKEN_README "${CMAKE_INSTALL_PREFIX}/${doc}/README.md" ABSOLUTE)
    string(REPLACE "%" "%%" FORETOKEN_PROGRAM "${FORETOKEN_PROGRAM}")
    string(REPLACE "%" "%%25" FORETOKEN_README "${FORETOKEN_README}")  # a URI in a unit: %% is one %
    string(REPLACE " " "%%20" FORETOKEN_README "${FORETOKEN_README}")
    configure_file("${unit}" "${made}" @ONLY)]])
  install(FILES ${CMAKE_BINARY_DIR}/foretoken.service DESTINATION ${CMAKE_INSTALL_DATADIR}/systemd/user)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME foretoken)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(FORETOKEN_MAINTAINER "foretoken maintainers <foretoken@users.noreply.github.com>"
    CACHE STRING "Who answers for the Debian package: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT "${FORETOKEN_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${FORETOKEN_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Runs local language models with exact speculative decoding")
set(CPACK_PACKAGE_DESCRIPTION "A drafter guesses the next tokens and the model verifies all guesses in one
pass, so answers come faster and have the same tokens as plain decoding.
.
The program chats in a terminal and serves clients of the OpenAI and Anthropic
APIs. It runs Qwen3.5, Qwen3.6 and Gemma 4 models on the processor or on one
NVIDIA GPU. A small model to try it is included.")
set(CPACK_PACKAGE_FILE_NAME foretoken_${PROJECT_VERSION}_${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_SET_DESTDIR ON)  # the prefix is the one on the person's machine, as the systemd unit names it
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/packaging/debian/finish.cmake)
set(CPACK_STRIP_FILES OFF)  # it is stripped already
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libcurl4 | libcurl4t64")  # opened at run time
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
