#!/usr/bin/env python3
"""Writes every IPv4 frame that enters a port of a bridge to a file, until SIGTERM.

    capture.py FILE BRIDGE

Runs in the network namespace of the bridge, where all frames between its ports pass once. A record is the time (a
double), the length (an unsigned 32-bit number) and the bytes of the frame. Ends with status 1 if the kernel had to
drop any.
"""
import signal
import socket
import struct
import sys
import time

ALL, OUTGOING, IPV4 = 0x0003, 4, 0x0800
SOL_PACKET, PACKET_STATISTICS, SO_RCVBUFFORCE = 263, 6, 33


def main():
    path, bridge = sys.argv[1:]
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)
    wire.settimeout(0.1)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    with open(path, "wb") as file:
        print("capturing", flush=True)
        while True:
            try:
                frame, (port, protocol, kind, *_) = wire.recvfrom(1 << 18)
            except socket.timeout:
                if ended:  # and nothing has come for a while
                    break
                continue
            if protocol == IPV4 and kind != OUTGOING and port != bridge:
                file.write(struct.pack("<dI", time.time(), len(frame)) + frame)
    dropped = struct.unpack("II", wire.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    if dropped:
        sys.exit(f"{dropped} frames were dropped")


main()
