"""The rows of the benchmark that are about emulated devices: whether cluster.slowdown means the same for every strategy,
and cluster.bandwidth and cluster.latency what they say; see docs/benchmarks.md.

A figure is how near a ratio is to what it should be, in per cent: 100 x min(r, 1/r), r the ratio by the one wanted. So 90
means 10 % too much or too little.
"""

import os
import signal
import statistics
import time

from calm import calm
from ringrun import Rings, write_npy

FACTORS = (4, 16)
ALONE = ("sgd", "ring", "ps-sync", "allreduce-ring")
SEVERAL = {"ring": 2, "ps-sync": 2, "ps-sync,dedicated=true": 2, "ps-async": 2, "allreduce-ring": 2, "hybrid,rings=2": 4}
# name: width, hidden layers, batch, updates between two validations (of which a run has 4), examples to validate with
SIZES = {"small layers": (64, 3, 32, 1000, 16384), "middle layers": (512, 3, 128, 15, 4096)}
COMPUTE = ("forward", "backward", "weight")


def nearness(ratio):
    return 100 * min(ratio, 1 / ratio)


class FairnessBench:
    def __init__(self, table, build, rounds):
        self.table, self.rounds = table, max(5, rounds)
        self.rings = Rings(os.path.join(build, "ringtmp"), os.path.join(build, "bench-work"))

    def file(self, size):
        width, layers, batch, every, validated = SIZES[size]
        work = self.rings.work
        os.makedirs(work, exist_ok=True)
        rows = 2 * validated
        inputs, targets = (os.path.join(work, f"fair-{name}-{rows}x{width}.npy") for name in ("inputs", "targets"))
        write_npy(inputs, rows, width, 1)
        write_npy(targets, rows, width, 2)
        lines = ["model:", f"  input: {width}", "  layers:"] + [f"    - dense: {width}", "    - relu"] * layers
        lines += [f"    - dense: {width}", "  loss: mse", "data:", f"  train: {{npy: [{inputs}, {targets}]}}"]
        lines += ["  hold_out: 0.5", "train:", f"  batch: {batch}", "  epochs: 1000000", "  validate_epochs: 0"]
        lines += [f"  validate_updates: {every}", "  keep_best: false", "  threads: 1", "  checkpoint_seconds: 0"]
        lines += ["  shards: 2", "  optimizer: {adam: {lr: 0.0001}}"]
        name = os.path.join(work, f"fair-{width}.yaml")
        with open(name, "w") as out:
            out.write("\n".join(lines) + "\n")
        return name

    @calm
    def once(self, size, strategy, nodes, factor, updates=None, **settings):
        return self.rings.run(self.file(size), updates or 4 * SIZES[size][3], "--nodes", str(nodes), "--strategy", strategy,
                              cluster__slowdown=factor, cluster__keep_all="true", **settings).summary

    @staticmethod
    def seconds(run, strategy, nodes):
        """Of computing and of updates by all devices together, and of validations."""
        def total(*states):
            return sum(node["states"][state] for node in run["per_node"] for state in states)

        parts = {"computing": total(*COMPUTE)}
        # By how much busy seconds exceed the CPU time that was used: what emulation multiplies, whatever naps do to it.
        parts["busy per CPU-second"] = total(*COMPUTE, "update", "reduce", "encode") / sum(node["cpu_s"] for node in run["per_node"])
        if nodes == 1:
            # By the wall clock: several devices share cores where they are not emulated, and a ring's messages take time.
            parts["validation"] = run["validation_seconds"]
        # A worker counts what its server does as far as it waits for it; a server without a worker counts all.
        if "dedicated" in strategy:
            parts["update"] = sum(run["per_node"][0]["states"][state] for state in ("update", "reduce"))
        elif nodes == 1 or not strategy.startswith("ps"):
            parts["update"] = total("update")
        return parts

    def growth(self, size, strategy, nodes):
        """The cores of a machine that is shared are not always equally fast, for seconds or minutes: each run is compared
        with those just before and after it, which are not emulated, and the median over the rounds counts."""
        found = {}
        before = self.seconds(self.once(size, strategy, nodes, 1), strategy, nodes)
        for _ in range(self.rounds):
            for factor in FACTORS:
                run = self.seconds(self.once(size, strategy, nodes, factor), strategy, nodes)
                after = self.seconds(self.once(size, strategy, nodes, 1), strategy, nodes)
                for part, seconds in run.items():
                    plain = (before[part] + after[part]) / 2
                    if plain > 0:
                        found.setdefault((factor, part), []).append(seconds / plain)
                before = after
        for (factor, part), ratios in sorted(found.items()):
            middle = statistics.median(ratios)
            self.table.add(f"emulated {factor} x, {size}, {strategy} on {nodes}: {part}", [nearness(middle / factor)],
                           f"{factor} x", [100.0], "%", 0.9, note=f"{middle:.2f} x ({min(ratios):.2f}..{max(ratios):.2f})")

    @calm
    def stopped(self, size, factor):
        """CPU-seconds of a plain run that gets 2 ms at a time, and is stopped in between as an emulated device naps."""
        run = self.rings.start(self.file(size), 4 * SIZES[size][3], "--nodes", "1", "--strategy", "sgd")
        while factor > 1 and run.poll() is None:
            time.sleep(0.002)
            run.send_signal(signal.SIGSTOP)
            time.sleep(0.002 * (factor - 1))
            run.send_signal(signal.SIGCONT)
        return self.rings.finish(run).cpu_seconds()

    def machine(self, size):
        """What sleeping costs on this machine, emulated or not: a core that was idle is slower for a while."""
        for factor in FACTORS:
            ratios, before = [], self.stopped(size, 1)
            for _ in range(self.rounds):
                seconds, after = self.stopped(size, factor), self.stopped(size, 1)
                ratios.append(2 * seconds / (before + after))
                before = after
            middle = statistics.median(ratios)
            self.table.add(f"this machine, {size}: CPU time of 1/{factor} of the time", [nearness(middle)], "all of the time",
                           [100.0], "%", None, note=f"{middle:.2f} x ({min(ratios):.2f}..{max(ratios):.2f})")

    def agreement(self, size, factor=10):
        """One device, emulated, by four strategies, each between two runs by sgd. Where layers are small they differ in what
        they do besides, emulated or not: that is reported."""
        def rate(strategy):
            return self.once(size, strategy, 1, factor)["samples_per_s"]

        ratios = {strategy: [] for strategy in ALONE[1:]}
        before = rate(ALONE[0])
        for _ in range(self.rounds):
            for strategy, found in ratios.items():
                mine, after = rate(strategy), rate(ALONE[0])
                found.append(2 * mine / (before + after))
                before = after
        for strategy, found in ratios.items():
            middle = statistics.median(found)
            self.table.add(f"one device emulated {factor} x, {size}: {strategy}", [nearness(middle)], "sgd", [100.0], "%",
                           None if size == "small layers" else 0.95,
                           note=f"{middle:.3f} of its samples/s ({min(found):.3f}..{max(found):.3f})")

    def network(self):
        """A server and one worker, which waits until its gradient has reached the server and the parameters have returned;
        where they are few, this is the round-trip time."""
        rate, delay = 100e6 / 8, 20e-3
        transfers, trips = [], []
        for _ in range(self.rounds):
            run = self.once("middle layers", "ps-async,dedicated=true", 2, 1, cluster__bandwidth="100M")
            data = sum(count for node in run["per_node"] for link in node["received"].values()
                       for kind, count in link.items() if kind in ("gradients", "parameters"))
            transfers.append(data / run["per_node"][1]["idle_s"] / rate)
            run = self.once("small layers", "ps-sync,dedicated=true,wfbp=off", 2, 1, cluster__latency=f"{delay}s",
                            updates=50, train__validate_updates=0)
            trips.append(run["per_node"][1]["idle_s"] / run["updates"] / (2 * delay))
        for name, found in ("bandwidth of 100M, a transfer", transfers), ("latency of 20 ms, a round trip", trips):
            middle = statistics.median(found)
            self.table.add(f"emulated {name}", [nearness(middle)], "as set", [100.0], "%", 0.9,
                           note=f"{middle:.3f} of it ({min(found):.3f}..{max(found):.3f})")

    def run(self, asked):
        if not asked("fairness"):
            return
        self.network()
        for size in SIZES:
            self.machine(size)
            self.agreement(size)
        for size in SIZES:
            for strategy in ALONE:
                self.growth(size, strategy, 1)
            for strategy, nodes in SEVERAL.items():
                self.growth(size, strategy, nodes)


if __name__ == "__main__":
    import sys

    class Lines:
        """Prints rows as they come, for a look without the other benchmarks: fairness.py BUILD [ROUNDS]."""

        @staticmethod
        def add(case, ours, _peer, _theirs, _unit, bar, note):
            verdict = "reported" if bar is None else "pass" if ours[0] >= 100 * bar else "FAIL"
            print(f"{case:<64} {ours[0]:5.1f} %  {verdict:<8}  {note}", flush=True)

    FairnessBench(Lines, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3).run(lambda _name: True)
