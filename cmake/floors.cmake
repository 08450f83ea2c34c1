# ft_floor(NAME DEPS ...): the .cpp files of the folder become the library ft_NAME, the *_test.cpp files the
# test program NAME_tests, and each *_fuzz.cpp a fuzz target. DEPS are exactly the floors of tools/floors.txt
# plus libraries; TEST_DEPS are for tests only; SOURCES and TEST_SOURCES add files that *.cpp does not match.
# FOLDERS are subfolders that belong to the floor: their files are treated like those of the folder itself.
include(GoogleTest)

add_library(ft_options INTERFACE)
# Headers are named from src/, and headers of tests/ from the root.
target_include_directories(ft_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_compile_options(ft_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -fno-math-errno
                                            -ffp-contract=off)
if(FORETOKEN_WERROR)
  target_compile_options(ft_options INTERFACE -Werror)
endif()
# The binary holds no path of the machine that built it; a debugger started at the tree's root finds sources.
# A compiler cache may turn the paths into relative ones (CCACHE_BASEDIR), so those have a map too. g++ tries
# the last map first.
cmake_path(RELATIVE_PATH CMAKE_SOURCE_DIR BASE_DIRECTORY ${CMAKE_BINARY_DIR}
           OUTPUT_VARIABLE tree_from_build)
target_compile_options(ft_options INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
                                            -ffile-prefix-map=${tree_from_build}/=
                                            -ffile-prefix-map=${CMAKE_BINARY_DIR}=.
                                            -ffile-prefix-map=${CMAKE_BINARY_DIR}/=)
# g++ 12 takes `"text" + std::string` for an overlapping copy (GCC bug 105329, mended in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ft_options INTERFACE -Wno-restrict)
endif()
# g++ takes each source of a group for a header, where it warns about types that use an anonymous namespace.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ft_options INTERFACE -Wno-subobject-linkage)
endif()
# clang warns about g++ 12's own <algorithm>, whose stable_sort calls a deprecated function.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(ft_options INTERFACE -Wno-deprecated-declarations)
endif()
if(FORETOKEN_ASSERTS)
  target_compile_definitions(ft_options INTERFACE FORETOKEN_ASSERTS)
endif()
if(FORETOKEN_SANITIZE)
  # An undefined operation ends the test instead of printing a line.
  target_compile_options(ft_options INTERFACE -fsanitize=${FORETOKEN_SANITIZE} -fno-sanitize-recover=all
                                              -fno-omit-frame-pointer -g1)
  target_link_options(ft_options INTERFACE -fsanitize=${FORETOKEN_SANITIZE})
endif()
if(FORETOKEN_FUZZ)
  target_compile_options(ft_options INTERFACE -fsanitize=fuzzer-no-link)
  add_custom_target(fuzzers COMMENT "Every fuzz target, into fuzz/ of the build folder")
endif()

# The preset release compiles several sources of a target as one (CMAKE_UNITY_BUILD): headers are read and
# templates instantiated once for all of them. So the names in the anonymous namespaces of a floor differ, and
# the namespace of a test has the name of its file. These sources are still compiled alone:
function(ft_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Sources that define their own operators new, to count allocations or to make them fail, are compiled alone.
# The library of the thread sanitizer defines operators that a program cannot replace, so its build omits such
# sources. They do not test races.
function(ft_own_new sources)
  foreach(source ${${sources}})
    file(STRINGS ${source} own_new REGEX "void\\* operator new|tests/counted_allocations\\.h")
    if(own_new AND FORETOKEN_SANITIZE MATCHES "thread")
      list(REMOVE_ITEM ${sources} ${source})
    elseif(own_new)
      ft_alone(${source})
    endif()
  endforeach()
  set(${sources} ${${sources}} PARENT_SCOPE)
endfunction()

# A test's own code is compiled faster than optimised; what it tests is optimised as the product is.
set(ft_test_options $<$<CONFIG:Release>:-O1>)

function(ft_floor name)
  cmake_parse_arguments(ARG "" "" "DEPS;TEST_DEPS;SOURCES;TEST_SOURCES;FOLDERS" ${ARGN})
  set(patterns *.cpp)
  foreach(folder ${ARG_FOLDERS})
    list(APPEND patterns ${folder}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(APPEND tests ${ARG_TEST_SOURCES})
  ft_own_new(tests)
  set(fuzzers ${sources})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cpp$")
  add_library(ft_${name} STATIC ${sources} ${ARG_SOURCES})
  target_link_libraries(ft_${name} PUBLIC ft_options ${ARG_DEPS})
  if(tests AND BUILD_TESTING)
    add_executable(${name}_tests ${tests})
    target_compile_options(${name}_tests PRIVATE ${ft_test_options})
    target_link_libraries(${name}_tests PRIVATE ft_${name} ${ARG_TEST_DEPS} GTest::gtest GTest::gtest_main)
    gtest_discover_tests(${name}_tests DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                         DISCOVERY_TIMEOUT 60)
  endif()
  if(FORETOKEN_FUZZ)
    foreach(fuzzer ${fuzzers})
      get_filename_component(target ${fuzzer} NAME_WE)
      add_executable(${target} ${fuzzer})
      # The fake model of the tests asserts with GoogleTest.
      target_link_libraries(${target} PRIVATE ft_${name} ${ARG_TEST_DEPS} GTest::gtest -fsanitize=fuzzer)
      set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
      add_dependencies(fuzzers ${target})
    endforeach()
  endif()
endfunction()
