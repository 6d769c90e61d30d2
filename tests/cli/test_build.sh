#!/usr/bin/env bash
# What a plain `make` would do in a fresh tree, without doing it: compile the program and the library, no test, no fuzz
# target and no benchmark, and say nothing while all is well. The target `tests` has every test program. A label that does
# not exist is refused, and so is a part of .ci/run that does not exist.
# labels: once
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/lib.sh"

cmake -S "$root" -B build -G 'Unix Makefiles' >configured 2>&1 || fail "cannot configure: $(tail -5 configured)"
# targets NAME: what a target of the build makes
targets() { sed -n "s,^$1: CMakeFiles/\(.*\)\.dir/all\$,\1,p" build/CMakeFiles/Makefile2 | sort; }
[ "$(targets all | grep -v ^rt_exact_ | tr '\n' ' ')" = "ringtmp ringtmp_lib ringtmp_shared rt_objects " ] ||
    fail "make builds $(targets all | tr '\n' ' ')"
find "$root"/tests/*/test_*.c "$root"/tests/unit/*/test_*.c "$root"/fuzz/fuzz_*.c -printf '%f\n' | sed 's/\.c$//' | sort >wanted
targets CMakeFiles/tests.dir/all | grep -v '^ringtmp$' | diff wanted - >differ || fail "the target tests: $(cat differ)"
# The Makefile with a cmake of our own, which is talkative: nothing of it is printed unless it fails or is asked for.
mkdir -p plain/tools plain/build bin
cp "$root/Makefile" plain && touch plain/build/ringtmp
printf '#!/bin/sh\n' >plain/tools/setup.sh
printf '#!/bin/sh\necho "Building C object"; case $* in *--build*) exit $BROKEN ;; esac\n' >bin/cmake
chmod +x plain/tools/setup.sh bin/cmake
BROKEN=0 PATH=$work/bin:$PATH make -C plain >said 2>&1 || fail "make: $(cat said)"
! grep -v '^make' said || fail "make prints something although nothing went wrong"
! BROKEN=1 PATH=$work/bin:$PATH make -C plain >said 2>&1 && grep -q 'Building C object' said ||
    fail "a build that failed is not shown: $(cat said)"
BROKEN=0 PATH=$work/bin:$PATH make -C plain VERBOSE=1 >said 2>&1 && grep -q 'Building C object' said || fail "VERBOSE=1: $(cat said)"

cat >labels.cmake <<END
include("$root/cmake/labels.cmake")
rt_read_labels(test.c is)
message("threads \${is_threads} slow \${is_slow} once \${is_once}")
END
labels() { # LINE: what cmake says of a test with it
    { echo '/* A test. */' && echo "$1"; } >test.c
    cmake -P labels.cmake 2>&1 | tr -s '\n ' ' '
}
[ "$(labels '')" = "threads OFF slow OFF once OFF " ] || fail "no labels: $(labels '')"
[ "$(labels '/* labels: threads=one_block once */')" = "threads one_block slow OFF once ON " ] || fail "two labels"
labels '/* labels: treads */' | grep -q "unknown label 'treads'" || fail "an unknown label: $(labels '/* labels: treads */')"

status=0
bash "$root/.ci/run" tset 2>err || status=$?
[ "$status" -eq 2 ] && grep -q "unknown part 'tset'; there are: test asan tsan fuzz arm64" err || fail "$(cat err)"
finish
