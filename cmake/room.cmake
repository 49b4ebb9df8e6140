# One room of the house: a folder under src/weft with its sources, unit tests and benchmarks beside them.
#
#   weft_room(store
#     SOURCES dlht.cc ...
#     APART tatp.cc ...                   of these, what has names of its own that others have too: see weft_join
#     TESTS dlht_test.cc ...              one GoogleTest program, weft_store_test
#     BENCHMARKS dlht_bench.cc ...        one program each, dlht_bench
#     LIBRARIES fmt::fmt ...              what sources, tests and benchmarks link besides the house's own
#     BENCHMARK_LIBRARIES TBB::tbb ...    what only the benchmarks link
#     SHARDS 2 COST 30                    the tests run as two side by side, and before those that cost less
#     SERIAL                              the tests want the whole machine: ctest runs nothing beside them
#     ONE_THREAD                          the tests have one thread: nothing for the thread sanitizer
#     ONE_THREAD_CASES Glob.* ...)        these have, of a room where others have more
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

# Several sources are compiled as one, which takes half the time but hides what a file does not bring itself: clang-tidy
# compiles what was changed file by file (`make test`), `make soak` everything (WEFT_JOIN=OFF). Sources that are compiled
# as one must not have one name for two things of their own. Where that is meant (each kind of command has its
# kCommands), they stay APART. The joined file names its parts as everybody includes them, so that a compiler cache knows
# it in another clone.
# weft_join(OUT NAME SOURCES... [APART ...]): what to compile in place of the sources, which lie under src/.
function(weft_join out name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART" ${ARGN})
  set(result)
  set(text "")
  set(count 0)
  set(batch 0)
  foreach(source IN LISTS ARG_SOURCES)
    if(source IN_LIST ARG_APART)
      list(APPEND result ${source})
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src)
    string(APPEND text "#include \"${path}\"\n")
    math(EXPR count "${count} + 1")
    if(count EQUAL WEFT_JOIN_BATCH)
      file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/joined/${name}_${batch}.cc CONTENT "${text}" @ONLY)
      list(APPEND result ${PROJECT_BINARY_DIR}/joined/${name}_${batch}.cc)
      math(EXPR batch "${batch} + 1")
      set(text "")
      set(count 0)
    endif()
  endforeach()
  if(text)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/joined/${name}_${batch}.cc CONTENT "${text}" @ONLY)
    list(APPEND result ${PROJECT_BINARY_DIR}/joined/${name}_${batch}.cc)
  endif()
  set(${out} ${result} PARENT_SCOPE)
endfunction()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(weft_flags INTERFACE -Wno-subobject-linkage)  # of a source that is included by another
endif()

function(weft_room name)
  cmake_parse_arguments(ARG "SERIAL;ONE_THREAD" "SHARDS;COST" "SOURCES;APART;TESTS;ONE_THREAD_CASES;BENCHMARKS;LIBRARIES;BENCHMARK_LIBRARIES" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_room(${name}): what is ${ARG_UNPARSED_ARGUMENTS}?")
  endif()
  if(ARG_SOURCES)
    if(WEFT_JOIN)
      weft_join(ARG_SOURCES weft_${name} SOURCES ${ARG_SOURCES} APART ${ARG_APART})
    endif()
    add_library(weft_${name} OBJECT ${ARG_SOURCES})
    # Our loops are over a few keys, nodes or words: what sets a vectorized one up costs more than it saves.
    target_compile_options(weft_${name} PRIVATE -fno-tree-vectorize)
    target_link_libraries(weft_${name} PUBLIC weft_flags weft_dependencies)
    set_property(GLOBAL APPEND PROPERTY WEFT_OBJECTS $<TARGET_OBJECTS:weft_${name}>)
  endif()
  if(ARG_LIBRARIES)
    target_link_libraries(weft_dependencies INTERFACE ${ARG_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES ${ARG_LIBRARIES})
  endif()
  if(ARG_ONE_THREAD AND NOT WEFT_ONE_THREAD)
    set(ARG_TESTS)
  endif()
  list(TRANSFORM ARG_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM ARG_BENCHMARKS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY WEFT_ROOMS ${name})
  set_property(GLOBAL PROPERTY WEFT_TESTS_${name} ${ARG_TESTS})
  set(options)
  if(ARG_ONE_THREAD_CASES AND NOT WEFT_ONE_THREAD)
    list(APPEND options WITHOUT ${ARG_ONE_THREAD_CASES})
  endif()
  if(ARG_SERIAL)
    list(APPEND options SERIAL)
  endif()
  if(ARG_SHARDS)
    list(APPEND options SHARDS ${ARG_SHARDS})
  endif()
  if(ARG_COST)
    list(APPEND options COST ${ARG_COST})
  endif()
  set_property(GLOBAL PROPERTY WEFT_TEST_OPTIONS_${name} ${options})
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

# A GoogleTest program. ctest runs it as one test, or as SHARDS side by side: a process for each of thousands of cases
# costs minutes, and what one case leaves behind for the next is seen in one process. Its own report names the cases
# (scripts/test-report.py reads it). Those with the largest COST begin first, so that nobody waits for one at the end.
function(weft_test_program program)
  cmake_parse_arguments(ARG "SERIAL" "PREFIX;SHARDS;COST" "SOURCES;WITHOUT" ${ARGN})
  if(WEFT_JOIN)
    weft_join(ARG_SOURCES ${program} SOURCES ${ARG_SOURCES})
  endif()
  add_executable(${program} ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE weft weft_flags GTest::gtest_main)
  target_compile_options(${program} PRIVATE ${WEFT_TEST_OPTIONS})
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(name ${ARG_PREFIX})
    if(ARG_SHARDS GREATER 1)
      set(name ${ARG_PREFIX}/${shard})
    endif()
    math(EXPR index "${shard} - 1")
    string(REPLACE "/" "_" report ${name})
    set(flags --gtest_brief=1 --gtest_output=xml:${PROJECT_BINARY_DIR}/reports/${report}.xml)
    if(ARG_WITHOUT)
      list(JOIN ARG_WITHOUT ":" without)
      list(APPEND flags --gtest_filter=-${without})
    endif()
    add_test(NAME ${name} COMMAND ${program} ${flags})
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
    if(ARG_SERIAL)
      set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
    if(ARG_COST)
      set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
    endif()
  endforeach()
endfunction()

function(weft_room_tests)
  get_property(rooms GLOBAL PROPERTY WEFT_ROOMS)
  foreach(room IN LISTS rooms)
    get_property(tests GLOBAL PROPERTY WEFT_TESTS_${room})
    get_property(options GLOBAL PROPERTY WEFT_TEST_OPTIONS_${room})
    if(tests)
      weft_test_program(weft_${room}_test PREFIX ${room} SOURCES ${tests} ${options})
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
# its own source includes first is seen to do so where that is compiled by itself.
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
