#!/usr/bin/env python3
"""Bothers nodes without end: garbage, halves of messages, crowds of connections, slow senders, and what nodes were sent in an
earlier view of the run, byte for byte.

    hostile.py DIRECTORY HOST:PORT...

DIRECTORY: what meddle.py has kept. Prints at every tenth attempt how many were made of each kind.
"""
import os
import random
import socket
import sys
import threading
import time

directory, targets = sys.argv[1], [(host, int(port)) for host, port in (word.rsplit(":", 1) for word in sys.argv[2:])]
numbers, made, lock = random.Random(1), {}, threading.Lock()


def recorded():
    names = [os.path.join(directory, name) for name in os.listdir(directory)]
    with open(numbers.choice(names), "rb") as file:
        return file.read(1 << 16)


def listen(link, seconds):
    """Until the node has closed it, or for so long."""
    link.settimeout(seconds)
    while link.recv(4096):
        pass


def garbage(target):
    with socket.create_connection(target, 1) as link:
        link.sendall(numbers.randbytes(4096))
        listen(link, 0.5)


def half(target):
    said = recorded()
    with socket.create_connection(target, 1) as link:
        link.sendall(said[: numbers.randrange(1, len(said) + 1)])
        listen(link, 1)


def again(target):
    with socket.create_connection(target, 1) as link:
        link.sendall(recorded())
        listen(link, 0.5)


def slow(target):
    with socket.create_connection(target, 1) as link:
        for byte in recorded()[:40]:
            link.sendall(bytes([byte]))
            time.sleep(0.1)


def crowd(target):
    links = [socket.create_connection(target, 1) for _ in range(20)]
    time.sleep(0.2)
    for link in links:
        link.close()


def bother(kind):
    while True:
        for target in targets:
            try:
                kind(target)
            except OSError:
                pass
            with lock:
                made[kind.__name__] = made.get(kind.__name__, 0) + 1
                if sum(made.values()) % 10 == 0:
                    print(*(f"{name} {count}" for name, count in sorted(made.items())), flush=True)
            time.sleep(0.05)


for one in (garbage, half, again, slow, crowd):
    threading.Thread(target=bother, args=(one,), daemon=True).start()
threading.Event().wait()
