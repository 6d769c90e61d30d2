"""Devices on a slow network: namespaces joined by a bridge, each behind a port of limited speed. Needs root."""

import json
import os
import subprocess
import time

TAG = "rtbench"


def call(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def in_space(space, *command):
    return ["ip", "netns", "exec", space, *command]


class NetLab:
    """with NetLab(4, "100mbit") as lab: device i has the address lab.address(i) and runs what lab.inside(i) is put
    before. What a device sends passes a token bucket; congestion control is cubic, as on most machines, or reno."""

    def __init__(self, count, rate):
        self.count, self.rate = count, rate
        self.spaces = [f"{TAG}-{os.getpid()}-{i}" for i in range(count)]
        self.switch = f"{TAG}-{os.getpid()}-switch"

    @staticmethod
    def why_not():
        """Why there can be no such network here, or None."""
        if os.geteuid() != 0:
            return "it needs root"
        try:
            call("ip", "netns", "add", TAG + "-try")
            call(*in_space(TAG + "-try", "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst",
                           "16kb", "latency", "50ms"))
        except (OSError, subprocess.CalledProcessError) as error:
            return f"namespaces or tc do not work ({getattr(error, 'stderr', None) or error})"
        finally:
            subprocess.run(["ip", "netns", "delete", TAG + "-try"], check=False, stderr=subprocess.DEVNULL)
        return None

    def address(self, i):
        return f"10.203.7.{i + 1}"

    def inside(self, i):
        return in_space(self.spaces[i])

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        call("ip", "netns", "add", self.switch)
        call(*in_space(self.switch, "ip", "link", "add", "bridge", "type", "bridge"))
        call(*in_space(self.switch, "ip", "link", "set", "bridge", "up"))
        for i, space in enumerate(self.spaces):
            call("ip", "netns", "add", space)
            call(*in_space(space, "ip", "link", "add", "port", "type", "veth", "peer", "name", f"port{i}", "netns",
                           self.switch))
            call(*in_space(self.switch, "ip", "link", "set", f"port{i}", "master", "bridge", "up"))
            call(*in_space(space, "ip", "address", "add", self.address(i) + "/24", "dev", "port"))
            call(*in_space(space, "ip", "link", "set", "lo", "up"))
            # Pieces that the bucket need not cut up: cutting costs CPU time, which would count as the devices'.
            call(*in_space(space, "ip", "link", "set", "port", "up", "gso_max_size", "16384"))
            call(*in_space(space, "tc", "qdisc", "add", "dev", "port", "root", "tbf", "rate", self.rate,
                           "burst", "32kb", "latency", "20ms"))
            self.choose_congestion_control(space)

    @staticmethod
    def choose_congestion_control(space):
        """bbr, which some machines use, probes the link, which disturbs short runs; cubic may be forbidden in
        namespaces, reno never is."""
        for name in ("cubic", "reno"):
            if subprocess.run(in_space(space, "sysctl", "-q", "-w", f"net.ipv4.tcp_congestion_control={name}"),
                              check=False, stderr=subprocess.DEVNULL).returncode == 0:
                return

    def __exit__(self, *_):
        for space in (*self.spaces, self.switch):
            subprocess.run(["ip", "netns", "delete", space], check=False, stderr=subprocess.DEVNULL)

    def iperf3(self, seconds=3):
        """Bytes per second that iperf3 gets from device 0 to device 1."""
        server = subprocess.Popen([*self.inside(1), "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        try:
            told = subprocess.run([*self.inside(0), "iperf3", "-c", self.address(1), "-t", str(seconds), "-O", "1",
                                   "-J"], check=True, stdout=subprocess.PIPE)
            server.wait(timeout=10)
        finally:
            server.kill()
        return json.loads(told.stdout)["end"]["sum_received"]["bits_per_second"] / 8
