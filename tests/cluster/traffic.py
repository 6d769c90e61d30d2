#!/usr/bin/env python3
"""Looks at captured traffic of a ring (capture.py) for what must not be there.

    traffic.py plain|secret FILE --ring ADDRESS,... [--views N] [--images FILE --labels FILE --scale S --micro-batch M]

The addresses are those of the ring's nodes in its order, the master's first. `plain`: the phases of a run are told
apart by its messages (docs/protocol.md). A view is formed until the head of its first FORWARD is sent, with a ring of those that
the SETTLE of that view names. It is over when the master connects to its nodes for the next one, or when the first STOP says
that there is nothing left to do. In between no byte passes between nodes that are not neighbours; and model state passes between
neighbours only, whenever it does. In all of it, from the first connection to the last, there are neither inputs nor a
micro-batch's sequence of labels. `secret`: not even a message can be told.
"""
import argparse
import bisect
import struct
import sys

HELLO, SETTLE, FORWARD, STOP, BACKWARD, METRICS, PART = 1, 11, 32, 35, 48, 65, 66
PREAMBLE, FRAME, HEAD, TAIL = 28, 12, 88, 4
problems = []


def check(condition, sentence):
    if not condition:
        problems.append(sentence)


def packets(path):
    """(time, from, to, sequence number, opens, payload) of every TCP segment; an end is (address, port)."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        when, length = struct.unpack_from("<dI", data, at)
        frame = data[at + 12 : at + 12 + length]
        at += 12 + length
        if frame[23] != 6:
            continue
        start = 14 + (frame[14] & 15) * 4
        end = 14 + struct.unpack_from(">H", frame, 16)[0]
        source, target = (".".join(map(str, frame[i : i + 4])) for i in (26, 30))
        source_port, target_port, number = struct.unpack_from(">HHI", frame, start)
        payload = frame[start + (frame[start + 12] >> 4) * 4 : end]
        yield when, (source, source_port), (target, target_port), number, frame[start + 13] & 2, payload


class Stream:
    """One direction of a connection, put together again."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.first, self.bytes, self.opened = None, bytearray(), None
        self.offsets, self.times = [], []  # when the bytes from an offset on came

    def add(self, when, number, opens, payload):
        if opens:
            self.first, self.opened = number + 1, self.opened or when
            return
        if not payload:
            return
        offset = (number - self.first) & 0xFFFFFFFF
        if offset + len(payload) <= len(self.bytes) or offset > 1 << 31:  # sent again
            return
        check(offset <= len(self.bytes), f"bytes from {self.source} to {self.target} are missing in the capture")
        self.offsets.append(len(self.bytes))
        self.times.append(when)
        self.bytes += payload[len(self.bytes) - offset :]

    def when(self, offset):
        return self.times[bisect.bisect_right(self.offsets, offset) - 1]

    def messages(self):
        """(type, when, body, the node that it is for, where it has one) of each message."""
        at = PREAMBLE
        while at + FRAME <= len(self.bytes):
            kind, _, head, body = struct.unpack_from("<BBHI", self.bytes, at)
            if kind != 1:
                at += FRAME
                continue
            start = at + FRAME
            check(self.bytes[start : start + 4] == b"RTMP", f"no message at byte {at} from {self.source}")
            kind, target = (struct.unpack_from("<H", self.bytes, start + offset)[0] for offset in (6, 50))
            yield kind, self.when(at), self.bytes[start + head : start + head + body], target
            at = start + head + body + TAIL


def look_for(streams, what, patterns):
    for pattern in patterns:
        for stream in streams:
            if pattern in stream.bytes:
                problems.append(f"{what} went from {stream.source} to {stream.target}")
                return


def check_data(streams, options):
    """16 values of each input, as they are in the file and as numbers; labels in the order of the file."""
    pixels = open(options.images, "rb").read()[16:]
    labels = open(options.labels, "rb").read()[8:]
    size = len(pixels) // len(labels)
    pieces = [pixels[i + size // 2 : i + size // 2 + 16] for i in range(0, len(pixels), size)]
    orders = [labels[i : i + options.micro_batch] for i in range(0, len(labels), options.micro_batch)]
    check(min(len(set(order)) for order in orders) > 1, "the labels to look for are too simple")

    def as_numbers(values, scale, form):
        return struct.pack(f"<{len(values)}{form}", *(scale(value) for value in values))

    look_for(streams, "inputs", pieces)
    for form in "fd":
        look_for(streams, f"inputs ({form})", [as_numbers(piece, float, form) for piece in pieces])
        scaled = [as_numbers(piece, lambda value: value * options.scale, form) for piece in pieces]
        look_for(streams, f"scaled inputs ({form})", scaled)
    look_for(streams, "labels", orders)
    for form in "hiqfd":
        kind = float if form in "fd" else int
        look_for(streams, f"labels ({form})", [as_numbers(order, kind, form) for order in orders])


def find_views(said, master, order):
    """{view: (begin, end, [addresses in the order of the ring])}"""
    views, calls, forwards = {}, {}, []
    for kind, when, stream, body, _ in said:
        if kind == SETTLE:
            index, count, view = struct.unpack_from("<HHI", body)
            views.setdefault(view, [master] + [None] * (count - 1))[index] = stream.target[0]
        elif kind == HELLO and body[0] == 1:  # of the master
            view = struct.unpack_from("<I", body, 5)[0]
            calls.setdefault(view, []).append((stream.opened, stream.target[0]))
        elif kind == FORWARD:
            forwards.append(when)
    found, stop = {}, min((when for kind, when, *_ in said if kind == STOP), default=None)
    for view, members in sorted(views.items()):
        members = order(members)
        settled = max(when for kind, when, _, body, _ in said if kind == SETTLE and struct.unpack_from("<I", body, 4)[0] == view)
        begin = min((when for when in forwards if when > settled), default=None)
        later = [opened for other, opens in calls.items() if other > view for opened, target in opens if target in members]
        found[view] = (begin, min(later, default=stop), members, settled)
    return found


def check_phases(segments, streams, ring, wanted):
    said = [(kind, when, stream, body, target) for stream in streams for kind, when, body, target in stream.messages()]
    # The order in which the check believes: that of the command line, with those that take part.
    views = find_views(said, ring[0], lambda members: [address for address in ring if address in members])
    check(len(views) == wanted, f"{len(views)} views are to be seen, not {wanted}")
    for view, (begin, end, members, settled) in views.items():
        if begin is None or end is None or begin >= end:
            problems.append(f"view {view}: no training is to be seen: no FORWARD, or no STOP after it")
            continue
        check_view(segments, said, view, (begin, end, members), len(views) == 1)
    check_state(said, views)


def check_view(segments, said, view, phase, has_metrics):
    begin, end, members = phase
    place = {address: index for index, address in enumerate(members)}
    between = {}  # (node, node): [packets, bytes] while they train
    for when, source, target, _, _, payload in segments:
        if begin <= when <= end and source[0] in place and target[0] in place:
            count = between.setdefault(tuple(sorted((place[source[0]], place[target[0]]))), [0, 0])
            count[0] += 1
            count[1] += len(payload)
    for (one, other), (count, size) in sorted(between.items()):
        near = (other - one) in (1, len(members) - 1)
        print(f"  view {view}, nodes {one} and {other} of {len(members)}: {count} packets, {size} bytes while training")
        check(near, f"{count} packets, {size} bytes between nodes {one} and {other}, which are not neighbours")
    greeted = {stream.target[0] for kind, when, stream, _, _ in said if kind == SETTLE and when < begin}
    check(len(greeted) >= len(members) - 1, "the master was not seen to greet all nodes")
    # What proves that the capture has seen it: the tensors of every link, who goes which way; the metrics, where every update has some.
    now = [message for message in said if begin <= message[1] <= end]
    for index, address in enumerate(members):
        following = members[(index + 1) % len(members)]
        for kind, name, one, other in (
            (FORWARD, "activations", address, following),
            (BACKWARD, "gradients", following, address),
            (METRICS, "metrics", address, following),
        ):
            found = [body for k, _, s, body, _ in now if k == kind and s.source[0] == one and s.target[0] == other]
            check((found and all(found)) or (kind == METRICS and not has_metrics), f"view {view}: no {name} from node {place[one]} to node {place[other]}")
        for kind, _, stream, _, _ in now:
            if stream.source[0] == following and stream.target[0] == address:
                check(kind != FORWARD or len(members) == 2, "a FORWARD goes the wrong way")


def check_state(said, views):
    """Model state goes from neighbour to neighbour, and what is for others is passed on."""
    passed_on = 0
    for kind, when, stream, _, target in said:
        if kind != PART:
            continue
        members = max((settled, members) for _, _, members, settled in views.values() if settled <= when)[1]
        one, other = members.index(stream.source[0]), members.index(stream.target[0])
        check((other - one) % len(members) in (1, len(members) - 1),
              f"model state goes from node {one} to node {other}, which are not neighbours")
        passed_on += target != other
    if len(views) > 1:
        print(f"  {passed_on} parts of the state were on their way to another node")
        check(passed_on > 0, "no state was passed on by a node that it is not for")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["plain", "secret"])
    parser.add_argument("file")
    parser.add_argument("--ring", required=True, type=lambda text: text.split(","))
    parser.add_argument("--views", type=int, default=1)
    parser.add_argument("--images")
    parser.add_argument("--labels")
    parser.add_argument("--scale", type=float)
    parser.add_argument("--micro-batch", type=int)
    options = parser.parse_args()

    segments = list(packets(options.file))
    found = {}
    for when, source, target, number, opens, payload in segments:
        found.setdefault((source, target), Stream(source, target)).add(when, number, opens, payload)
    streams = list(found.values())
    size = sum(len(stream.bytes) for stream in streams)
    print(f"{len(segments)} packets, {len(streams)} streams, {size} bytes")
    check(size > 10000, "hardly anything was captured")
    if options.how == "plain":
        check_phases(segments, streams, options.ring, options.views)
        if options.images:
            check_data(streams, options)
    else:
        look_for(streams, "a message in clear", [b"RTMP", b"dense"])
    sys.exit("\n".join(dict.fromkeys(problems)) if problems else 0)


main()
