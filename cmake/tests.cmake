# Every tests/<kind>/test_*.c is a program; every tests/<kind>/test_*.sh and tools/check_*.sh is a script.
# Status 77: skipped, wholly or in part; RT_NO_SKIP=1 turns that into a failure. What lies in tests/long runs with
# `make test-long` only.
enable_testing()

file(GLOB RT_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*/test_*.c)
file(GLOB RT_TEST_SUPPORT CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.c)
add_library(rt_test_support STATIC ${RT_TEST_SUPPORT})
target_include_directories(rt_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(rt_test_support PUBLIC ringtmp_lib)

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
  # for most of their time, and count as one. They are the longest, so they go first; the build for ARM is one of these.
  if(kind STREQUAL "cluster")
    set(halves 1)
    set(cost 100)
  else()
    set(halves 2)
    set(cost 1)
  endif()
  if(name MATCHES "/test_arm64$")
    set(cost 1000)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77 LABELS ${kind}
    PROCESSORS ${halves} COST ${cost} ENVIRONMENT "${RT_TEST_ENVIRONMENT}")
endfunction()

# Tests compile fast rather than run fast: the code they call is the library's, optimised as ever.
target_compile_options(rt_test_support PRIVATE -O1)

# The thread sanitizer makes arithmetic fifty times slower and has nothing to say where one thread runs alone: these
# tests are the ones with several, some of them one block only; of those that run in memory, where threads take turns,
# one or two for each part. A fuzzer's build is for the fuzzers.
if(RT_SANITIZE MATCHES "thread")
  list(FILTER RT_TESTS INCLUDE REGEX "/test_(pool|device|layer_bits|exactness|train|memory_net|ring|ring_exact|memory_faults|transport|collectives|tcp|tcp_peers|tls|stream|engine|carried|crew|served|nested|hybrid|hybrid_apart|equals|tcp_lending|server|server_rounds)\\.c$")
  set(RT_BLOCK_test_layer_bits threads_change_no_bit)
  set(RT_BLOCK_test_exactness cnn_has_one_result)
  set(RT_BLOCK_test_equals synchronous_pairs_over_tcp)
  set(RT_BLOCK_test_nested one_group_is_one_device)
  set(RT_BLOCK_test_hybrid_apart who_is_late_is_dropped_or_made_up_for)
elseif(RT_FUZZ)
  set(RT_TESTS)
  set_target_properties(rt_test_support ringtmp PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
# A hundred thousand micro-batches look for two who wait for each other, not for a wrong address or another number.
if(RT_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(RT_BLOCK_test_ring_soak with_clipping_a_tail_and_delays_of_all_sizes)
endif()

foreach(source IN LISTS RT_TESTS)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(kind ${source} DIRECTORY)
  get_filename_component(kind ${kind} NAME)
  add_executable(${name} ${source})
  target_compile_options(${name} PRIVATE -O1)
  target_link_libraries(${name} PRIVATE rt_test_support)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  rt_add_test(${kind}/${name} 600 ${name} ${RT_BLOCK_${name}})
  # Nodes that talk to each other, told by the rig they are set up with, get a label: an emulator shows nothing about
  # them. It runs ARM's instructions, but not its order of memory, and what nodes send each other (messages, frames,
  # numbers) has tests of its own. That their result is the single device's is looked at on every machine.
  file(STRINGS ${source} rig REGEX "^#include \"(support/(clusters|exrig|memnet|mesh|movesim|ringrig|servelog|stage)|tcp_rig|raw_peer)[.]h\"")
  if(rig AND NOT name MATCHES "_(ring_exact|equals)$")
    set_property(TEST ${kind}/${name} APPEND PROPERTY LABELS nodes)
  endif()
endforeach()

# Scripts run the command as a person would, so they need one that runs here. Some look at the tree, at installed
# files or at other builds, or let time pass, not at the code a sanitizer watches: once, in the ordinary build, is enough
# for them. So it is for those that compare the numbers of one run in dozens of settings, each the same code again:
# contract/test_ring_exact and test_equals run it under both sanitizers, and the scripts of failures and resumption run it
# as processes under the address sanitizer. For the thread sanitizer a few scripts suffice: the programs above have the
# threads of a node too.
if(NOT CMAKE_CROSSCOMPILING AND NOT RT_FUZZ)
  file(GLOB RT_SCRIPTS RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/tests/*/test_*.sh ${CMAKE_SOURCE_DIR}/tools/check_*.sh)
  if(RT_SANITIZE)
    list(FILTER RT_SCRIPTS EXCLUDE REGEX "^tools/check_|^tests/long/|/test_(install|setup|arm64|examples|ring|exchange|pause)\\.sh$")
  endif()
  if(RT_SANITIZE MATCHES "thread")
    list(FILTER RT_SCRIPTS INCLUDE REGEX "/test_(train|resume|node|exchange_data)\\.sh$")
  endif()
  foreach(script IN LISTS RT_SCRIPTS)
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
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
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
