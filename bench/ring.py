"""The rows of the benchmark that are about the ring; see docs/benchmarks.md. One case, one function.

More devices than cores are emulated: what took a core c seconds counts as s*c seconds of work, so that all of them
together need less than the two cores of a small machine. Such rows say "emulated".
"""

import os
import signal
import statistics
import subprocess
import sys
import time

from calm import calm
from netlab import NetLab
from peer import HERE, environment
from ringrun import Node, Rings

LINK = "100mbit"


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


class RingBench:
    def __init__(self, table, build, rounds, cores, torch):
        """torch: the Python that has the newest PyTorch, or None."""
        self.table, self.rounds, self.cores, self.torch, self.build = table, rounds, cores, torch, build
        self.rings = Rings(os.path.join(build, "ringtmp"), os.path.join(build, "bench-work"))

    def limit(self, case, values, limit, unit, note=None):
        """A row whose values must not be above a limit."""
        self.table.add(case, [max(value, 1e-3) for value in values], "limit", [limit], unit, 1.0, True, note)

    # ---- idle time ----

    def idle(self):
        """Also shows the bytes and the memory of the same runs."""
        width, batch, micro, updates, slowdown = 1024, 1024, 64, 10, [4] * 4
        file = self.rings.file(width, 8, batch, micro)
        split, classic = [], []
        for _ in range(min(3, self.rounds)):
            split.append(self.rings.emulated(file, updates, slowdown, cluster__keep_all="true"))
            classic.append(self.rings.emulated(file, updates, slowdown, "ring,schedule=1f1b", cluster__keep_all="true"))
        case = "ring idle, 4 equal devices, M = 16, emulated"
        idle = [100 * result.mean_idle() for result in split]
        self.limit(case, idle, 5.0, "% idle", "split schedule")
        self.table.add(case, idle, "schedule=1f1b", [100 * result.mean_idle() for result in classic], "% idle",
                       smaller_is_better=True)
        # As wide as the cuts are, every one of the 4 links carries an activation and a gradient for each example.
        needed = 8 * batch * 4 * width
        self.limit("ring bytes per update, 4 devices, messages of 256 KiB",
                   [result.sent("activations", "gradients") / 1e6 for result in split], 1.02 * needed / 1e6, "MB",
                   "the limit is 1.02 x 8 x B x cut widths")
        shares = [max(node["peak_rss_bytes"] / node["predicted_bytes"] for node in result.nodes) for result in split]
        self.limit("ring peak memory against the plan, 4 devices", shares, 1.2, "x planned", "the worst node")

    def memory(self):
        """A small convolutional network: here the program itself and the data weigh most."""
        file = os.path.join(HERE, "..", "examples", "demo.yaml")
        run = self.rings.run(file, 20, "--nodes", "4")
        shares = [node["peak_rss_bytes"] / node["predicted_bytes"] for node in run.nodes]
        self.limit("ring peak memory against the plan, examples/demo.yaml", [max(shares)], 1.2, "x planned", "the worst node")

    @calm
    def lab_run(self, lab, file, updates, slowdown, strategy="ring", **settings):
        """A ring of one node per namespace; device 0 is the master."""
        nodes = []
        try:
            for i in range(1, lab.count):
                nodes.append(Node(self.rings, "--insecure", "--threads", "1", "--slowdown", str(slowdown),
                                  listen=lab.address(i) + ":7117", prefix=lab.inside(i)))
            options = [option for node in nodes for option in ("--node", node.address)]
            return self.rings.run(file, updates, "--strategy", strategy, *options, prefix=lab.inside(0),
                                  cluster__slowdown=f"[{slowdown}]", cluster__keep_all="true", **settings)
        finally:
            for node in nodes:
                node.__exit__()

    def idle_slow_links(self):
        """A message of 128 x 1024 floats takes 44 ms at 100 Mbit/s, about as long as a forward does on a device 8
        times slower. A device has one port for what it sends to both its neighbours."""
        reason = NetLab.why_not()
        if reason:
            say(f"ring idle on slow links: left out, {reason}")
            return
        file, updates, slowdown = self.rings.file(1024, 8, 2048, 128), 10, 8
        split, classic = [], []
        with NetLab(4, LINK) as lab:
            for i in range(min(3, self.rounds)):
                split.append(self.lab_run(lab, file, updates, slowdown))
                if i == 0:
                    classic.append(self.lab_run(lab, file, 5, slowdown, "ring,schedule=1f1b"))
        case = "ring idle, 4 equal devices, 100 Mbit/s, emulated"
        idle = [100 * result.mean_idle() for result in split]
        forward = 1e3 * statistics.median(result.forward_seconds() for result in split) / 16
        self.limit(case, idle, 8.0, "% idle", f"split schedule; a hop takes 44 ms, a forward {forward:.0f}")
        self.table.add(case, idle, "schedule=1f1b", [100 * result.mean_idle() for result in classic], "% idle",
                       smaller_is_better=True)

    # ---- speed ----

    @calm
    def pinned_ring(self, file, updates, **settings):
        first, second = self.cores[:2]
        with Node(self.rings, "--threads", "1", prefix=("taskset", "-c", str(second))) as node:
            return self.rings.run(file, updates, "--node", node.address, prefix=("taskset", "-c", str(first)),
                                  **settings)

    @calm
    def halves(self, micro_batch, updates):
        """The rate at which two processes, one per core, would go through the whole network if each did half of it
        and neither ever waited. Half of the layers, with the same wide input, is half of the work."""
        half = self.rings.file(1024, 4, 256, micro_batch)
        running = [self.rings.start(half, updates, name=f"half-{core}", prefix=("taskset", "-c", str(core)))
                   for core in self.cores[:2]]
        return statistics.harmonic_mean([self.rings.finish(process).rate for process in running])

    def two_nodes(self):
        if len(self.cores) < 2:
            say("ring on two cores: left out, there is one")
            return
        whole, whole_auto, updates = self.rings.file(1024, 8, 256, 16), self.rings.file(1024, 8, 256, "auto"), 24
        ring, apart, ring_auto, apart_auto, pipelines = [], [], [], [], {"gpipe": [], "1f1b": []}
        for _ in range(self.rounds):
            ring.append(self.pinned_ring(whole, updates).rate)
            apart.append(self.halves(16, updates))
            ring_auto.append(self.pinned_ring(whole_auto, updates).rate)
            apart_auto.append(self.halves("auto", updates))
            for schedule, rates in pipelines.items() if self.torch else ():
                rates.append(self.pipeline(schedule))
        case, peer = "ring of 2 nodes, a core each, d = 1024, ", "two processes, half the layers each"
        self.table.add(case + "M = 16", ring, peer, apart, "samples/s", 0.92)
        self.table.add(case + "M = auto", ring_auto, peer, apart_auto, "samples/s", note="whole batches")
        if not self.torch:
            say("ring against PyTorch's pipeline: left out, it needs PEERS=all")
            return
        best = max(pipelines, key=lambda name: statistics.median(pipelines[name]))
        for schedule, rates in pipelines.items():
            self.table.add("ring of 2 nodes against PyTorch's pipeline", ring, "torch.distributed.pipelining", rates,
                           "samples/s", 3.0 if schedule == best else None, note=schedule)

    @calm
    def pipeline(self, schedule):
        told = subprocess.run([self.torch, os.path.join(HERE, "peers", "torch_pipeline.py"), schedule,
                               ",".join(map(str, self.cores[:2]))], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=environment(""))
        return float(told.stdout)

    def scaling(self):
        """The batch grows with the number of devices, the micro-batch stays; the one device chooses its own. Slow
        devices, so that those of the ring disturb one another as little as the one device is disturbed."""
        slowdown, micro, bars = 10, 256, {4: 0.90, 8: 0.88}
        alone, ones, rates = self.rings.file(1024, 8, 2048, "auto"), [], {count: [] for count in bars}
        for _ in range(min(3, self.rounds)):
            ones.append(self.rings.emulated(alone, 2, [slowdown]).rate)
            for count in bars:
                file = self.rings.file(1024, 8, 4 * count * micro, micro)
                rates[count].append(self.rings.emulated(file, 4, [slowdown] * count, cluster__keep_all="true").rate)
        for count, bar in bars.items():
            self.table.add(f"ring of {count} equal devices, M = 4N, emulated", rates[count],
                           f"{count} x one such device", [count * rate for rate in ones], "samples/s", bar)

    # ---- unequal devices ----

    def unequal(self):
        """21 layers: an even cut gives 7 to each, speeds of 10:10:1 need 10, 10 and 1."""
        file, speeds = self.rings.file(256, 21, 1024, 64), [2, 2, 20]
        planned, even = [], []
        for _ in range(min(3, self.rounds)):
            planned.append(self.rings.emulated(file, 24, speeds).rate)
            even.append(self.rings.emulated(file, 4, speeds, cluster__plan="even", cluster__keep_all="true").rate)
        self.table.add("ring with speeds 10:10:1, emulated", planned, "an even cut", even, "samples/s", 6.3,
                       note="ideal: 7.0")

    def much_slower(self):
        """Leaving a device out costs nothing; two per cent are left to the noise of two measurements."""
        file = self.rings.file(512, 8, 1024, 64)
        with_it, without = [], []
        for _ in range(min(3, self.rounds)):
            with_it.append(self.rings.emulated(file, 12, [3, 3, 3, 150]).rate)
            without.append(self.rings.emulated(file, 12, [3, 3, 3]).rate)
        self.table.add("ring of 3 devices and one 50 times slower, emulated", with_it, "the 3 alone", without,
                       "samples/s", 0.98)

    # ---- links ----

    def link_use(self):
        """Each direction carries two messages per micro-batch. In ring-flow an update is one micro-batch."""
        reason = NetLab.why_not()
        if not reason and subprocess.run(["which", "iperf3"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
            reason = "iperf3 is missing (tools/setup.sh bench installs it)"
        if reason:
            say(f"ring on a slow link: left out, {reason}")
            return
        files = {"ring": (self.rings.file(512, 8, 1024, 16), 12), "ring-flow": (self.rings.file(512, 8, 64, 64), 192)}
        used, reference = {strategy: [] for strategy in files}, []
        with NetLab(2, LINK) as lab:
            for _ in range(min(3, self.rounds)):
                reference.append(lab.iperf3() / 1e6)
                for strategy, rates in used.items():
                    result = self.lab_run(lab, *files[strategy], 1, strategy)
                    bytes_sent = [sum(link[kind] for link in node["sent"].values()
                                      for kind in ("activations", "gradients")) for node in result.nodes]
                    rates.append(min(bytes_sent) / result.seconds / 1e6)
        for strategy, rates in used.items():
            self.table.add(f"link use of {strategy}, N = 2, 100 Mbit/s", rates, "iperf3", reference, "MB/s", 0.90)

    def encryption(self):
        file = self.rings.file(512, 8, 1024, 64)
        key = os.path.join(self.rings.work, "cluster.key")
        if not os.path.exists(key):
            subprocess.run([self.rings.binary, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        plain, tls = [], []
        for _ in range(min(3, self.rounds)):
            plain.append(self.rings.run(file, 12, "--nodes", "4", cluster__keep_all="true").cpu_seconds())
            tls.append(self.rings.run(file, 12, "--nodes", "4", "--key", key, cluster__keep_all="true").cpu_seconds())
        self.table.add("ring of 4 with TLS, CPU time of 12 updates, 201 MB", tls, "without TLS", plain, "CPU-s",
                       smaller_is_better=True)

    # ---- waiting ----

    def waiting(self):
        with Node(self.rings, "--threads", "1") as node:
            self.limit("ring node that waits for a master", [node.cpu_share(5)], 2.0, "% of a core")
            file = self.rings.file(512, 8, 256, 16)
            run = self.rings.start(file, 40, "--node", node.address, cluster__keep_all="true",
                                   cluster__slowdown="[10]")
            time.sleep(2.5)
            run.send_signal(signal.SIGSTOP)  # its neighbours wait for it in the middle of an update
            try:
                time.sleep(0.2)
                self.limit("ring node that waits for its neighbour", [node.cpu_share(4)], 2.0, "% of a core")
            finally:
                run.send_signal(signal.SIGCONT)
            self.rings.finish(run)

    CASES = {"ring idle": idle, "ring memory": memory, "ring idle, slow links": idle_slow_links,
             "ring two nodes": two_nodes,
             "ring scaling": scaling, "ring unequal": unequal, "ring much slower": much_slower,
             "ring link use": link_use, "ring encryption": encryption, "ring waiting": waiting}

    def run(self, asked):
        for name, case in self.CASES.items():
            if not asked(name):
                continue
            try:
                case(self)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                say(f"{name}: {error}")
