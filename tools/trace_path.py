#!/usr/bin/env python3
"""Evaluates the records of tools/trace_path.sh.

    trace_path.py PROGRAM DIRECTORY [--list]      DIRECTORY/<strategy>/<command>.<process>.<thread>

A path has two legs, each from or to the socket. A leg begins and ends where a message passes between a thread and the
transport, a function of src/nn returns (the layer, the end of backward), one of src/nn is called (the layer), or the
optimizer is called to apply a step (rt_optim_apply). Where another thread goes on, the first one has the message until
it wakes the other, and the other from when it has been woken.

What is counted:

  way        the functions that a reader follows: those under way, on the stack of the thread that has the message, when
             it reaches the thread, is decoded or encoded, is judged by a server's rules, is handed to the other thread,
             and at the end of the leg
  entered    all functions that the thread enters meanwhile: checks and look-ups, and the other parts that are asked
             whether the event is theirs
  clocks     functions of src/metrics, and of files that look for lost peers (liveness, timeout, patience): in neither
             of the two

Not counted are src/base, src/tensor, src/net and src/sim, src/nn, where paths begin and end, and the function that ends
a leg. The way enters a folder when a function of another folder calls, or returns to, one of it; to return to a caller
on the way is no entrance. A leg is passed many times, also while other messages come; the passage with the fewest calls
is reported.
"""
import bisect
import os
import struct
import subprocess
import sys

ENTER, LEAVE, RECEIVED, EVENT, SEND, WAKE = range(1, 7)
FORWARD, CHUNK, PUSH = 32, 96, 112
# strategy, leg, the command whose process it is in, begin, end
LEGS = [
    ("ring", "socket to layer", "node", (RECEIVED, FORWARD), (ENTER, "nn")),
    ("ring", "layer to socket", "node", (LEAVE, "nn"), (SEND, FORWARD)),
    ("ps-sync", "backward to socket", "node", (LEAVE, "nn"), (SEND, CHUNK)),
    ("ps-sync", "socket to update", "train", (RECEIVED, CHUNK), (ENTER, "update")),
    ("ps-async", "backward to socket", "node", (LEAVE, "nn"), (SEND, PUSH)),
    ("ps-async", "socket to update", "train", (RECEIVED, PUSH), (ENTER, "update")),
]


class Function:
    def __init__(self, name, file):
        self.name, self.file, self.folder = name, file, os.path.dirname(file)
        part = file.split("/")[0]
        self.is_clock = part == "metrics" or any(word in file for word in ("liveness", "timeout", "patience"))
        self.counts = part not in ("base", "tensor", "net", "sim", "nn", "") and not self.is_clock
        self.place = "nn" if part == "nn" else "update" if name == "rt_optim_apply" else None
        is_rule = os.path.basename(file).startswith("rules_")
        self.is_point = is_rule or name in ("rt_message_decode", "rt_message_encode")


class Call:
    """caller: the function that the message came from, by a call or a return; None: from outside."""

    def __init__(self, function, caller, depth):
        self.function, self.caller, self.depth, self.on_way = function, caller, depth, False


def resolve(program, addresses):
    addresses = sorted(addresses)
    question = "\n".join(map(hex, addresses))
    command = ["addr2line", "-f", "-e", program]
    lines = subprocess.run(command, input=question, capture_output=True, text=True, check=True).stdout.split("\n")
    known = {}
    for i, address in enumerate(addresses):
        _, src, file = lines[2 * i + 1].split(":")[0].rpartition("/src/")
        known[address] = Function(lines[2 * i], file if src else "")
    return known


def read(directory):
    """{(command, process): {thread: [(order, address, kind, type), ...]}}"""
    processes = {}
    for name in os.listdir(directory):
        command, process, thread = name.rsplit(".", 2)
        with open(os.path.join(directory, name), "rb") as file:
            whole = file.read()
        records = []
        for record in struct.iter_unpack("<QQII", whole):
            if record[0] == 0:
                break
            records.append(record)
        processes.setdefault((command, process), {})[thread] = records
    return processes


def stacks_at(records, functions, orders):
    """{order: (index of the next record, the functions under way)} for orders at which there is a record."""
    stack, found = [], {}
    for index, (order, address, kind, _) in enumerate(records):
        if kind == ENTER:
            stack.append(functions[address])
        elif kind == LEAVE and stack:
            stack.pop()
        if order in orders:
            found[order] = index + 1, tuple(stack)
    return found


def calls_between(records, functions, start, end):
    """What a thread calls from a start, as stacks_at has it, to an order; and which of it is on the way."""
    index, under_way = start
    stack = [Call(function, None, depth) for depth, function in enumerate(under_way)]
    lowest = len(stack) - 1  # stack[lowest]: the outermost function that has had the message
    found = [stack[-1]]
    stack[-1].on_way = True
    while records[index][0] < end:
        _, address, kind, _ = records[index]
        index += 1
        if kind == ENTER:
            stack.append(Call(functions[address], stack[-1].function, len(stack)))
            found.append(stack[-1])
            if stack[-1].function.is_point:
                for call in stack[lowest:]:
                    call.on_way = True
        elif kind == LEAVE:
            left = stack.pop()
            if len(stack) <= lowest:
                lowest = len(stack) - 1
                stack[-1].caller = left.function
                found.append(stack[-1])
    for call in stack[lowest:]:
        call.on_way = True
    return found


def is_at(record, functions, place):
    _, address, kind, message = record
    if kind != place[0]:
        return False
    return functions[address].place == place[1] if kind in (ENTER, LEAVE) else message == place[1]


def passages(threads, functions, begin, end):
    """Each time a leg is passed: ((order, thread) at its begin, the same at its end)."""
    begins = sorted((r[0], t) for t, records in threads.items() for r in records if is_at(r, functions, begin))
    for thread, records in threads.items():
        at, last = 0, 0
        for record in (r for r in records if is_at(r, functions, end)):
            while at < len(begins) and begins[at][0] < record[0]:
                at += 1
            if at > 0 and begins[at - 1][0] > last:
                last = begins[at - 1][0]
                yield begins[at - 1], (record[0], thread)


def last_of(records, begin, end, kinds):
    """The order of the last record of these kinds between two orders; 0: none."""
    index = bisect.bisect_left(records, (end,)) - 1
    while index >= 0 and records[index][0] > begin and records[index][2] not in kinds:
        index -= 1
    return records[index][0] if index >= 0 and records[index][0] > begin else 0


def parts_of(threads, first, last):
    """The parts of a passage, one on each thread: (thread, from, to). None: the second thread was awake anyway."""
    (begin, giver), (end, taker) = first, last
    if giver == taker:
        return [(giver, begin, end)]
    came = last_of(threads[taker], begin, end, (EVENT, RECEIVED))
    woke = last_of(threads[giver], begin, came, (WAKE,))
    return [(giver, begin, woke), (taker, came, end)] if woke else None


def quietest(threads, functions, begin, end):
    """The calls of the passage with the fewest, a list for each thread; None: the leg was not passed."""
    divided = [parts_of(threads, *ends) for ends in passages(threads, functions, begin, end)]
    divided = [parts for parts in divided if parts]
    starts = {}
    for thread, records in threads.items():
        orders = {since for parts in divided for by, since, _ in parts if by == thread}
        starts[thread] = stacks_at(records, functions, orders)
    found = [[calls_between(threads[thread], functions, starts[thread][since], until) for thread, since, until in parts]
             for parts in divided]
    return min(found, key=lambda parts: sum(map(len, parts)), default=None)


def entrances(parts):
    """The folders in the order in which the way enters them."""
    order = []
    for part in parts:
        for call in part:
            if not call.on_way or not call.function.counts:
                continue
            folder, last = call.function.folder, order[-1] if order else None
            if folder != (call.caller.folder if call.caller else last):
                order.append(folder)
    return order


def unique(items):
    return list(dict.fromkeys(items))


def print_calls(parts):
    for number, part in enumerate(parts):
        if number:
            print("    ---- another thread")
        least = min(call.depth for call in part)
        for call in part:
            if call.function.counts:
                mark = "* " if call.on_way else "  "
                print(f"    {mark}{'  ' * (call.depth - least)}{call.function.name}  {call.function.file}")


COLUMNS = "{:10}{:20}{:>10}{:>7}{:>9}{:>11}{:>14}{:>8}  {}"


def print_row(path, leg, way, entered, folders, hand_offs, remark):
    others = [f for f in entered if f.counts]
    print(COLUMNS.format(path, leg, len({f.name for f in way}), len({f.file for f in way}), folders, hand_offs,
                         f"{len({f.name for f in others})} in {len({f.file for f in others})}",
                         len({f.name for f in entered if f.is_clock}), remark).rstrip())


def main():
    program, directory = sys.argv[1:3]
    listing = "--list" in sys.argv
    strategies = unique(leg[0] for leg in LEGS)
    runs = {strategy: read(os.path.join(directory, strategy)) for strategy in strategies}
    functions = resolve(program, {r[1] for run in runs.values() for threads in run.values()
                                  for records in threads.values() for r in records if r[1]})
    print(COLUMNS.format("path", "leg", "functions", "files", "folders", "hand-offs", "entered", "clocks",
                         "folders in order"))
    for strategy in strategies:
        whole_way, whole_entered, hand_offs = [], [], 0
        for _, leg, command, begin, end in (leg for leg in LEGS if leg[0] == strategy):
            found = [quietest(threads, functions, begin, end)
                     for (name, _), threads in runs[strategy].items() if name == command]
            best = min((parts for parts in found if parts), key=lambda parts: sum(map(len, parts)), default=None)
            if best is None:
                sys.exit(f"{strategy}, {leg}: not in the records")
            way = [call.function for part in best for call in part if call.on_way and call.function.counts]
            entered = [call.function for part in best for call in part]
            order = entrances(best)
            twice = [folder for folder in unique(order) if order.count(folder) > 1]
            print_row(strategy, leg, way, entered, len(set(order)), len(best) - 1,
                      ", ".join(order) + (f"; twice: {', '.join(twice)}" if twice else ""))
            if listing:
                print_calls(best)
            whole_way, whole_entered = whole_way + way, whole_entered + entered
            hand_offs += len(best) - 1
        print_row(strategy, "both", whole_way, whole_entered, len({f.folder for f in whole_way}), hand_offs,
                  " ".join(unique(f.file for f in whole_way)))


main()
