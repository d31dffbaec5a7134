"""The stage: `tokenring mock` on one core, a client on another, and what is seen of both.

Everything started here is ended here, by its id, and every wait has an end.
"""

import contextlib
import ctypes
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

MOCK_START_S_MAX = 10
MOCK_ANSWER_S_MAX = 10
# Fine before the first request, which ends the start-up; then coarse, since it is the mock's core
# that answers each look.
LOOK_S = 0.005
LOOK_LATER_S = 0.02
# A look at all processes takes longer.
LOOK_AROUND_S = 0.1

PEAK_KIB = re.compile(r"VmHWM:\s+(\d+) kB")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LOOPBACK_STEER = Path("/sys/class/net/lo/queues/rx-0/rps_cpus")


QUIET_RATIO = 0.1
QUIET_FOR_S = 2
QUIET_S_MAX = 120


class Failed(Exception):
    """A client that gave no figures, and why."""


def adopt_orphans():
    """Processes whose parent ends become ours, so that their CPU counts and none is left behind."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def on_cores(cores):
    """What a new process does before it runs its program: keep to `cores`, and end with us."""
    prctl = ctypes.CDLL(None).prctl

    def enter():
        os.sched_setaffinity(0, cores)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return enter


@contextlib.contextmanager
def steered(core):
    """Loopback packets are received on `core`, as docs/performance.md explains; needs root."""
    before = LOOPBACK_STEER.read_text().strip()
    LOOPBACK_STEER.write_text(f"{1 << core:x}")
    print(f"after a kill: echo {before} > {LOOPBACK_STEER}", file=sys.stderr)
    try:
        yield
    finally:
        LOOPBACK_STEER.write_text(before)


def busy_s(cores):
    """What CPUs have worked since boot; what a hypervisor took of them counts."""
    used = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in {f"cpu{core}" for core in cores}:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
            used += user + nice + system + irq + softirq + steal
    return used / TICKS_PER_S


def process_s(pid):
    """CPU time of a process and of its children that it has waited for."""
    with contextlib.suppress(OSError):
        # A name may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) / TICKS_PER_S
    return 0.0


def wait_quiet(cores):
    """Waits, not for ever, until nobody else works on these CPUs."""
    end = time.monotonic() + QUIET_S_MAX
    while time.monotonic() < end:
        before = busy_s(cores)
        time.sleep(QUIET_FOR_S)
        if busy_s(cores) - before < QUIET_RATIO * QUIET_FOR_S:
            return


class Mock:
    """`tokenring mock` on a free port of loopback."""

    def __init__(self, binary, cores, load):
        self.cores = cores
        command = [binary, "mock", "--port", "0", "--exit-with-stdin", "--tokens", load.tokens]
        command += ["--ttft-ms", load.ttft_ms, "--itl-ms", load.itl_ms]
        command += ["--cores", ",".join(str(core) for core in sorted(cores))]
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=on_cores(cores),
        )
        said, _, _ = select.select([self.process.stdout], [], [], MOCK_START_S_MAX)
        line = self.process.stdout.readline().decode() if said else ""
        if "http://" not in line:
            self.end()
            raise Failed(f"the mock did not start: {line.strip() or 'it said nothing'}")
        self.url = line.split()[-1]
        host = self.url.removeprefix("http://")
        self.connection = http.client.HTTPConnection(host, timeout=MOCK_ANSWER_S_MAX)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()

    def _get(self, path):
        try:
            self.connection.request("GET", path)
            return self.connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"the mock gave no {path}: {error}") from error

    def stats(self):
        """All that the mock knows: its counters, and its histograms in ns."""
        return json.loads(self._get("/stats"))

    def counters(self):
        """The counters alone, which cost the mock little."""
        lines = [line.split() for line in self._get("/metrics").splitlines() if line[0] != "#"]
        return {name.removeprefix("tokenring_mock_"): int(value) for name, value in lines}


@dataclass
class Seen:
    """One client's run, seen from outside."""

    exit_code: int = 0
    wall_s: float = 0.0
    # From launch to the first request, as the mock sees it.
    start_s: float = 0.0
    # From the first request to the last event.
    busy_s: float = 0.0
    # Of all its processes.
    user_s: float = 0.0
    system_s: float = 0.0
    # Of both, before the first request, and from there to the last event.
    start_cpu_s: float = 0.0
    stream_cpu_s: float = 0.0
    # The peaks of its processes; what they share counts in each.
    memory_bytes: int = 0
    # The share of both CPUs that neither it nor its mock nor this process used.
    others_ratio: float = 0.0
    # The mock's own account.
    stats: dict = None


def children(pid):
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in path.read_text().split()]
    return found


def tree(pid):
    """A process and all below it."""
    found = [pid]
    for process in found:
        found += children(process)
    return found


class Client:
    """A client's processes, from its launch to its end."""

    def __init__(self, command, environment, cores, log, mock):
        self.mock = mock
        self.process = subprocess.Popen(
            command,
            env=environment,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=on_cores(cores),
        )

    def processes(self):
        mine = set(children(os.getpid())) - {self.mock.process.pid}
        return [process for child in mine for process in tree(child)]

    def memory_bytes(self):
        """The sum of each one's peak so far: the kernel keeps it, so no look comes too late."""
        kib = 0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                found = PEAK_KIB.search(Path(f"/proc/{pid}/status").read_text())
                # A process about to end has no memory any more.
                kib += int(found[1]) if found else 0
        return kib * 1024

    def cpu_s(self):
        return sum(process_s(pid) for pid in self.processes())

    def end(self):
        """Kills what is left and returns its CPU time, user and system."""
        user_s, system_s = 0.0, 0.0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        # Each round may bring orphans of the ones before.
        while left := set(children(os.getpid())) - {self.mock.process.pid}:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    usage = os.wait4(pid, 0)[2]
                    user_s, system_s = user_s + usage.ru_utime, system_s + usage.ru_stime
        return user_s, system_s


def watch(command, environment, cores, log, mock, limit_s):
    """Runs a client against `mock`, and returns what was seen of it."""
    seen = Seen()
    all_cores = cores | mock.cores

    def here_s():
        return process_s(mock.process.pid) + sum(os.times()[:2])

    busy_before_s, here_before_s = busy_s(all_cores), here_s()
    events, events_then, around_at, first_at = 0, 0, 0.0, None
    start = time.monotonic()
    client = Client(command, environment, cores, log, mock)
    try:
        while True:
            now = time.monotonic()
            counters = mock.counters()
            if first_at is None and counters["requests"] > 0:
                first_at = now
                seen.start_s, seen.start_cpu_s = now - start, client.cpu_s()
            if counters["events"] != events:
                events, seen.busy_s = counters["events"], now - first_at
            if now >= around_at:
                seen.memory_bytes = max(seen.memory_bytes, client.memory_bytes())
                if events > events_then:
                    events_then, seen.stream_cpu_s = events, client.cpu_s() - seen.start_cpu_s
                around_at = now + LOOK_AROUND_S
            pid, status, usage = os.wait4(client.process.pid, os.WNOHANG)
            if pid:
                break
            if now - start > limit_s:
                raise Failed(f"not done after {limit_s} s (see {log})")
            time.sleep(LOOK_S if first_at is None else LOOK_LATER_S)
        seen.wall_s = time.monotonic() - start
        seen.exit_code = client.process.returncode = os.waitstatus_to_exitcode(status)
        seen.user_s, seen.system_s = usage.ru_utime, usage.ru_stime
    finally:
        left_user_s, left_system_s = client.end()
    seen.user_s, seen.system_s = seen.user_s + left_user_s, seen.system_s + left_system_s
    ours_s = seen.user_s + seen.system_s + here_s() - here_before_s
    seen.others_ratio = (busy_s(all_cores) - busy_before_s - ours_s) / len(all_cores) / seen.wall_s
    seen.stats = mock.stats()
    if seen.exit_code != 0:
        raise Failed(f"exit code {seen.exit_code} (see {log})")
    if first_at is None:
        raise Failed(f"it sent no request (see {log})")
    return seen
