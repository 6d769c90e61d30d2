# Every tests/<kind>/test_*.c is a program; every tests/cli/test_*.sh and tools/check_*.sh is a script.
enable_testing()

file(GLOB RT_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*/test_*.c)
file(GLOB RT_TEST_SUPPORT CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.c)
add_library(rt_test_support STATIC ${RT_TEST_SUPPORT})
target_include_directories(rt_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(rt_test_support PUBLIC ringtmp_lib)

foreach(source IN LISTS RT_TESTS)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(kind ${source} DIRECTORY)
  get_filename_component(kind ${kind} NAME)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE rt_test_support)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${kind}/${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${kind}/${name} PROPERTIES TIMEOUT 600)
endforeach()

file(GLOB RT_SCRIPTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cli/test_*.sh ${CMAKE_SOURCE_DIR}/tools/check_*.sh)
foreach(script IN LISTS RT_SCRIPTS)
  get_filename_component(name ${script} NAME_WE)
  get_filename_component(kind ${script} DIRECTORY)
  get_filename_component(kind ${kind} NAME)
  add_test(NAME ${kind}/${name} COMMAND bash ${script} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${kind}/${name} PROPERTIES
    TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "RINGTMP=${CMAKE_BINARY_DIR}/ringtmp;RT_BUILD=${CMAKE_BINARY_DIR};CC=${CMAKE_C_COMPILER}")
endforeach()

# Fuzz targets: with RT_FUZZ they are fuzzers; otherwise each replays its corpus as an ordinary test.
file(GLOB RT_FUZZERS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source IN LISTS RT_FUZZERS)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ringtmp_lib)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  if(RT_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/fuzz/replay.c)
  endif()
  add_test(NAME fuzz/${name} COMMAND ${name} ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 300)
endforeach()
