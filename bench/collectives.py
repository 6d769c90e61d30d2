"""The rows of the benchmark that are about the all-reduce alone; see docs/benchmarks.md.

All nodes are processes of this machine, joined by TCP over the loopback. Against Open MPI, held to its TCP transport,
and gloo, as PyTorch has it; the better of the two sets the bar. Ours sends every byte too in these rows; what nodes of
one machine really do, reading large bodies from the sender's memory (cross-memory attach), is reported beside it. A figure is the median over the
rounds of one start.
"""

import os
import shutil
import statistics
import subprocess
import sys

from calm import calm
from peer import HERE, environment

SIZES = {"0.4 MB": (100_000, 400), "2.7 MB": (675_000, 150), "40 MB": (10_000_000, 12)}  # floats, rounds
NODES = (2, 4)
ALGORITHM = "auto"


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


class CollectivesBench:
    def __init__(self, table, build, rounds, pythons):
        """pythons: those that have PyTorch."""
        self.table, self.build, self.rounds, self.pythons = table, build, rounds, pythons
        self.mpi = self.make_mpi()

    def make_mpi(self):
        if not shutil.which("mpicc") or not shutil.which("mpirun"):
            return None
        os.makedirs(os.path.join(self.build, "bench"), exist_ok=True)
        program = os.path.join(self.build, "bench", "mpi_allreduce")
        source = os.path.join(HERE, "peers", "mpi_allreduce.c")
        done = subprocess.run(["mpicc", "-O2", source, "-o", program], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            say(f"the MPI program does not compile: {done.stderr.strip().splitlines()[-1]}")
        return program if done.returncode == 0 else None

    @staticmethod
    @calm
    def seconds(command):
        """None: it failed."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                              env={**environment(None), "GLOO_SOCKET_IFNAME": "lo"})
        lines = done.stdout.split("\n")
        if done.returncode or not lines[0]:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            say(f"{os.path.basename(command[0])} failed: {reason}")
            return None
        return float(lines[0].split()[0])

    def commands(self, nodes, floats, turns):
        size = [str(floats), str(turns)]
        ours = [os.path.join(self.build, "bench", "collectives"), str(nodes), *size, ALGORITHM]
        theirs = {}
        if self.mpi:
            start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(nodes)]
            theirs["Open MPI, btl tcp"] = [*start, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", self.mpi, *size]
        for python in self.pythons:
            name = "gloo, Debian's PyTorch" if python == "/usr/bin/python3" else "gloo, newest PyTorch"
            theirs[name] = [python, os.path.join(HERE, "peers", "gloo_allreduce.py"), str(nodes), *size]
        return ours, theirs

    def compare(self, nodes, size):
        floats, turns = SIZES[size]
        ours, theirs = self.commands(nodes, floats, turns)
        mine, others = [], {name: [] for name in theirs}
        for _ in range(self.rounds):
            mine.append(self.seconds(ours))
            for name, command in theirs.items():
                if None not in others[name]:
                    others[name].append(self.seconds(command))
        others = {name: times for name, times in others.items() if None not in times}
        if None in mine or not others:
            say(f"all-reduce of {size}, {nodes} nodes: nothing to compare")
            return
        best = min(others, key=lambda name: statistics.median(others[name]))
        for name, times in sorted(others.items(), key=lambda pair: statistics.median(pair[1])):
            self.table.add(f"all-reduce {size}, {nodes} nodes, TCP loopback", [1e3 * time for time in mine], name,
                           [1e3 * time for time in times], "ms", 1.0 if name == best else None, True)

    def attach(self, nodes, size):
        floats, turns = SIZES[size]
        sends, _ = self.commands(nodes, floats, turns)
        mine, sent = [], []
        for _ in range(self.rounds):
            mine.append(self.seconds([*sends, "0", "cma"]))
            sent.append(self.seconds(sends))
        if None not in mine + sent:
            self.table.add(f"all-reduce {size}, {nodes} nodes, cross-memory attach", [1e3 * time for time in mine],
                           "ours over TCP loopback", [1e3 * time for time in sent], "ms", None, True)

    def run(self, asked):
        if not asked("collectives"):
            return
        if not self.mpi:
            say("Open MPI is not installed (tools/setup.sh bench does it); going on without")
        for size in SIZES:
            for nodes in NODES:
                self.compare(nodes, size)
                self.attach(nodes, size)
