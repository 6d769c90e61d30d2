"""The rows of the benchmark that are about data parallelism; see docs/benchmarks.md. One case, one function.

Two workers have a core each: the master's process and a node. Rates are examples per second of both together.
"""

import json
import os
import statistics
import subprocess
import sys

from calm import calm
from cases import mlp
from netlab import NetLab
from ours import plain_data, run_file
from peer import HERE, environment
from ringrun import Node, Rings

# widths: examples per worker and update, the least ratio against DistributedDataParallel, updates of a run, strategy
PARALLEL = {
    "784-128-64-10": (32, 5.0, 6000, "allreduce-auto"),
    "784-512-512-10": (64, 2.2, 1000, "allreduce-auto"),
    "784-2048-2048-2048-10": (128, 1.15, 40, "allreduce-ring"),
}
STRATEGY = "allreduce-ring"


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


def chain(forward, backward, exchange):
    """Seconds per update when each layer's exchange starts as soon as its gradient is ready and the next forward of a
    layer waits for that layer only. Lists by layer, the first one first. e_l = max(e_(l+1), r_l) + c_l; several
    updates are simulated, the last one counts."""
    ends, now, before = [0.0] * len(forward), 0.0, 0.0
    for _ in range(20):
        before = now
        for layer, seconds in enumerate(forward):
            now = max(now, ends[layer]) + seconds
        free = 0.0
        for layer in reversed(range(len(forward))):
            now += backward[layer]
            free = max(free, now) + exchange[layer]
            ends[layer] = free
    return now - before


class ExchangeBench:
    def __init__(self, table, build, rounds, cores, pythons):
        """pythons: those that have PyTorch, Debian's and the newest, as they are there."""
        self.table, self.rounds, self.cores, self.pythons = table, rounds, cores, pythons
        self.rings = Rings(os.path.join(build, "ringtmp"), os.path.join(build, "bench-work"))

    def file(self, widths, batch):
        case = {"layers": mlp(*map(int, widths.split("-")[1:])), "batch": batch, "lr": 0.01}
        name = os.path.join(self.rings.work, f"data-{widths}-{batch}.yaml")
        os.makedirs(self.rings.work, exist_ok=True)
        with open(name, "w") as out:
            out.write(run_file(case, *plain_data(self.rings.work)) + "  threads: 1\n")
        return name

    @calm
    def pair(self, file, updates, strategy=STRATEGY):
        """A worker on each of two cores."""
        first, second = self.cores[:2]
        with Node(self.rings, "--threads", "1", "--data", "/", prefix=("taskset", "-c", str(second))) as node:
            return self.rings.run(file, updates, "--node", node.address, "--strategy", strategy,
                                  prefix=("taskset", "-c", str(first)))

    @calm
    def one(self, file, updates):
        return self.rings.run(file, updates, prefix=("taskset", "-c", str(self.cores[0])))

    # ---- against DistributedDataParallel ----

    def parallel(self):
        if len(self.cores) < 2:
            say("data parallel training: left out, it needs two cores")
            return
        for widths, (each, bar, updates, strategy) in PARALLEL.items():
            both, alone = self.file(widths, 2 * each), self.file(widths, each)
            ours, single, theirs = [], [], {}
            for _ in range(self.rounds):
                ours.append(self.pair(both, updates, strategy).rate)
                single.append(self.one(alone, updates).rate)
                for python in self.pythons:
                    told = self.ddp(python, widths, each)
                    if told:
                        theirs.setdefault(told["version"], []).append(told["samples_per_s"])
            case = f"data parallel {widths}, 2 workers, {each} each"
            ranked = sorted(theirs.items(), key=lambda pair: -statistics.median(pair[1]))
            for place, (version, rates) in enumerate(ranked):
                self.table.add(case, ours, version, rates, "samples/s", bar if place == 0 else None)
            wide = widths.count("2048") > 1
            self.table.add(case, ours, "1 worker", single, "samples/s", 1.4 if wide else None)
        if not self.pythons:
            say("data parallel training: no PyTorch here to compare with")

    @calm
    def ddp(self, python, widths, each):
        done = subprocess.run([python, os.path.join(HERE, "peers", "torch_ddp.py"), widths, str(each),
                               ",".join(map(str, self.cores[:2]))], check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=environment(""))
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout else None

    # ---- exchange beside the backward pass ----

    def overlap(self):
        """Two emulated devices on a link on which the gradients take about as long as the backward pass: 8 layers of
        512 x 512 are 8.4 MB (the first is half as large again), two thirds of a second at 100 Mbit/s in each direction."""
        reason = NetLab.why_not()
        if reason:
            say(f"wfbp on a slow link: left out, {reason}")
            return
        width, layers, batch, slowdown, updates, link = 512, 8, 2048, 8, 8, "100mbit"
        file = self.rings.file(width, layers, batch, "auto")
        orders = {"off": "wfbp=off", "down": "order=down", "up": "order=up"}  # the formula is for order=down
        rates, rows = {order: [] for order in orders}, []
        with NetLab(2, link) as lab:
            bandwidth = lab.iperf3()
            for _ in range(min(3, self.rounds)):
                for order, option in orders.items():
                    result = self.lab_pair(lab, file, updates, slowdown, f"{STRATEGY},{option},bucket=0")
                    rates[order].append(result.rate)
                    if order == "off":
                        rows.append(result.nodes[0]["states"])
        forward, backward = (statistics.median(row[name] for row in rows) / updates for name in ("forward", "backward"))
        floats = [width * width * 3 // 2 + width] + [width * width + width] * (layers - 1)
        exchange = [4 * count / bandwidth for count in floats]  # two workers: each sends every float once
        share = [count / sum(floats) for count in floats]
        on = chain([forward / layers] * layers, [backward * part for part in share], exchange)
        off = forward + backward + sum(exchange)
        case = "wfbp on against off, emulated, 100 Mbit/s"
        self.table.add(case, rates["down"], "wfbp off", rates["off"], "samples/s", 1.0, note="faster")
        self.table.add(case + ", order=up", rates["up"], "wfbp off", rates["off"], "samples/s", 1.0, note="faster")
        measured = [mine / theirs for mine, theirs in zip(rates["down"], rates["off"])]
        note = f"backward {backward:.2f} s, exchange {sum(exchange):.2f} s"
        # Within 15 % holds in both directions.
        for smaller_is_better in (False, True):
            self.table.add(case + ": gain", measured, "e_l = max(e_(l+1), r_l) + c_l", [off / on], "x", 0.85,
                           smaller_is_better, note)

    @calm
    def lab_pair(self, lab, file, updates, slowdown, strategy):
        with Node(self.rings, "--insecure", "--threads", "1", "--data", "/", "--slowdown", str(slowdown),
                  listen=lab.address(1) + ":7117", prefix=lab.inside(1)) as node:
            return self.rings.run(file, updates, "--strategy", strategy, "--node", node.address, prefix=lab.inside(0),
                                  cluster__slowdown=f"[{slowdown}]")

    # ---- the server, as the workers grow in number ----

    def server(self):
        file, updates = self.file("784-512-512-10", 64), 200
        for strategy in ("ps-sync", "ps-async"):
            first = None
            for workers in (1, 2, 4, 8):
                results = [self.rings.run(file, updates, "--nodes", str(workers + 1), "--strategy",
                                          f"{strategy},dedicated=true") for _ in range(min(3, self.rounds))]
                servers = [result.nodes[0] for result in results]
                figures = ([1e3 * node["cpu_s"] / updates for node in servers],
                           [node["peak_rss_bytes"] / 1e6 for node in servers])
                first = first or figures
                case = f"server of {strategy}, 784-512-512-10, {workers} workers"
                for ours, theirs, unit in zip(figures, first, ("CPU-ms per update", "MB")):
                    self.table.add(case, ours, "the same with 1 worker", theirs, unit, smaller_is_better=True)

    def run(self, asked):
        for name, case in (("data parallel", self.parallel), ("wfbp", self.overlap), ("server", self.server)):
            if not asked("exchange " + name):
                continue
            try:
                case()
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                say(f"exchange {name}: {error}")
