# Where else than in the ordinary build a test runs, it says itself, by a line "labels: ..." after its first comment:
#   threads         also under the thread sanitizer, which makes arithmetic fifty times slower and has nothing to say
#                   where one thread runs alone; threads=BLOCK: there only this block of it
#   slow=BLOCK      only this block where code runs slowly: under any sanitizer, or emulated
#   once            not under a sanitizer: it looks at files or other builds, lets time pass, or repeats code that others run
#   emulated        on an emulated machine too, although its nodes talk to each other (`nodes` in tests.cmake)
#   first           takes longest, so it starts first

# Sets ${out}_<label> for each label of a test to ON, or to the block that it names.
function(rt_read_labels source out)
  foreach(label threads slow once emulated first)
    set(${out}_${label} OFF PARENT_SCOPE)
  endforeach()
  file(STRINGS ${source} line REGEX "^(#|/\\*| \\*) labels: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^.*labels: |[*]/$" "" line "${line}")
  separate_arguments(line UNIX_COMMAND "${line}")
  foreach(word IN LISTS line)
    if(NOT word MATCHES "^(once|emulated|first|threads|(threads|slow)=[a-z0-9_]+)$")
      message(FATAL_ERROR "${source}: unknown label '${word}'; cmake/labels.cmake has the list")
    endif()
    if(word MATCHES "^([a-z]+)=(.+)$")
      set(${out}_${CMAKE_MATCH_1} ${CMAKE_MATCH_2} PARENT_SCOPE)
    else()
      set(${out}_${word} ON PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
