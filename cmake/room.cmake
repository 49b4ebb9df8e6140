# One room of the house: a folder under src/weft with its sources, unit tests and benchmarks beside them.
#
#   weft_room(store
#     SOURCES dlht.cc ...
#     APART tatp.cc ...                   of these, what has names of its own that others have too: see weft_join
#     TESTS dlht_test.cc ...              one GoogleTest program, weft_store_test; ctest knows each case
#     BENCHMARKS dlht_bench.cc ...        one program each, dlht_bench
#     LIBRARIES fmt::fmt ...              what sources, tests and benchmarks link besides the house's own
#     BENCHMARK_LIBRARIES TBB::tbb ...    what only the benchmarks link
#     SERIAL)                             the tests want the whole machine: ctest runs nothing beside them
#
# Sources become an object library; weft_library() joins those of all rooms into `weft`. A room without sources is
# allowed.

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Werror -march=x86-64-v3 -mcx16 -fno-strict-aliasing)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(weft_flags INTERFACE -Wno-interference-size)
endif()
target_include_directories(weft_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)

# What our code links, in the tree. The installed library names its own dependencies in cmake/install.cmake.
add_library(weft_dependencies INTERFACE)
target_link_libraries(weft_dependencies INTERFACE Threads::Threads PkgConfig::XXHASH)

# Tests of sanitized builds are compiled without optimisation: most of them run once.
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(WEFT_TEST_OPTIONS -O0)
endif()

# What makes builds shorter, but hides what a file does not bring itself: the headers of others precompiled, and several
# sources compiled as one (weft_join). For the rooms in sanitized builds only: in release every file is compiled as it is.
# Not with a compiler cache (CMAKE_CXX_COMPILER_LAUNCHER): these do not go well together.
if(WEFT_JOIN AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(WEFT_SHORT_TESTS ON)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(WEFT_SHORT_ROOMS ON)
  endif()
endif()
function(weft_precompile name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LIBRARIES;HEADERS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cc CONTENT "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE weft_flags weft_dependencies ${ARG_LIBRARIES})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE <algorithm> <array> <atomic> <chrono> <cstring> <deque> <functional> <map>
    <memory> <mutex> <optional> <ostream> <set> <span> <string> <thread> <vector> ${ARG_HEADERS})
endfunction()
# Sources that are compiled as one must not have one name for two things of their own. Where that is meant (each kind of
# command has its kCommands), they stay apart.
function(weft_join target)
  cmake_parse_arguments(ARG "" "HEADERS" "APART" ${ARGN})
  if(ARG_HEADERS)  # compiled with the same options
    target_precompile_headers(${target} REUSE_FROM ${ARG_HEADERS})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # of a source that is included by another
  endif()
endfunction()
if(WEFT_SHORT_ROOMS)
  weft_precompile(weft_room_headers OPTIONS -fno-tree-vectorize HEADERS <fmt/format.h>)
endif()
if(WEFT_TESTS AND WEFT_SHORT_TESTS)
  weft_precompile(weft_test_headers OPTIONS ${WEFT_TEST_OPTIONS} -fPIE LIBRARIES GTest::gtest_main
    HEADERS <sstream> <gtest/gtest.h>)
  set_target_properties(weft_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # -fPIE, as programs have it
endif()

function(weft_room name)
  cmake_parse_arguments(ARG "SERIAL" "" "SOURCES;APART;TESTS;BENCHMARKS;LIBRARIES;BENCHMARK_LIBRARIES" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_room(${name}): what is ${ARG_UNPARSED_ARGUMENTS}?")
  endif()
  if(ARG_SOURCES)
    add_library(weft_${name} OBJECT ${ARG_SOURCES})
    # Our loops are over a few keys, nodes or words: what sets a vectorized one up costs more than it saves.
    target_compile_options(weft_${name} PRIVATE -fno-tree-vectorize)
    target_link_libraries(weft_${name} PUBLIC weft_flags weft_dependencies)
    if(WEFT_SHORT_ROOMS)
      weft_join(weft_${name} HEADERS weft_room_headers APART ${ARG_APART})
    endif()
    set_property(GLOBAL APPEND PROPERTY WEFT_OBJECTS $<TARGET_OBJECTS:weft_${name}>)
  endif()
  if(ARG_LIBRARIES)
    target_link_libraries(weft_dependencies INTERFACE ${ARG_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES ${ARG_LIBRARIES})
  endif()
  list(TRANSFORM ARG_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM ARG_BENCHMARKS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY WEFT_ROOMS ${name})
  set_property(GLOBAL PROPERTY WEFT_TESTS_${name} ${ARG_TESTS})
  set_property(GLOBAL PROPERTY WEFT_SERIAL_${name} ${ARG_SERIAL})
  set_property(GLOBAL PROPERTY WEFT_BENCHMARKS_${name} ${ARG_BENCHMARKS})
  set_property(GLOBAL PROPERTY WEFT_BENCHMARK_LIBRARIES_${name} ${ARG_BENCHMARK_LIBRARIES})
endfunction()

function(weft_library)
  get_property(objects GLOBAL PROPERTY WEFT_OBJECTS)
  add_library(weft STATIC ${objects})
  add_library(weft::weft ALIAS weft)
  target_include_directories(weft PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(weft PUBLIC cxx_std_20)
  target_link_libraries(weft PUBLIC Threads::Threads $<BUILD_INTERFACE:weft_dependencies>)
endfunction()

# A GoogleTest program whose cases ctest lists one by one. RUN_SERIAL when it wants the whole machine.
function(weft_test_program program)
  cmake_parse_arguments(ARG "SERIAL" "PREFIX" "SOURCES" ${ARGN})
  add_executable(${program} ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE weft weft_flags GTest::gtest_main)
  set(serial FALSE)
  if(ARG_SERIAL)
    set(serial TRUE)
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    gtest_discover_tests(${program} TEST_PREFIX ${ARG_PREFIX}/ DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 600 RUN_SERIAL ${serial})
  else()
    # A process for each of thousands of cases costs a sanitized build minutes; and what one case leaves behind for the
    # next is seen in one process.
    add_test(NAME ${ARG_PREFIX} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${ARG_PREFIX} PROPERTIES TIMEOUT 1200 RUN_SERIAL ${serial})
    # The longest begin first, so that nobody waits for one of them at the end.
    set(costs cluster 30 server 20 txn 10)
    list(FIND costs ${ARG_PREFIX} at)
    if(NOT at EQUAL -1)
      math(EXPR at "${at} + 1")
      list(GET costs ${at} cost)
      set_tests_properties(${ARG_PREFIX} PROPERTIES COST ${cost})
    endif()
  endif()
  target_compile_options(${program} PRIVATE ${WEFT_TEST_OPTIONS})
  if(WEFT_SHORT_TESTS)
    weft_join(${program} HEADERS weft_test_headers)
  endif()
endfunction()

function(weft_room_tests)
  get_property(rooms GLOBAL PROPERTY WEFT_ROOMS)
  foreach(room IN LISTS rooms)
    get_property(tests GLOBAL PROPERTY WEFT_TESTS_${room})
    get_property(serial GLOBAL PROPERTY WEFT_SERIAL_${room})
    if(tests AND serial)
      weft_test_program(weft_${room}_test PREFIX ${room} SOURCES ${tests} SERIAL)
    elseif(tests)
      weft_test_program(weft_${room}_test PREFIX ${room} SOURCES ${tests})
    endif()
  endforeach()
endfunction()

function(weft_room_benchmarks)
  get_property(rooms GLOBAL PROPERTY WEFT_ROOMS)
  foreach(room IN LISTS rooms)
    get_property(benchmarks GLOBAL PROPERTY WEFT_BENCHMARKS_${room})
    get_property(libraries GLOBAL PROPERTY WEFT_BENCHMARK_LIBRARIES_${room})
    foreach(source IN LISTS benchmarks)
      cmake_path(GET source STEM program)
      add_executable(${program} ${source})
      target_link_libraries(${program} PRIVATE weft weft_flags ${libraries} benchmark::benchmark)
    endforeach()
  endforeach()
endfunction()

# Compiles every header alone, twice included: each must bring what it needs and stand being included again. One that
# its own source includes first is seen to do so there.
function(weft_headers_alone)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/include/weft/*.h ${PROJECT_SOURCE_DIR}/src/weft/*.h)
  set(sources)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "^(src|include)/" "" include ${header})
    string(REGEX REPLACE "h$" "cc" own ${PROJECT_SOURCE_DIR}/${header})
    if(EXISTS ${own})
      file(STRINGS ${own} first REGEX "^#include" LIMIT_COUNT 1)
      if(first STREQUAL "#include \"${include}\"")
        continue()
      endif()
    endif()
    string(REPLACE "/" "_" name ${include})
    set(source ${PROJECT_BINARY_DIR}/headers_alone/${name}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@include@\"\n#include \"@include@\"\n" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  add_library(weft_headers_alone OBJECT ${sources})
  target_link_libraries(weft_headers_alone PRIVATE weft_flags weft_dependencies)
  target_compile_options(weft_headers_alone PRIVATE -O0)
endfunction()
