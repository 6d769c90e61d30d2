"""Measurements on a machine whose cores are lent out by a hypervisor: what it takes away of them ("steal" in
/proc/stat) slows a single process by as much, and processes that wait for one another by a multiple of it. A measurement
during which more than a little was stolen is made again, ours and the peers' alike; if none is calm, the calmest counts.
"""

import functools
import sys

LIMIT = 0.015  # of the time of all cores
TRIES = 4


def clock():
    """(ticks stolen, all ticks) since the machine was started, of all cores."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]  # user ... softirq, steal
    return ticks[7] if len(ticks) > 7 else 0, sum(ticks)


def calm(measure):
    """A function that measures something once, as one that does it when nobody steals."""

    @functools.wraps(measure)
    def measured(*words, **named):
        tries = []
        while len(tries) < TRIES and (not tries or min(tries)[0] > LIMIT):
            before = clock()
            result = measure(*words, **named)
            stolen, all_ticks = (after - start for after, start in zip(clock(), before))
            tries.append((stolen / max(all_ticks, 1), len(tries), result))
        share, _, result = min(tries, key=lambda one: one[:2])
        if share > LIMIT:
            print(f"bench: {100 * share:.0f} % of the cores' time was stolen in {measure.__name__}, at best of {TRIES} tries",
                  file=sys.stderr, flush=True)
        return result

    return measured
