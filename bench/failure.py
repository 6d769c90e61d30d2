"""The rows of the benchmark that are about lost devices; see docs/benchmarks.md. One case, one function.

Four processes on this machine: a master and three nodes. A node that was killed is started again at its address, and taken
in again before the next one is killed. Times are taken by the bench: from the signal to the line in the journal, which the
master writes when the update is done.
"""

import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

from calm import calm
from peer import HERE, environment
from ringrun import Node, Rings

WIDTH, LAYERS, BATCH = 512, 8, 128  # 2.2 million parameters
EVERY = 10  # steps between two checkpoints of PyTorch
STRATEGIES = ("ring", "ps-sync", "allreduce-ring")
WORKERS = 3


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


class Journal:
    """The events of a run, as they come."""

    def __init__(self, process):
        self.process, self.path, self.events, self.at = process, os.path.join(process.out, "journal.jsonl"), [], 0

    def read(self):
        """What has come since; a line is written with one system call."""
        try:
            with open(self.path) as file:
                file.seek(self.at)
                text = file.read()
        except FileNotFoundError:
            return []
        text = text[: text.rfind("\n") + 1]
        self.at += len(text.encode())
        new = [json.loads(line) for line in text.splitlines()]
        self.events += new
        return new

    def wait(self, name, seconds=60):
        """The next event of a name, and when it was seen."""
        end = time.monotonic() + seconds
        while True:
            new, now = self.read(), time.monotonic()
            for event in new:
                if event["event"] == name:
                    return event, now
            if now > end:
                raise RuntimeError(f"no event '{name}' after {seconds} s in {self.path}")
            if self.process.poll() is not None:
                raise RuntimeError(f"the run of {self.path} ended before the event '{name}'")
            time.sleep(0.001)

    def rate(self, begin, end=float("inf")):
        """Examples per second between the first and the last report in a span of the journal's time."""
        steps = [event for event in self.events if event["event"] == "step" and begin <= event["t"] <= end]
        if len(steps) < 3:
            raise RuntimeError(f"{len(steps)} reports are too few for a rate: {self.path}")
        return (steps[-1]["samples"] - steps[0]["samples"]) / (steps[-1]["t"] - steps[0]["t"])


class Loopback:
    """A master and three nodes on this machine; use it in a with statement."""

    def __init__(self, rings, file, strategy, **settings):
        self.rings, self.nodes = rings, []
        try:
            for _ in range(WORKERS):
                self.nodes.append(Node(rings, "--threads", "1", "--data", "/"))
            options = [word for node in self.nodes for word in ("--node", node.address)]
            settings = {"cluster__keep_all": "true", **settings}
            self.run = rings.start(file, 1000000000, "--strategy", strategy, *options, name="failure",
                                   stderr=subprocess.DEVNULL, **settings)
        except BaseException:
            self.end_nodes()
            raise
        self.journal = Journal(self.run)

    def __enter__(self):
        return self

    def end_nodes(self):
        for node in self.nodes:
            node.__exit__()

    def __exit__(self, *_):
        self.run.kill()
        self.run.wait()
        self.end_nodes()
        shutil.rmtree(self.run.out, ignore_errors=True)

    def lose(self, place, how):
        """Sends a signal to a node; gives the seconds to the first new update, and how many were repeated."""
        self.journal.read()
        began = time.monotonic()
        self.nodes[place].process.send_signal(how)
        recovery, _ = self.journal.wait("recovery")
        if recovery["nodes"] != WORKERS:
            raise RuntimeError(f"a recovery on {recovery['nodes']} devices, not on {WORKERS}")
        _, seen = self.journal.wait("new_update")
        return seen - began, recovery["replayed_updates"]

    def bring_back(self, place):
        """A node at the address of the one that was lost; returns when it takes part."""
        node = self.nodes[place]
        node.process.kill()
        node.process.communicate()
        self.nodes[place] = Node(self.rings, "--threads", "1", "--data", "/", listen=node.address)
        view, _ = self.journal.wait("view")
        if view["nodes"] != WORKERS + 1:
            raise RuntimeError(f"a view of {view['nodes']} devices, not of {WORKERS + 1}")
        self.journal.wait("new_update")


class Torchrun:
    """Four processes under torchrun with checkpoints; use it in a with statement."""

    def __init__(self, python, work):
        self.work = os.path.join(work, "elastic")
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        # With Debian's Python and PyTorch 1.13 the defaults of --redirects and --tee, 0, are not understood.
        self.process = subprocess.Popen(
            [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={WORKERS + 1}", "--max_restarts=1000",
             "--monitor_interval=0.1", "--redirects=1", "--tee=1", "--log_dir", os.path.join(self.work, "log"), os.path.join(HERE, "peers", "torch_elastic.py"), self.work,
             *map(str, (WIDTH, LAYERS, BATCH, EVERY))],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(""), start_new_session=True)

    def __enter__(self):
        self.until(lambda steps: any(step > 5 * EVERY for step, _ in steps))
        return self

    def __exit__(self, *_):
        with open(os.path.join(self.work, "stop"), "w"):
            pass
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # a session of its own
            self.process.wait()
        shutil.rmtree(self.work, ignore_errors=True)

    def steps(self):
        """(step, time) in the order in which they were done; step 0: training begins."""
        try:
            with open(os.path.join(self.work, "steps")) as file:
                text = file.read()
        except FileNotFoundError:
            return []
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [(int(step), float(when)) for step, when in map(str.split, lines)]

    def until(self, found, seconds=120):
        """What is found in the steps, as soon as something is."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            what = found(self.steps())
            if what:
                return what
            time.sleep(0.05)
        raise RuntimeError("torchrun does not go on")

    def lose(self, rank):
        """Kills a process; gives the seconds to the first new step, and how many were repeated."""
        with open(os.path.join(self.work, f"pid-{rank}")) as file:
            victim = int(file.read())
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)

        def new_step(steps):
            again = next((i for i, (step, when) in enumerate(steps) if step == 0 and when > began), None)
            if again is None:
                return None
            reached = max(step for step, _ in steps[:again])
            when = next((when for step, when in steps[again:] if step > reached), None)
            return when and (when - began, reached - (steps[again + 1][0] - 1))

        return self.until(new_step)


class FailureBench:
    def __init__(self, table, build, rounds, pythons):
        """pythons: those that have PyTorch."""
        self.table, self.rounds, self.pythons = table, rounds, pythons
        self.rings = Rings(os.path.join(build, "ringtmp"), os.path.join(build, "bench-work"))
        self.numbers = random.Random(1)

    def pause(self):
        """Until a moment that has nothing to do with the run's own clocks."""
        time.sleep(self.numbers.uniform(0.3, 1.3))

    # ---- the time until the run is further than it was ----

    def kills(self):
        count, file = 4 * self.rounds, self.rings.file(WIDTH, LAYERS, BATCH, "auto")
        theirs = self.torch_kills(max(2, self.rounds))
        for strategy in STRATEGIES:
            seconds, repeated = [], []
            with Loopback(self.rings, file, strategy) as cluster:
                cluster.journal.wait("first_step")
                for i in range(count):
                    self.pause()
                    took, again = cluster.lose(i % WORKERS, signal.SIGKILL)
                    seconds.append(took)
                    repeated.append(again)
                    cluster.bring_back(i % WORKERS)
            case = f"{strategy} of 4 processes, from a kill to a new update"
            note = f"{count} kills; repeated updates: median {statistics.median(repeated):g}, at most {max(repeated)}"
            self.table.add(case + ", median", seconds, "limit", [0.5], "s", 1.0, True, note)
            self.table.add(case + ", worst", [max(seconds)], "limit", [2.0], "s", 1.0, True)
            for version, (times, again) in theirs.items():
                self.table.add(case, seconds, version, times, "s", smaller_is_better=True,
                               note=f"repeated steps: at most {max(again)}")

    def torch_kills(self, count):
        found = {}
        for python in self.pythons:
            version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], check=True, text=True,
                                     stdout=subprocess.PIPE).stdout.strip()
            try:
                with Torchrun(python, self.rings.work) as peer:
                    told = []
                    for i in range(count):
                        self.pause()
                        told.append(peer.lose(1 + i % WORKERS))
            except RuntimeError as error:
                say(f"PyTorch {version}: {error}")
                continue
            found[f"torchrun, PyTorch {version}, a checkpoint every {EVERY} steps"] = list(zip(*told))
        return found

    def silent(self):
        """A host that says nothing any more: its process is stopped for ever."""
        file, bound = self.rings.file(WIDTH, LAYERS, BATCH, "auto"), 2
        for strategy in STRATEGIES:
            seconds = []
            with Loopback(self.rings, file, strategy, cluster__silence=bound) as cluster:
                cluster.journal.wait("first_step")
                for i in range(self.rounds):
                    self.pause()
                    seconds.append(cluster.lose(i % WORKERS, signal.SIGSTOP)[0])
                    cluster.bring_back(i % WORKERS)
            self.table.add(f"{strategy} of 4 processes, from SIGSTOP to a new update, worst", [max(seconds)],
                           f"cluster.silence {bound} s and 0.5 s", [bound + 0.5], "s", 1.0, True, f"{len(seconds)} stops")

    # ---- speed afterwards ----

    def planned(self, file, slowdowns):
        """Examples per second that the planner predicts for such devices, all of which it is to use."""
        told = subprocess.run([self.rings.binary, "plan", file, "--nodes", str(len(slowdowns)), "--strategy", "ring",
                               "--set", f"cluster.slowdown=[{','.join(map(str, slowdowns))}]", "--set", "cluster.keep_all=true"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        return float(re.search(r"^Predicted: (?:at most )?([0-9,.]+) samples/s", told, re.MULTILINE).group(1).replace(",", ""))

    @calm
    def emulated(self, file, slowdowns, event, disturb, seconds, seconds_before):
        """Examples per second of local devices after an event of the journal that a disturbance leads to."""
        count = sum(not isinstance(one, str) for one in slowdowns)
        run = self.rings.start(file, 1000000000, "--nodes", str(count), "--strategy", "ring", name="after", stderr=subprocess.DEVNULL,
                               cluster__keep_all="true", train__report_seconds=0.2,
                               cluster__slowdown="[" + ",".join(map(str, slowdowns)) + "]")
        try:
            journal = Journal(run)
            told, _ = journal.wait("first_step")
            if event != "first_step":
                time.sleep(seconds_before)
                disturb(run)
                told, _ = journal.wait(event)
            time.sleep(1.0 + seconds)
            journal.read()
            return journal.rate(told["t"] + 1.0)
        finally:
            run.send_signal(signal.SIGINT)
            run.wait()
            shutil.rmtree(run.out, ignore_errors=True)

    def afterwards(self):
        """24 equal layers: 8 for each of the three that are left."""
        file, slowdown = self.rings.file(256, 24, 1024, 64), 8
        left, rates, ideals, fresh = [slowdown] * WORKERS, [], [], []
        for _ in range(min(3, self.rounds)):
            ideals.append(self.planned(file, left))
            rates.append(self.emulated(file, left + [slowdown], "new_update", self.kill_second, 6, 2))
            fresh.append(self.emulated(file, left, "first_step", lambda _: None, 6, 0))
        case = "ring of 4 after a loss, emulated"
        self.table.add(case, rates, "the plan for the other 3", ideals, "samples/s", 0.95)
        self.table.add(case, rates, "3 such devices from the start", fresh, "samples/s", 0.95)

    @staticmethod
    def kill_second(run):
        with open(f"/proc/{run.pid}/task/{run.pid}/children") as file:
            os.kill(int(file.read().split()[1]), signal.SIGKILL)

    def rebalanced(self):
        """26 equal layers: 8, 8, 2 and 8 for speeds of 4:4:1:4."""
        file, slowdown = self.rings.file(256, 26, 1024, 64), 8
        slower = [slowdown, slowdown, 4 * slowdown, slowdown]
        schedule, rates, ideals, fresh = [slowdown] * 4, [], [], []
        schedule.append(f"{{node: 2, from_update: 30, factor: {4 * slowdown}}}")
        for _ in range(min(3, self.rounds)):
            ideals.append(self.planned(file, slower))
            rates.append(self.emulated(file, schedule, "view", lambda _: None, 8, 0))
            fresh.append(self.emulated(file, slower, "first_step", lambda _: None, 6, 0))
        case = "ring of 4, one 4 times slower from an update on, emulated"
        self.table.add(case, rates, "the plan for the new speeds", ideals, "samples/s", 0.9)
        self.table.add(case, rates, "such devices from the start", fresh, "samples/s", 0.9)

    # ---- what it costs while nothing happens ----

    @calm
    def steady(self, file, strategy, seconds, **settings):
        """Examples per second of a master and a node with a core each."""
        first, second = sorted(os.sched_getaffinity(0))[:2]
        with Node(self.rings, "--threads", "1", "--data", "/", prefix=("taskset", "-c", str(second))) as node:
            run = self.rings.start(file, 1000000000, "--strategy", strategy, "--node", node.address, name="steady",
                                   prefix=("taskset", "-c", str(first)), cluster__keep_all="true", train__report_seconds=0.5,
                                   stderr=subprocess.DEVNULL, **settings)
            try:
                journal = Journal(run)
                first, _ = journal.wait("first_step")
                time.sleep(1.0 + seconds)
                journal.read()
                return journal.rate(first["t"] + 1.0)
            finally:
                run.send_signal(signal.SIGINT)
                run.wait()
                shutil.rmtree(run.out, ignore_errors=True)

    def costs(self):
        if len(os.sched_getaffinity(0)) < 2:
            say("failure costs: left out, they need two cores")
            return
        file, seconds = self.rings.file(1024, 8, 256, 32), 8
        for strategy in ("ring", "allreduce-ring"):
            for what, bar, settings in (("replicas", 0.98, {"cluster__replica": "memory"}),
                                        ("a checkpoint every 3 s", 0.965, {"train__checkpoint_seconds": 3})):
                without, with_it = [], []
                for i in range(self.rounds):
                    both = [(without, {"cluster__replica": "off"}), (with_it, {"cluster__replica": "off", **settings})]
                    for rates, how in both if i % 2 == 0 else reversed(both):
                        rates.append(self.steady(file, strategy, seconds, **how))
                self.table.add(f"{strategy} of 2, a core each, with {what}", with_it, "without", without, "samples/s", bar)

    CASES = {"failure kill": kills, "failure silence": silent, "failure afterwards": afterwards,
             "failure rebalance": rebalanced, "failure costs": costs}

    def run(self, asked):
        for name, case in self.CASES.items():
            if not asked(name):
                continue
            try:
                case(self)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                say(f"{name}: {error}")
