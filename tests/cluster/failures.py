#!/usr/bin/env python3
"""Failures to try, drawn from a seed: one on each line, as `name=value name=value`, for failures.sh.

    failures.py SEED COUNT quick|processes|cables [STRATEGY,...]

A failure: which of three workers (who: 0, 1, 2, two of them, or m, the master), at which moment (at: seconds after the first
update), what (fault), for how long (for; 0: for good), and after how many seconds one that was killed is started again (back;
0: after the run). `processes`: kill, stop; `quick`: without the longest stops; `cables` need network namespaces: both directions are cut, or what the worker
sends (from) or is sent (to). Every kind of failure comes with every strategy before one comes again.
"""
import itertools
import random
import sys

STRATEGIES = "ring,ring-one,ps-sync,allreduce-rd,allreduce-ring,ps-async,hybrid"
WORKERS, PLACES = "012", ("0", "1", "2", "0,2", "0,1")


def kinds(what):
    if what == "cables":
        return [(fault, seconds, None) for fault in ("both", "from", "to") for seconds in (0, 1.5, 6)] + [
            ("both", 0, "0,2"), ("both", 0, "0,1")]
    kills = [("kill", 0, who) for who in (*PLACES, "m")]
    return kills + [("stop", seconds, who) for seconds in (0.5, 2, 10)[: 2 if what == "quick" else 3] for who in (None, "0,1", "m")]


def main():
    seed, count, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    strategies = (sys.argv[4] if len(sys.argv) > 4 else STRATEGIES).split(",")
    numbers, left = random.Random(f"{seed} {what}"), []
    for _ in range(count):
        if not left:
            left = list(itertools.product(kinds(what), strategies))
            numbers.shuffle(left)
        (fault, seconds, who), strategy = left.pop()
        back = numbers.choice(("0", f"{numbers.uniform(0.1, 1.5):.2f}")) if fault == "kill" and who != "m" else "0"
        print(f"strategy={strategy} fault={fault} who={who or numbers.choice(WORKERS)} at={numbers.uniform(0, 1):.3f} "
              f"for={seconds} back={back}")


main()
