#!/usr/bin/env bash
# Unpacks the libraries that RingTMP links, built for 64-bit ARM, into a directory of their own.
#
#   tools/arm64-sysroot.sh DIRECTORY
#
# The packages come from the Debian sources that this machine already uses, through an apt state kept inside
# DIRECTORY: the machine's own package lists, architectures and installed packages stay as they are.
set -eu

directory=${1:?usage: tools/arm64-sysroot.sh DIRECTORY}
packages=(libyaml-0-2 libyaml-dev libjansson4 libjansson-dev zlib1g zlib1g-dev libssl3 libssl-dev)
[ "$(cat "$directory/complete" 2>/dev/null)" = "${packages[*]}" ] && exit 0

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "arm64-sysroot: apt-get and dpkg-deb are needed to fetch the ARM libraries" >&2
    exit 1
}
rm -rf "$directory" # what an interrupted run left
mkdir -p "$directory/apt/lists/partial" "$directory/apt/cache/archives/partial" "$directory/apt/parts"
directory=$(cd "$directory" && pwd)
: >"$directory/apt/status"

# Only the distribution's own sources: others seldom have ARM packages, and may be out of reach.
for source in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/raspbian.sources; do
    [ -e "$source" ] && cp "$source" "$directory/apt/parts/"
done
[ -e "$directory/apt/parts/sources.list" ] && mv "$directory/apt/parts/sources.list" "$directory/apt/parts/main.list"

apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User="$(id -un)" \
        -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$directory/apt/parts" \
        -o Dir::State="$directory/apt" -o Dir::State::status="$directory/apt/status" \
        -o Dir::Cache="$directory/apt/cache" -o Acquire::Languages=none -o Acquire::Retries=2 "$@"
}
log=$directory/apt/log
if ! { apt update && cd "$directory/apt/cache/archives" && apt download "${packages[@]}"; } >"$log" 2>&1; then
    tail -5 "$log" >&2
    echo "arm64-sysroot: could not fetch ${packages[*]} for arm64; see $log" >&2
    exit 1
fi
for package in "$directory"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$directory"; done
# One place for all libraries, as on an installed system, so that programs find them by one path.
cp -a "$directory/lib/." "$directory/usr/lib/"
rm -r "$directory/lib"
ln -s usr/lib "$directory/lib"
# The same for headers: those of a single architecture lie in a directory that a foreign compiler does not search.
cp -a "$directory/usr/include/aarch64-linux-gnu/." "$directory/usr/include/"
rm -r "$directory/usr/include/aarch64-linux-gnu"
# Absolute links would lead to this machine's own libraries.
find "$directory" -type l -lname '/*' | while read -r link; do
    ln -sfn "$directory$(readlink "$link")" "$link"
done
rm -rf "$directory/apt"
echo "${packages[*]}" >"$directory/complete"
