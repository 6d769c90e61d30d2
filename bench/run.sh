#!/usr/bin/env bash
# The benchmark: sets up the peers that can be had, then measures. Expects build/ringtmp, build/bench/products and
# build/bench/collectives.
#
#     bash bench/run.sh               against JAX (own virtual environment) and Debian's PyTorch
#     bash bench/run.sh PEERS=all     and the newest PyTorch, eager and compiled, and MKL (5 GB from PyPI)
#     bash bench/run.sh CASES=ring    only cases whose name contains this; BENCH_ROUNDS=3: fewer of each
#     bash bench/run.sh ISA=avx2      ours and the peers limited to AVX2, each by its own switch: what a machine
#                                     without AVX-512 will see (the cases of one device)
#
# Other arguments are passed on to run.py (see its --help). What cannot be set up is named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
peers=${PEERS:-}
cases=${CASES:-}
rounds=${BENCH_ROUNDS:-}
isa=${ISA:-}
options=()
for word in "$@"; do
    case $word in
    PEERS=*) peers=${word#PEERS=} ;;
    CASES=*) cases=${word#CASES=} ;;
    BENCH_ROUNDS=*) rounds=${word#BENCH_ROUNDS=} ;;
    ISA=*) isa=${word#ISA=} ;;
    *) options+=("$word") ;;
    esac
done
[ -z "$cases" ] || options+=(--only "$cases")
[ -z "$rounds" ] || options+=(--rounds "$rounds")
[ -z "$isa" ] || options+=(--isa "$isa")
case $peers in
'' | all) ;;
*) echo "bench: PEERS is $peers; it can be all, or not be given" >&2; exit 2 ;;
esac
case $isa in
'' | avx2) ;;
*) echo "bench: ISA is $isa; it can be avx2, or not be given" >&2; exit 2 ;;
esac
for program in "$build/ringtmp" "$build/bench/products" "$build/bench/collectives"; do
    [ -x "$program" ] || { echo "bench: $program is missing; run make first" >&2; exit 2; }
done

venv=$build/bench-venv
# want PACKAGE: is it in the virtual environment, or can it be put there?
want() {
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv" >"$build/bench-pip.log" 2>&1 || return 1
    "$venv/bin/pip" show -q "$1" >"$build/bench-pip.log" 2>&1 && return 0
    echo "bench: installing $1 from PyPI into $venv" >&2
    "$venv/bin/pip" install -q "$1" >"$build/bench-pip.log" 2>&1 ||
        { echo "bench: could not install $1 (see $build/bench-pip.log); going on without" >&2; return 1; }
}

found=()
want jax && found+=(jax)
if /usr/bin/python3 -c 'import torch' 2>"$build/bench-pip.log"; then
    found+=(debian-torch)
else
    echo "bench: Debian's python3-torch is not installed (tools/setup.sh bench does it); going on without" >&2
fi
if [ "$peers" = all ]; then
    want torch && found+=(torch torch-compiled)
    want mkl && found+=(mkl)
fi
exec python3 bench/run.py --build "$build" --peers "$(IFS=,; echo "${found[*]}")" "${options[@]}"
