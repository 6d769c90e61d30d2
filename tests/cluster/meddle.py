#!/usr/bin/env python3
"""Stands between a node and all who connect to it, and alters one message that the node sends, or is sent.

    meddle.py HOST:PORT from|to TYPE NTH HOW [DIRECTORY]

Prints "listening at HOST:PORT". Of the messages of a TYPE (docs/protocol.md) from the node, or to it, all connections
together, it alters the NTH, from 1; 0: all. HOW: `nan` puts a NaN into the last float of the body; `head` makes the head
that of no message; `type` turns the type into another; `body` turns every bit of the body round; `source` makes it
another node's. Checksums are made anew: what is altered is what the node says, not the way. Bodies travel: offers to
lend them are kept back. What the node is sent is kept in DIRECTORY, a file for each connection.
"""
import os
import socket
import struct
import sys
import threading

PREAMBLE, FRAME, TAIL = 28, 12, 4
SEALED, LIGHT, OFFER = 1, 4, 6
host, port = sys.argv[1].rsplit(":", 1)
direction, kind_wanted, nth, how = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
directory = sys.argv[6] if len(sys.argv) > 6 else None
lock, seen = threading.Lock(), 0

table = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    table.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def is_due():
    global seen
    with lock:
        seen += 1
        return nth in (0, seen)


def alter(head, body):
    if how == "nan":
        body[-4:] = struct.pack("<f", float("nan"))
    elif how == "head":
        head[0] ^= 1
    elif how == "type":
        struct.pack_into("<H", head, 6, 10)
    elif how == "source":
        struct.pack_into("<H", head, 10, 77)
    else:
        body[:] = bytes(byte ^ 255 for byte in body)


def read(source, count):
    data = bytearray()
    while len(data) < count:
        piece = source.recv(count - len(data))
        if not piece:
            raise OSError
        data += piece
    return data


class Kept:
    """A connection of which a copy is kept."""

    def __init__(self, target, path):
        self.target, self.file = target, open(path, "wb", buffering=0)

    def sendall(self, data):
        self.file.write(data)
        self.target.sendall(data)

    def shutdown(self, how):
        self.file.close()
        self.target.shutdown(how)


def pass_on(source, target, meddles):
    try:
        target.sendall(read(source, PREAMBLE))
        while True:
            start = read(source, FRAME)
            kind, _, head_bytes, body_bytes = struct.unpack_from("<BBHI", start)
            head = read(source, head_bytes) if kind in (SEALED, LIGHT, OFFER) else b""
            if kind not in (SEALED, LIGHT):
                if kind == OFFER:
                    read(source, TAIL)
                else:
                    target.sendall(start)
                continue
            body, tail = read(source, body_bytes), read(source, TAIL)
            if meddles and struct.unpack_from("<H", head, 6)[0] == kind_wanted and is_due():
                alter(head, body)
                tail = struct.pack("<I", crc32c(start + head + (body if kind == SEALED else b"")))
            target.sendall(start + head + body + tail)
    except OSError:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


count = 0
listener = socket.create_server(("127.0.0.1", 0))
print("listening at 127.0.0.1:%d" % listener.getsockname()[1], flush=True)
while True:
    client, _ = listener.accept()
    node = socket.create_connection((host, int(port)))
    for end in (client, node):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    count += 1
    kept = Kept(node, os.path.join(directory, str(count))) if directory else node
    threading.Thread(target=pass_on, args=(client, kept, direction == "to"), daemon=True).start()
    threading.Thread(target=pass_on, args=(node, client, direction == "from"), daemon=True).start()
