#!/usr/bin/env bash
# tools/setup.sh where it cannot install: one list of what is missing and why, and the command that would install it;
# nothing is half done. It never calls apt-get here: the PATH has none, or one of our own.
# labels: once
setup=$(cd "$(dirname "$0")/../../tools" && pwd)/setup.sh
. "$(dirname "$0")/lib.sh"

# A machine that has nothing but the few commands of the script itself.
mkdir bare
for tool in bash sed tr grep mktemp env rm cat; do
    ln -s "$(command -v $tool)" "bare/$tool" || skip "there is no $tool here"
done
printf '#!/bin/sh\necho 0\n' >bare/id # as root, whoever runs the test
chmod +x bare/id

# set_up STATUS SET...: runs the script there; its output goes to out and err
set_up() {
    local expected=$1 status=0
    shift
    TMPDIR=$work PATH=$work/bare "$BASH" "$setup" "$@" >out 2>err </dev/null || status=$?
    [ "$status" -eq "$expected" ] || fail "setup.sh $*: exit status $status, not $expected: $(cat out err)"
}

# ---- no apt-get ----
set_up 1 build tests
[ ! -s out ] || fail "something beside the list: $(cat out)"
[ "$(sed -n 1p err)" = "These Debian packages are missing, and this machine has no apt-get to install them with:" ] ||
    fail "the first line is '$(sed -n 1p err)'"
for package in cmake make pkg-config libyaml-dev libjansson-dev zlib1g-dev libssl-dev python3 iproute2 openssl; do
    grep -qE "^  $package +[^ ]" err || fail "the list does not say what $package is for"
    grep -qE "^  apt-get install .*\b$package\b" err || fail "the command does not install $package"
done
[ "$(grep -c 'are missing' err)" -eq 1 ] && [ "$(grep -c '^  apt-get install ' err)" -eq 1 ] || fail "not one message: $(cat err)"
grep -vE '^(These Debian packages are missing, and .*:|  [a-z0-9+.-]+ +[^ ].*|Install them .* run the same command again:)$' err &&
    fail "a line that belongs to no list"
[ "$(tail -1 err | cut -c1-18)" = "  apt-get install " ] || fail "the last line is '$(tail -1 err)'"

# ---- apt-get without a network ----
cat >bare/apt-get <<'END'
#!/bin/sh
echo "$@" >>calls
echo "E: Unable to locate package, or no network"
exit 100
END
chmod +x bare/apt-get
set_up 1 build
grep -q '^These Debian packages are missing, and apt-get could not install them (E: Unable to locate package, or no network; see .*):$' err ||
    fail "apt-get failed, and the message is: $(cat err)"
grep -qE '^  cmake +describes the build' out || fail "what it is about to install is not told before: $(cat out)"
grep -q ' update$' calls || fail "package lists were not brought up to date before giving up: $(cat calls)"

# ---- nothing is missing: nobody is called, nothing is said ----
rm -f calls
set_up 0
[ ! -s out ] && [ ! -s err ] && [ ! -e calls ] || fail "nothing was asked for: $(cat out err)"
set_up 2 biuld
grep -q "^setup: unknown set 'biuld'; there are: .*build" err || fail "an unknown set: $(cat err)"
finish
