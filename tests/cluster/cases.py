#!/usr/bin/env python3
"""Cases to test, one on each line, as `name=value name=value`.

    cases.py all   name=value,value ...    every combination
    cases.py pairs name=value,value ...    few, but every value of one name meets every value of each other name
"""
import itertools
import random
import sys


def pairs_of(case):
    return set(itertools.combinations(enumerate(case), 2))


def few(values):
    """Greedily: of some random cases the one with the most pairs that have not met yet. Always the same ones."""
    numbers = random.Random(1)
    left = {
        ((i, a), (j, b))
        for i, j in itertools.combinations(range(len(values)), 2)
        for a in values[i]
        for b in values[j]
    }
    while left:
        best = []
        for _ in range(40):
            first = dict(min(left) if not best else numbers.choice(sorted(left)))
            case = [first.get(i, numbers.choice(choices)) for i, choices in enumerate(values)]
            if not best or len(pairs_of(case) & left) > len(pairs_of(best) & left):
                best = case
        left -= pairs_of(best)
        yield best


def main():
    how, names, values = sys.argv[1], [], []
    for argument in sys.argv[2:]:
        name, choices = argument.split("=")
        names.append(name)
        values.append(choices.split(","))
    for case in few(values) if how == "pairs" else itertools.product(*values):
        print(*(f"{name}={value}" for name, value in zip(names, case)))


main()
