"""Measurements on a virtual machine: time that the hypervisor takes from its cores ("steal" in /proc/stat) slows a single
process by as much, and processes that wait for one another by a multiple of it. A measurement during which more than
LIMIT was stolen is repeated, ours and the peers' alike; if none is calm, the calmest counts.
"""

import functools
import sys

LIMIT = 0.015  # of the time of all cores
TRIES = 4


def clock():
    """(ticks stolen, all ticks) since the machine was started, of all cores."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]  # user ... softirq, steal
    return ticks[7] if len(ticks) > 7 else 0, sum(ticks)


def calm(measure):
    """Decorator: repeats a measurement during which the hypervisor took too much time."""

    @functools.wraps(measure)
    def measured(*arguments, **named):
        tries = []
        while len(tries) < TRIES and (not tries or min(tries)[0] > LIMIT):
            before = clock()
            result = measure(*arguments, **named)
            stolen, all_ticks = (after - start for after, start in zip(clock(), before))
            tries.append((stolen / max(all_ticks, 1), len(tries), result))
        share, _, result = min(tries, key=lambda one: one[:2])
        if share > LIMIT:
            print(f"bench: {100 * share:.0f} % of the cores' time was stolen in {measure.__name__}, at best of {TRIES} tries",
                  file=sys.stderr, flush=True)
        return result

    return measured
