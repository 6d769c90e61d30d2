"""What the peers' training programs share: the data, the random batches, and the talk with the runner.

    python PEER.py CASE         set up, choose the fastest variant, print {"ready": ...}; then for every line
                                on standard input measure once and print {"samples_per_s": ...}
    python PEER.py CASE --once  what a user's plain program costs: print the seconds from the start of the
                                process to the end of its first step, and the peak memory after some steps
"""

import gzip
import json
import os
import resource
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from cases import CASES, DATA_DIR, IMAGE  # noqa: E402

SECONDS = float(os.environ.get("BENCH_SECONDS", "1.5"))
clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter


def load_data():
    with gzip.open(os.path.join(DATA_DIR, "train-images-idx3-ubyte.gz")) as file:
        images = numpy.frombuffer(file.read(), numpy.uint8, offset=16)
    with gzip.open(os.path.join(DATA_DIR, "train-labels-idx1-ubyte.gz")) as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    images = images.reshape((-1,) + IMAGE).astype(numpy.float32) / numpy.float32(255)
    return images, labels.astype(numpy.int32)


class Batches:
    """Indices of random batches, every example once per epoch, as many at a time as asked for."""

    def __init__(self, examples, batch, dtype):
        self.examples, self.batch, self.dtype = examples, batch, dtype
        self.random = numpy.random.default_rng(1)
        self.order, self.at = None, examples

    def take(self, count):
        need = count * self.batch
        if self.at + need > self.examples:
            self.order = self.random.permutation(self.examples).astype(self.dtype)
            self.at = 0
        chosen = self.order[self.at : self.at + need]
        self.at += need
        return chosen.reshape(count, self.batch)


def rate(trainer, seconds):
    """Samples per second over at least the given time. trainer.run() does some steps and returns how many
    samples it took; trainer.wait() returns when they are really done."""
    trainer.wait()
    samples, chunk, start = 0, 1, clock()
    while True:
        before = clock()
        for _ in range(chunk):
            samples += trainer.run()
        trainer.wait()
        now = clock()
        if now - start >= seconds:
            return samples / (now - start)
        # Wait rarely: frameworks that queue work are fastest when they are left alone.
        if now - before < 0.05:
            chunk *= 2


def say(**fields):
    print(json.dumps(fields), flush=True)


def peak_rss():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(version, imported, variants, plain):
    """variants: {name: make(case, images, labels) -> trainer}; plain: the one a user would write."""
    case = CASES[sys.argv[1]]
    started = float(os.environ.get("BENCH_STARTED", "nan"))  # the runner's monotonic clock at the start
    if "--once" in sys.argv:
        loading = time.monotonic()
        images, labels = load_data()
        loaded = time.monotonic()
        trainer = variants[plain](case, images, labels)
        trainer.run()
        trainer.wait()
        first = time.monotonic()
        for _ in range(100):
            trainer.run()
        trainer.wait()
        say(version=version, import_s=imported - started, first_step_s=first - started - (loaded - loading),
            peak_rss_bytes=peak_rss())
        return
    images, labels = load_data()
    best, best_rate, best_name, rates = None, 0.0, None, {}
    for name, make in variants.items():
        try:
            trainer = make(case, images, labels)
            trainer.run()  # compiles
            rates[name] = rate(trainer, SECONDS / 5)
        except Exception as error:  # a variant this version does not have
            rates[name] = str(error)[:200]
            continue
        if rates[name] > best_rate:
            best, best_rate, best_name = trainer, rates[name], name
    if best is None:
        say(ready=False, version=version, variants=rates)
        return
    say(ready=True, version=version, variant=best_name, variants=rates)
    for _ in sys.stdin:
        say(samples_per_s=rate(best, SECONDS), loss=best.loss(), peak_rss_bytes=peak_rss())
