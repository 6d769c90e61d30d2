"""The rows of the benchmark that compare the ring with the strategies that exchange gradients, where links are slow: four
emulated devices, each 20 times slower than a core of this machine, on links of 100 Mbit/s and 1 ms; see docs/benchmarks.md.
"""

import os
import statistics

from ringrun import Rings

SLOWDOWN, BATCH = 20, 128
WIDTH, LAYERS = 1024, 4
OTHERS = {"ps-async": 16, "allreduce-ring": 8, "ps-sync": 5}  # updates of a run: each takes some seconds
UNEVEN, SHARDS = [1, 1, 1, 5], 16  # speeds 1, 1, 1 and 0.2
UNEVEN_BATCHES = {4096: 0.9, 1024: None}  # and bars; the smaller one is about what every worker does whatever its share


class StrategiesBench:
    def __init__(self, table, build, rounds):
        self.table, self.rounds = table, max(3, rounds)
        self.rings = Rings(os.path.join(build, "ringtmp"), os.path.join(build, "bench-work"))

    def rate(self, strategy, updates, nodes=4):
        file = self.rings.file(WIDTH, LAYERS, BATCH, "auto")
        return self.rings.emulated(file, updates, [SLOWDOWN] * nodes, strategy, cluster__bandwidth="100M", cluster__latency="1ms",
                                   cluster__keep_all="true").summary["samples_per_s"]

    def uneven(self, strategy, slowdowns, batch):
        file, updates = self.rings.file(WIDTH // 2, LAYERS, batch, "auto"), 8
        return self.rings.emulated(file, updates, [SLOWDOWN * one for one in slowdowns], strategy, train__shards=SHARDS,
                                   cluster__keep_all="true").summary["samples_per_s"]

    def run_uneven(self):
        """Shares of a batch that follow speed, against the sum of the speeds: what one device reaches, times 3.2."""
        strategies = ("allreduce-rd", "allreduce-hd", "ps-sync", "ps-tree", "ps-shard")
        for batch, bar in UNEVEN_BATCHES.items():
            found, total = {strategy: [] for strategy in strategies}, []
            for _ in range(self.rounds):
                total.append(sum(1 / one for one in UNEVEN) * self.uneven("sgd", [1], batch))
                for strategy in strategies:
                    found[strategy].append(self.uneven(strategy, UNEVEN, batch))
            for strategy in strategies:
                self.table.add(f"speeds 1, 1, 1, 0.2, batches of {batch} in {SHARDS} slices: {strategy}", found[strategy],
                               "sum of the speeds", total, "samples/s", bar)

    def run(self, asked):
        if not asked("strategies"):
            return
        self.run_uneven()
        ring, alone, rates = [], [], {strategy: [] for strategy in OTHERS}
        for _ in range(self.rounds):
            ring.append(self.rate("ring", 24))
            alone.append(self.rate("sgd", 8, nodes=1))
            for strategy, found in rates.items():
                found.append(self.rate(strategy, OTHERS[strategy]))
        note = f"ring {statistics.median(ring):,.0f} samples/s"
        for strategy, found in {**rates, "one of the devices alone": alone}.items():
            self.table.add(f"four slow devices, 100 Mbit/s: ring against {strategy}", ring, strategy, found, "samples/s", 1.0, note=note)


if __name__ == "__main__":
    import sys

    class Lines:
        """Prints rows as they come, for a look without the other benchmarks: strategies.py BUILD [ROUNDS]."""

        @staticmethod
        def add(case, ours, _peer, theirs, unit, _bar, note):
            mine, other = statistics.median(ours), statistics.median(theirs)
            print(f"{case:<70} {mine:9,.0f} ({min(ours):,.0f}..{max(ours):,.0f})  {other:9,.0f} ({min(theirs):,.0f}..{max(theirs):,.0f}) "
                  f"{unit}  {mine / other:.2f} x  {note}", flush=True)

    StrategiesBench(Lines, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3).run(lambda _name: True)
