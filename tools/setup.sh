#!/usr/bin/env bash
# Checks that what a make target needs is there, and installs it where Debian's apt-get can.
#
#   tools/setup.sh SET...     sets: build data examples tests cross fuzz bench style
#
# Checks for the command, header or file itself, not for a package name, so a machine that has it from elsewhere is
# left alone, and apt-get is not called when nothing is missing. Says what it installs and why before it does. Where it cannot install, prints one list of what is missing and ends with status 1.
set -u

# need CHECK PACKAGE WHY: the package is needed when the check fails.
missing=() reasons=()
need() {
    local check=$1 package=$2 why=$3
    eval "$check" >/dev/null 2>&1 && return
    missing+=("$package")
    reasons+=("$why")
}
have() { command -v "$1"; }
cmake_at_least() { # MAJOR MINOR
    local version
    version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\.[0-9]*\).*/\1/p')
    [ "${version%.*}" -gt "$1" ] || { [ "${version%.*}" -eq "$1" ] && [ "${version#*.}" -ge "$2" ]; }
}
python_has() { /usr/bin/python3 -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

set_build() {
    need 'have "${CC:-cc}"' gcc 'the C compiler'
    need 'test -e /usr/include/stdio.h || echo "#include <stdio.h>" | ${CC:-cc} -E -' libc6-dev 'the headers of the C library'
    need 'cmake_at_least 3 18' cmake 'describes the build (3.18 or newer)'
    need 'have make' make 'runs the build'
    need 'have pkg-config' pkg-config 'finds the libraries'
    need 'pkg-config --exists yaml-0.1' libyaml-dev 'reads run files'
    need 'pkg-config --exists jansson' libjansson-dev 'reads and writes model headers, journal and summary'
    need 'pkg-config --exists zlib' zlib1g-dev 'reads compressed data files'
    need 'pkg-config --exists "openssl >= 3.0"' libssl-dev 'encrypts the links between devices'
}
set_data() {
    need 'test -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz' dataset-fashion-mnist \
        'the pictures for the demonstration'
}
set_examples() {
    set_data
    need 'test -e /usr/lib/python3/dist-packages/sklearn/datasets/data/iris.csv' python3-sklearn \
        'the small tables in examples/ (only its data files are read)'
}
set_tests() { # tests that lack these are skipped
    need have_openblas libopenblas0-pthread 'for the tests of --math fast'
    need 'test -e /usr/share/i18n/locales/de_DE' locales 'for a test with a decimal comma'
    need 'have script' bsdutils 'for the test of the display on a terminal'
    need 'have unshare' util-linux 'for the test of a full disk'
    need 'have python3' python3 'for the tests of a cluster: writes their data and inspects their traffic'
    need 'have ip' iproute2 'for the test of four nodes with a network of their own'
    need 'have openssl' openssl 'for the test of certificates'
}
have_openblas() { PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q 'libopenblas\.so\.0'; }
set_cross() {
    [ "$(uname -m)" = aarch64 ] && return
    need 'have aarch64-linux-gnu-gcc' gcc-aarch64-linux-gnu 'compiles for 64-bit ARM'
    need 'test -e /usr/aarch64-linux-gnu/include/stdio.h' libc6-dev-arm64-cross 'the C library for 64-bit ARM'
    need 'have qemu-aarch64' qemu-user 'runs the ARM program here'
    need 'have dpkg-deb' dpkg 'unpacks the ARM libraries'
}
set_fuzz() {
    need 'have clang' clang 'the compiler that has libFuzzer'
    need 'fuzzer_runtime' libclang-rt-dev 'the fuzzer and sanitizer libraries of clang'
}
fuzzer_runtime() {
    local directory
    directory=$(clang -print-resource-dir) && compgen -G "$directory/lib/linux/libclang_rt.fuzzer-*.a"
}
set_bench() {
    need have_openblas libopenblas0-pthread 'the peer of the matrix products'
    need 'test -x /usr/bin/python3' python3 'runs the peers'
    need 'python_has ensurepip' python3-venv 'a place of their own for peers that Debian has not'
    need 'have iperf3' iperf3 'what a link can carry, for the ring on a slow network'
    need '(PATH=$PATH:/usr/sbin:/sbin; have ip && have tc)' iproute2 'makes that network'
    need 'have mpicc' libopenmpi-dev 'a peer of the all-reduce'
    need 'have mpirun' openmpi-bin 'starts it'
    need 'have taskset' util-linux 'gives each process its core'
    need 'python_has torch || test "$(uname -m)" = armv7l' python3-torch 'a peer (Debian has none for 32-bit ARM)'
}
set_style() {
    need 'have clang-format' clang-format 'lays out the source'
    need 'have clang-tidy' clang-tidy 'looks for mistakes in the source'
}

for set in "$@"; do
    if ! declare -F "set_$set" >/dev/null; then
        echo "setup: unknown set '$set'; there are: $(declare -F | sed -n 's/.* set_//p' | tr '\n' ' ')" >&2
        exit 2
    fi
    "set_$set"
done
[ ${#missing[@]} -eq 0 ] && exit 0

list() {
    local i
    for i in "${!missing[@]}"; do printf '  %-24s %s\n' "${missing[$i]}" "${reasons[$i]}"; done
}
give_up() {
    {
        echo "These Debian packages are missing, and $1:"
        list
        echo "Install them (or what they stand for on your system), then run the same command again:"
        echo "  apt-get install ${missing[*]}"
    } >&2
    exit 1
}

command -v apt-get >/dev/null || give_up 'this machine has no apt-get to install them with'
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || give_up 'installing them needs root, and there is no sudo here'
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n) # there is no terminal for a password
fi
log=$(mktemp)
echo "Installing with ${as_root[*]:+${as_root[*]} }apt-get, which may take some minutes (its output goes to $log):"
list

# Another apt-get at work (a fresh machine updates itself) is waited for.
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=2 -o DPkg::Lock::Timeout=300 \
        "$@" >>"$log" 2>&1
}
install() { apt install --no-install-recommends "${missing[@]}"; }
# The package lists of a fresh machine are empty or old, so a first failure is followed by one update.
install || { apt update; install; } || {
    give_up "apt-get could not install them ($(grep -m1 -E '^(E|sudo):|password' "$log"); see $log)"
}
rm -f "$log"
echo "Installed."
