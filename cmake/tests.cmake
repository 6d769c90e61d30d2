# Every tests/<kind>/test_*.c is a program, and so is every tests/unit/<room>/test_*.c, of the room src/<room>; every
# tests/<kind>/test_*.sh and tools/check_*.sh is a script. `make` builds none of them, the target `tests` all. Status 77:
# skipped, wholly or in part; RT_NO_SKIP=1 turns that into a failure. What lies in tests/long runs with `make test-long` only.
# Where else than in the ordinary build a test runs, it says itself (labels.cmake).
include(${CMAKE_CURRENT_LIST_DIR}/labels.cmake)
enable_testing()

file(GLOB RT_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*/test_*.c
  ${CMAKE_SOURCE_DIR}/tests/unit/*/test_*.c)
file(GLOB RT_TEST_SUPPORT CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.c)
add_library(rt_test_support STATIC EXCLUDE_FROM_ALL ${RT_TEST_SUPPORT})
target_include_directories(rt_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(rt_test_support PUBLIC rt_sim ringtmp_lib)

# Sanitizers print where they stopped and end the process; a failed CHECK keeps its own status.
set(RT_TEST_ENVIRONMENT "RINGTMP=${CMAKE_BINARY_DIR}/ringtmp" "RT_BUILD=${CMAKE_BINARY_DIR}" "CC=${CMAKE_C_COMPILER}"
  "UBSAN_OPTIONS=print_stacktrace=1" "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")

# What a build of this kind, or a machine, cannot have, words of reasons: even RT_NO_SKIP lets a test be skipped for it.
set(RT_MAY_SKIP "another process") # whose memory a system or a container may not let us read
if(RT_SANITIZE)
  string(APPEND RT_MAY_SKIP ",sanitizer")
elseif(CMAKE_CROSSCOMPILING)
  string(APPEND RT_MAY_SKIP ",OpenBLAS,emulator")
endif()
list(APPEND RT_TEST_ENVIRONMENT "RT_MAY_SKIP=${RT_MAY_SKIP}")

function(rt_add_test name seconds)
  string(REGEX REPLACE "/.*" "" kind ${name})
  if(kind STREQUAL "long")
    add_test(NAME ${name} COMMAND ${ARGN} CONFIGURATIONS Long WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  else()
    add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endif()
  # A test counts as two halves of a core (the Makefile runs as many halves as there are); the scripts of clusters wait
  # for most of their time, and count as one. They are the longest, so they go first.
  if(kind STREQUAL "cluster")
    set(halves 1)
    set(cost 100)
  else()
    set(halves 2)
    set(cost 1)
  endif()
  if(is_first)
    set(cost 1000)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77 LABELS ${kind}
    PROCESSORS ${halves} COST ${cost} ENVIRONMENT "${RT_TEST_ENVIRONMENT}")
endfunction()

# Tests compile fast rather than run fast: the code they call is the library's, optimised as ever.
target_compile_options(rt_test_support PRIVATE -O1)

add_custom_target(tests)
if(RT_FUZZ)
  set(RT_TESTS) # a fuzzer's build is for the fuzzers
else()
  add_dependencies(tests ringtmp)
endif()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${RT_TESTS}) # for their labels
foreach(source IN LISTS RT_TESTS)
  rt_read_labels(${source} is)
  set(block)
  if(RT_SANITIZE MATCHES "thread" AND NOT is_threads)
    continue()
  elseif(RT_SANITIZE MATCHES "thread" AND NOT is_threads STREQUAL "ON")
    set(block ${is_threads})
  elseif(is_slow AND (RT_SANITIZE OR CMAKE_CROSSCOMPILING))
    set(block ${is_slow})
  endif()
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/tests ${folder})
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  add_dependencies(tests ${name})
  target_compile_options(${name} PRIVATE -O1)
  target_link_libraries(${name} PRIVATE rt_test_support)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  rt_add_test(${folder}/${name} 600 ${name} ${block})
  # Nodes that talk to each other, told by the rig they are set up with, get a label: an emulator shows nothing about
  # them. It runs ARM's instructions, but not its order of memory, and what nodes send each other (messages, frames,
  # numbers) has tests of its own. That their result is the single device's is looked at on every machine.
  file(STRINGS ${source} rig REGEX "^#include \"(support/(clusters|exrig|memnet|mesh|movesim|ringrig|servelog|simrun|stage|views)|tcp_rig|raw_peer)[.]h\"")
  if(rig AND NOT is_emulated)
    set_property(TEST ${folder}/${name} APPEND PROPERTY LABELS nodes)
  endif()
endforeach()

# Scripts run the command as a person would, so they need one that runs here.
if(NOT CMAKE_CROSSCOMPILING AND NOT RT_FUZZ)
  file(GLOB RT_SCRIPTS RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/tests/*/test_*.sh ${CMAKE_SOURCE_DIR}/tools/check_*.sh)
  foreach(script IN LISTS RT_SCRIPTS)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${script})
    rt_read_labels(${CMAKE_SOURCE_DIR}/${script} is)
    if((RT_SANITIZE AND (is_once OR script MATCHES "^tests/long/")) OR (RT_SANITIZE MATCHES "thread" AND NOT is_threads))
      continue()
    endif()
    get_filename_component(name ${script} NAME_WE)
    get_filename_component(kind ${script} DIRECTORY)
    get_filename_component(kind ${kind} NAME)
    rt_add_test(${kind}/${name} 1800 bash ${script})
  endforeach()
endif()

# Fuzz targets: with RT_FUZZ they are fuzzers; otherwise each replays its corpus as an ordinary test. They read files,
# on one thread.
file(GLOB RT_FUZZERS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/fuzz_*.c)
if(RT_SANITIZE MATCHES "thread")
  set(RT_FUZZERS)
endif()
foreach(source IN LISTS RT_FUZZERS)
  rt_read_labels(${source} is)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  add_dependencies(tests ${name})
  target_link_libraries(${name} PRIVATE ringtmp_lib)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  if(RT_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    rt_add_test(fuzz/${name} 300 ${name} -runs=0 ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name})
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/fuzz/replay.c)
    rt_add_test(fuzz/${name} 300 ${name} ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name})
  endif()
endforeach()
