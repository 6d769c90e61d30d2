"""Measures ringtmp against its peers: a table on standard output, BUILD/bench.json, and BUILD/bench.md for docs.

Everything of one case is measured in turns (ours, peer, peer, ours, ...), and the median counts. Every row has a
ratio that is above 1 where ours is better; a row with a bar passes when its ratio reaches it. For rows whose
limit is absolute (start, memory) "theirs" is the limit.
"""

import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys

from calm import calm
from cases import CASES
from collectives import CollectivesBench
from exchange import ExchangeBench
from failure import FailureBench
from fairness import FairnessBench
from ours import Ours
from peer import LIMITS, Peer, environment
from ring import RingBench
from strategies import StrategiesBench

WIDE, MEMORY = "mlp-2048x3 batch 128", "mlp-512-512 batch 64"
SECONDS = 1.5  # of one measurement
START_LIMIT_MS = 50.0


def cpu():
    """Model name and feature flags; ARM boards name neither in the same place."""
    name, flags = "unknown CPU", set()
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() in ("flags", "Features"):
                flags = set(value.split())
    return name, flags


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


class Table:
    def __init__(self, facts):
        self.facts, self.rows = facts, []

    def add(self, case, ours, peer, theirs, unit, bar=None, smaller_is_better=False, note=None, clock="wall"):
        """ours and theirs: one figure per round."""
        mine, other = statistics.median(ours), statistics.median(theirs)
        better = (lambda a, b: b / a) if smaller_is_better else (lambda a, b: a / b)
        pairs = [better(a, b) for a, b in zip(ours, theirs)]
        ratio = better(mine, other)
        row = {"case": case, "ours": mine, "peer": peer, "theirs": other, "ratio": ratio, "unit": unit, "bar": bar,
               "passed": None if bar is None else ratio >= bar, "ours_min": min(ours), "ours_max": max(ours),
               "theirs_min": min(theirs), "theirs_max": max(theirs), "ratio_min": min(pairs),
               "ratio_max": max(pairs), "note": note, "clock": clock, **self.facts}
        self.rows.append(row)
        self.show(row)

    @staticmethod
    def figures(row):
        def number(key):
            return f"{row[key]:,.0f}" if row[key] >= 1000 else f"{row[key]:.1f}"

        def figure(name):
            return f"{number(name)} ({number(name + '_min')}..{number(name + '_max')})"

        return figure

    def show(self, row):
        figure = self.figures(row)
        verdict = {None: "reported", True: "pass", False: "FAIL"}[row["passed"]]
        bar = "" if row["bar"] is None else f"{row['bar']:g}"
        line = f"{row['case']:<44} {figure('ours'):>28} {figure('theirs'):>28} {row['unit']:<10} "
        line += f"{row['ratio']:>6.2f} {bar:>4} {verdict:<8} {row['clock']:<4} {row['peer']}"
        print(line + (f" [{row['note']}]" if row["note"] else ""), flush=True)

    def head(self):
        print(f"{self.facts['cpu']}, kernels {self.facts['kernels']}, OpenBLAS core type {self.facts['core_type']}")
        if self.facts["isa"]:
            print(self.limit())
        print(f"{'case':<44} {'ours: median (min..max)':>28} {'theirs: median (min..max)':>28} {'unit':<10} "
              f"{'ratio':>6} {'bar':>4} {'':<8} {'by':<4} peer", flush=True)

    def limit(self):
        return (f"Limited to {self.facts['isa'].upper()}: ours by train.kernels, every peer by its own switch "
                "(JAX's does not reach YNNPACK, which does its larger products).")

    def markdown(self):
        """The table without the single products."""
        lines = [self.limit(), ""] if self.facts["isa"] else []
        lines += ["| case | ours | theirs | unit | ratio | bar | clock | peer |", "|" + " --- |" * 8]
        for row in self.rows:
            if row["case"].startswith("product "):
                continue
            figure = self.figures(row)
            bar = "" if row["bar"] is None else f"{row['bar']:g}, {'passed' if row['passed'] else 'missed'}"
            peer = row["peer"] + (f": {row['note']}" if row["note"] else "")
            lines.append(f"| {row['case']} | {figure('ours')} | {figure('theirs')} | {row['unit']} "
                         f"| {row['ratio']:.2f} | {bar} | {row['clock']} | {peer} |")
        return "\n".join(lines) + "\n"


class Bench:
    def __init__(self, options):
        self.build, self.rounds, self.clock = options.build, options.rounds, options.clock
        os.environ["BENCH_CLOCK"] = self.clock  # the peers read it
        self.isa, self.kernels = options.isa, options.isa or "auto"
        os.environ.update(LIMITS.get(self.isa, {}))  # every peer takes its own from there
        self.found = options.peers.split(",") if options.peers else []
        self.cores = sorted(os.sched_getaffinity(0))
        self.core = self.cores[-1]  # the first one does most of a system's chores
        self.venv = os.path.join(self.build, "bench-venv")
        self.peers = []
        for name, python, program, more in (("jax", f"{self.venv}/bin/python", "jax_train.py", []),
                                            ("debian-torch", "/usr/bin/python3", "torch_train.py", []),
                                            ("torch", f"{self.venv}/bin/python", "torch_train.py", []),
                                            ("torch-compiled", f"{self.venv}/bin/python", "torch_train.py",
                                             ["--compile"])):
            if name in self.found:
                self.peers.append(Peer(python, program, more))

    def products(self, core_type, *more):
        command = [os.path.join(self.build, "bench", "products"), "--kernels", self.kernels, *more]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment(core_type),
                              preexec_fn=lambda: os.sched_setaffinity(0, {self.core}))
        return json.loads(done.stdout)

    def find_core_type(self, flags):
        """Our kernels here, and those with which OpenBLAS is fastest; "" is what it detects itself."""
        wide = self.isa is None
        wanted = {"": wide, "SKYLAKEX": wide and "avx512f" in flags, "COOPERLAKE": wide and "avx512_bf16" in flags,
                  "HASWELL": "avx2" in flags, "ZEN": "avx2" in flags}
        speeds = {}
        for core_type in (name for name, possible in wanted.items() if possible):
            told = self.products(core_type, "--blas-only", "--rounds", "3")
            if not all(shape["theirs"] for shape in told["shapes"]):
                break
            speeds[core_type] = geometric_mean(statistics.median(shape["theirs"]) for shape in told["shapes"])
        return told["kernels"], max(speeds, key=speeds.get) if speeds else ""

    def compare_products(self, table, core_type, library=None):
        more = ["--blas", library] if library else []
        told = self.products(core_type, "--rounds", str(self.rounds), *more)
        shapes = told["shapes"]
        if not all(shape["theirs"] for shape in shapes):
            print("bench: no BLAS to compare products with", file=sys.stderr)
            return
        wrong = [shape for shape in shapes if not shape["difference"] < 1e-5]
        if wrong:
            raise SystemExit(f"bench: our products and {told['blas']} disagree: {wrong}")
        for shape in shapes:
            name = f"product {shape['m']}x{shape['n']}x{shape['k']} {shape['part']}"
            table.add(name, shape["ours"], told["blas"], shape["theirs"], "GFLOP/s", note=shape["network"],
                      clock="cpu")
        means = {side: [geometric_mean(shape[side][i] for shape in shapes) for i in range(self.rounds)]
                 for side in ("ours", "theirs")}
        table.add("products, geometric mean", means["ours"], told["blas"], means["theirs"], "GFLOP/s",
                  bar=None if library else 1.0, clock="cpu")
        if told["peak"] and not library:
            peak = told["peak"]
            table.add("products, share of the FMA peak", means["ours"], "measured FMA peak", [peak] * self.rounds,
                      "GFLOP/s", clock="cpu")
            best = max(shapes, key=lambda shape: statistics.median(shape["ours"]))
            table.add("best product, share of the FMA peak", best["ours"], "measured FMA peak",
                      [peak] * self.rounds, "GFLOP/s", note=f"{best['m']}x{best['n']}x{best['k']} {best['part']}",
                      clock="cpu")

    def ours(self, case, clock="wall"):
        work = os.path.join(self.build, "bench-work")
        return Ours(os.path.join(self.build, "ringtmp"), work, case, clock == "cpu", self.kernels)

    def train(self, table, case, core_type):
        ours = self.ours(case, self.clock)
        ours.tune({self.core}, SECONDS)
        present = [peer for peer in self.peers if peer.open(case, self.core, core_type)]
        mine, theirs = [], [[] for _ in present]
        for _ in range(self.rounds):
            mine.append(ours.rate({self.core}))
            for peer, rates in zip(present, theirs):
                rates.append(peer.rate())
        for peer in present:
            peer.close()
        ranked = sorted(zip(present, theirs), key=lambda pair: -statistics.median(pair[1]))
        for place, (peer, rates) in enumerate(ranked):
            table.add("train " + case, mine, peer.name, rates, "samples/s",
                      bar=CASES[case]["bar"] if place == 0 else None, note=peer.variant, clock=self.clock)

    def two_threads(self, table):
        if len(self.cores) < 2:
            print("bench: two threads need two cores; left out", file=sys.stderr)
            return
        ours, pair = self.ours(WIDE), self.cores[-2:]
        ours.tune({self.core}, SECONDS)
        together, apart = [], []  # both by the wall clock: CPU time cannot show how well threads share the work

        @calm
        def two_processes():
            running = [ours.start({core}) for core in pair]
            return sum(ours.finish(process)["samples_per_s"] for process in running)

        for _ in range(self.rounds):
            together.append(ours.rate(set(pair), threads=2))
            apart.append(two_processes())
        table.add(f"two threads, {WIDE}", together, "two one-thread runs", apart, "samples/s", bar=0.9)

    def start_and_memory(self, table, core_type):
        ours = self.ours(MEMORY)
        ours.run({self.core}, updates=1)  # brings the files into memory
        firsts = [ours.first_step({self.core}) for _ in range(self.rounds)]
        peaks = [ours.run({self.core}, updates=1000)["peak_rss_bytes"] / 1e6 for _ in range(self.rounds)]
        plain = [[peer.once(MEMORY, self.core, core_type) for _ in range(min(3, self.rounds))] for peer in self.peers]
        plain = [told for told in plain if all(told)]
        table.add("start to first step, " + MEMORY, firsts, "limit", [START_LIMIT_MS], "ms", 1.0, True)
        for told in plain:
            imports = statistics.median(1e3 * one["import_s"] for one in told)
            table.add("start to first step, " + MEMORY, firsts, told[0]["version"],
                      [1e3 * one["first_step_s"] for one in told], "ms", smaller_is_better=True,
                      note=f"import {imports:.0f} ms of it")
        limit = 2 * ours.memory_needed() / 1e6
        table.add("peak memory, " + MEMORY, peaks, "limit", [limit], "MB", 1.0, True)
        for told in plain:
            table.add("peak memory, " + MEMORY, peaks, told[0]["version"],
                      [one["peak_rss_bytes"] / 1e6 for one in told], "MB", smaller_is_better=True)

    def run(self, only):
        def asked(name):
            return not only or any(part in name for part in only)

        model, flags = cpu()
        if self.isa and self.isa not in flags:
            raise SystemExit(f"bench: this CPU ({model}) has no {self.isa}")
        if any(asked(name) for name in ("products", "start and memory", *CASES)):
            kernels, core_type = self.find_core_type(flags)
        else:
            kernels, core_type = self.products("", "--blas-only", "--rounds", "1")["kernels"], None
        table = Table({"cpu": model, "kernels": kernels, "core_type": core_type or "detected", "isa": self.isa})
        table.head()
        if asked("products"):
            self.compare_products(table, core_type)
            for library in glob.glob(f"{self.venv}/lib/libmkl_rt.so*")[:1] if "mkl" in self.found else []:
                self.compare_products(table, core_type, library)
        for case in CASES:
            if asked(case):
                self.train(table, case, core_type)
        if asked("two threads"):
            self.two_threads(table)
        if asked("start and memory"):
            self.start_and_memory(table, core_type)
        if self.isa:
            print("bench: the cases of several devices are left out with --isa", file=sys.stderr)
            return table
        torch = f"{self.venv}/bin/python" if "torch" in self.found else None
        FairnessBench(table, self.build, self.rounds).run(asked)
        StrategiesBench(table, self.build, self.rounds).run(asked)
        RingBench(table, self.build, self.rounds, self.cores, torch).run(asked)
        pythons = ["/usr/bin/python3"] * ("debian-torch" in self.found) + [torch] * bool(torch)
        ExchangeBench(table, self.build, self.rounds, self.cores, pythons).run(asked)
        CollectivesBench(table, self.build, self.rounds, pythons).run(asked)
        FailureBench(table, self.build, self.rounds, pythons).run(asked)
        return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="where ringtmp and bench/products are (default: build)")
    parser.add_argument("--peers", default="", help="jax,debian-torch,torch,torch-compiled,mkl: those present")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each (default: 5)")
    parser.add_argument("--only", action="append", help="only cases whose name contains this; may be repeated")
    parser.add_argument("--isa", choices=tuple(LIMITS),
                        help="ours and the peers with no more than this instruction set; the cases of one device")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: one-thread training speed per second of CPU time, for a look on a busy machine")
    options = parser.parse_args()
    table = Bench(options).run(options.only)
    rows = table.rows
    with open(os.path.join(options.build, "bench.json"), "w") as out:
        json.dump(rows, out, indent=1)
    with open(os.path.join(options.build, "bench.md"), "w") as out:
        out.write(table.markdown())
    failed = [row["case"] for row in rows if row["passed"] is False]
    print(f"{sum(row['passed'] is True for row in rows)} bars passed, {len(failed)} missed"
          + (": " + "; ".join(failed) if failed else ""))


if __name__ == "__main__":
    main()
