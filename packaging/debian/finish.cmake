# Runs in the staged files before cpack makes the .deb of them: what Debian's policy wants of a package. The
# licence is among Debian's common licences, the man page and the changelog are compressed without a time.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(doc ${root}/usr/share/doc/foretoken)
file(REMOVE ${doc}/LICENSE)
configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${doc}/copyright COPYONLY)

if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(epoch $ENV{SOURCE_DATE_EPOCH})
else()
  string(TIMESTAMP epoch %s UTC)
endif()
execute_process(COMMAND date --utc --rfc-email --date=@${epoch} OUTPUT_VARIABLE date
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${doc}/changelog
     "foretoken (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
     "  * Version ${CPACK_PACKAGE_VERSION}.\n\n"
     " -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}\n")
execute_process(COMMAND gzip -9n -f ${doc}/changelog ${root}/usr/share/man/man1/foretoken.1
                COMMAND_ERROR_IS_FATAL ANY)

# Debian has zsh read its packages' completions elsewhere.
file(MAKE_DIRECTORY ${root}/usr/share/zsh/vendor-completions)
file(RENAME ${root}/usr/share/zsh/site-functions/_foretoken
     ${root}/usr/share/zsh/vendor-completions/_foretoken)
file(REMOVE_RECURSE ${root}/usr/share/zsh/site-functions)
