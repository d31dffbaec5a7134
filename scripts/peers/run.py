#!/usr/bin/env python3
"""Runs one load through tokenring and the clients it is measured beside, one after the other, each
against a fresh `tokenring mock`, and prints one table of what was seen from outside and of how far
each report is from the server's own account.

Clients are installed under --cache; one that cannot be had is skipped, and the last lines say why.
Python 3.11 or later on Linux; nothing but its standard library.
"""

import argparse
import contextlib
import math
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import peers
import stage
from stage import Failed

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tokenring/peers"


@dataclass(frozen=True)
class Load:
    """A closed loop, each token an event of its own."""

    name: str
    streams: int
    requests: int
    tokens: int
    ttft_ms: int
    itl_ms: int

    def ideal_s(self):
        """What it takes if nothing is late."""
        answer_ms = self.ttft_ms + (self.tokens - 1) * self.itl_ms
        return math.ceil(self.requests / self.streams) * answer_ms / 1000

    def ideal_events_per_s(self):
        return self.requests * self.tokens / self.ideal_s()


LOADS = [
    # 40,000 events/s for 20 s.
    Load("steady", streams=1000, requests=4000, tokens=200, ttft_ms=20, itl_ms=25),
    # Every request is one of those that start at once.
    Load("burst", streams=1024, requests=1024, tokens=64, ttft_ms=20, itl_ms=25),
    # A person's first try.
    Load("tiny", streams=20, requests=20, tokens=16, ttft_ms=20, itl_ms=10),
]


@dataclass
class Round:
    """One client's figures of one round."""

    # Per event: in all; user and system; before the first request, from there to the last event,
    # after it.
    cpu_us: float
    cpu_kinds_us: list
    cpu_parts_us: list
    delivered: float
    start_s: float
    wall_s: float
    memory_mb: float
    # Reported less true, by percentile, in ms; empty where the client reports none.
    ttft_error_ms: dict
    itl_error_ms: dict
    others_ratio: float
    verdict: str


def true_ms(histogram, percentile):
    """The mock names the lower end of a bucket, 64 to an octave; the middle is the better guess."""
    ns = histogram[f"p{percentile}"]
    width = 1 << max(0, ns.bit_length() - 7)
    return (ns + width / 2) / 1e6


def errors(reported, histogram):
    return {p: ms - true_ms(histogram, p) for p, ms in reported.items()}


def measure(peer, load, args, tokenizer):
    out = args.cache / "runs" / load.name / peer.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with stage.Mock(args.binary, {args.mock_core}, load) as mock:
        command = [str(word) for word in peer.command(load, mock.url, tokenizer, out)]
        seen = stage.watch(
            command, peer.environment(), {args.client_core}, out / "log", mock, args.limit_s
        )
    stats, events = seen.stats, seen.stats["events"]
    report = peer.report(out)
    kinds = (seen.user_s, seen.system_s)
    end_cpu_s = sum(kinds) - seen.start_cpu_s - seen.stream_cpu_s
    parts = (seen.start_cpu_s, seen.stream_cpu_s, end_cpu_s)
    return Round(
        cpu_us=sum(kinds) / events * 1e6,
        cpu_kinds_us=[kind / events * 1e6 for kind in kinds],
        cpu_parts_us=[part / events * 1e6 for part in parts],
        delivered=events / seen.busy_s / load.ideal_events_per_s(),
        start_s=seen.start_s,
        wall_s=seen.wall_s,
        memory_mb=seen.memory_bytes / 1e6,
        ttft_error_ms=errors(report.ttft_ms, stats["ttft_ns"]),
        itl_error_ms=errors(report.itl_ms, stats["itl_ns"]),
        others_ratio=seen.others_ratio,
        verdict=report.verdict,
    )


def run_all(clients, load, args, tokenizer, skipped):
    """Rounds of all clients, forwards and backwards by turns: what drifts then hits both ends."""
    rounds = {client.name: [] for client in clients}
    for index in range(args.rounds):
        for client in clients[:: -1 if index % 2 else 1]:
            if client.name in skipped:
                continue
            if args.quiet:
                stage.wait_quiet({args.mock_core, args.client_core})
            say(f"{load.name} {index + 1}/{args.rounds}: {client.name}")
            try:
                rounds[client.name].append(measure(client, load, args, tokenizer))
            except (Failed, OSError, KeyError, ValueError, ZeroDivisionError) as error:
                skipped[client.name] = f"{type(error).__name__}: {error}"
                say(f"SKIPPED {client.name}: {skipped[client.name]}")
    return {name: done for name, done in rounds.items() if done and name not in skipped}


def middle(rounds, of):
    return median(of(done) for done in rounds)


def ratio(rounds, base, of):
    """The median of each round's own ratio: a slow minute slows both."""
    return median(of(mine) / of(its) for mine, its in zip(rounds, base))


def beside(rounds, base, of, digits):
    cell = f"{middle(rounds, of):.{digits}f}"
    return f"{cell} ({ratio(rounds, base, of):.2f})" if base else cell


def error_cell(rounds, of):
    if not of(rounds[0]):
        return "-"
    return " / ".join(f"{middle(rounds, lambda done: of(done)[p]):+.1f}" for p in (50, 99))


def parts_cell(rounds, of):
    parts = range(len(of(rounds[0])))
    return " / ".join(f"{middle(rounds, lambda done: of(done)[part]):.1f}" for part in parts)


def table(results):
    base = results.get("tokenring")
    head = ["client", "CPU per event, us", "user / system", "start / stream / end",
            "TTFT error p50 / p99, ms", "ITL error p50 / p99, ms", "delivered, %", "start, s",
            "wall, s", "memory, MB"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, rounds in results.items():
        cells = [
            name,
            beside(rounds, base, lambda done: done.cpu_us, 2),
            parts_cell(rounds, lambda done: done.cpu_kinds_us),
            parts_cell(rounds, lambda done: done.cpu_parts_us),
            error_cell(rounds, lambda done: done.ttft_error_ms),
            error_cell(rounds, lambda done: done.itl_error_ms),
            f"{middle(rounds, lambda done: done.delivered) * 100:.0f}",
            beside(rounds, base, lambda done: done.start_s, 2),
            beside(rounds, base, lambda done: done.wall_s, 2),
            beside(rounds, base, lambda done: done.memory_mb, 0),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def bounds(load, results):
    """What tokenring must reach, as (what, measured, bound)."""
    mine = results.get("tokenring")
    if mine is None:
        return
    if load.name == "steady":
        for other in ("vllm-rs", "sglang-bench"):
            if other in results:
                share = ratio(mine, results[other], lambda done: done.cpu_us)
                yield f"CPU per event, of {other}'s", share, 0.6
    if load.name == "burst":
        error = middle(mine, lambda done: done.ttft_error_ms[99])
        yield "TTFT p99 over the server's truth, ms", error, 3.0
    if load.name == "tiny" and "aiperf" in results:
        share = ratio(mine, results["aiperf"], lambda done: done.wall_s)
        yield "wall time, of aiperf's", share, 1 / 20


def say(text):
    print(text, file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [load.name for load in LOADS]
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=f"of {', '.join(names)} [all]")
    parser.add_argument("--only", metavar="A,B", help="these clients, and tokenring")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each load [3]")
    parser.add_argument("--pairs", type=int, help="2 N rounds: each order equally often")
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/tokenring",
                        help="the tokenring to measure [target/release/tokenring]")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where clients live [{CACHE}]")
    parser.add_argument("--no-install", action="store_true", help="take only what is there")
    parser.add_argument("--with-tools", action="store_true",
                        help="install wrk by apt-get and oha by cargo if they lack")
    parser.add_argument("--mock-core", type=int, default=0, help="CPU of the mock [0]")
    parser.add_argument("--client-core", type=int, default=1, help="CPU of the client [1]")
    parser.add_argument("--steer", action="store_true",
                        help="the mock's network work on the mock's core, as between two machines;"
                        " sets the whole machine meanwhile, and needs root")
    parser.add_argument("--quiet", action="store_true",
                        help="before each run wait until nobody else works on both CPUs")
    parser.add_argument("--limit-s", type=int, default=400, help="most seconds of one run [400]")
    args = parser.parse_args()
    if unknown := set(args.loads) - set(names):
        parser.error(f"no load is called {', '.join(sorted(unknown))}")
    args.loads = [load for load in LOADS if load.name in (args.loads or names)]
    args.rounds = 2 * args.pairs if args.pairs else args.rounds
    if not args.binary.is_file():
        parser.error(f"{args.binary} is not there: cargo build --release, or --binary")
    if lacking := {args.mock_core, args.client_core} - os.sched_getaffinity(0):
        parser.error(f"CPU {min(lacking)} cannot be used")
    args.binary, args.cache = args.binary.resolve(), args.cache.expanduser().resolve()
    if args.cache.is_relative_to(ROOT):
        parser.error("--cache lies in the repository")
    return args


def prepare(args):
    """The clients asked for, those that cannot be had with the reason, and the tokenizer."""
    kinds = [peers.VllmRs, peers.SglangBench, peers.Aiperf, peers.Guidellm, peers.Wrk, peers.Oha]
    clients = [peers.Tokenring(args.binary)] + [kind(args.cache) for kind in kinds]
    if args.only:
        wanted = {"tokenring", *args.only.split(",")}
        if unknown := wanted - {client.name for client in clients}:
            raise SystemExit(f"no client is called {', '.join(sorted(unknown))}")
        clients = [client for client in clients if client.name in wanted]
    tokenizer = peers.Tokenizer(args.cache)
    try:
        tokenizer.ensure(not args.no_install)
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        raise SystemExit(f"no tokenizer: {error}") from error
    missing = {}
    for client in clients:
        try:
            if args.with_tools and isinstance(client, peers.Tool):
                client.get()
            client.ensure(not args.no_install)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            missing[client.name] = str(error)
            say(f"SKIPPED {client.name}: {error}")
    return clients, missing, tokenizer.folder


def show(load, results, skipped, args):
    events = load.requests * load.tokens
    print(f"\n{load.name}: {load.streams} streams, {load.requests} requests, {events} events,"
          f" TTFT {load.ttft_ms} ms, ITL {load.itl_ms} ms; medians of {args.rounds} rounds,"
          " in brackets that of each round's ratio to tokenring\n")
    print(table(results), end="\n\n")
    for what, measured, most in bounds(load, results):
        word = "met" if measured <= most else "MISSED"
        print(f"{word}: {what}: {measured:.3g}, at most {most:.3g}")
    others = [done.others_ratio for rounds in results.values() for done in rounds]
    if others:
        print(f"others took {median(others) * 100:.0f} % of both CPUs in the middle run,"
              f" {max(others) * 100:.0f} % in the worst")
    for done in results.get("tokenring", []):
        if done.verdict != "VALID":
            print(f"a tokenring run was {done.verdict}")
    for name, reason in skipped.items():
        print(f"SKIPPED {name}: {reason}")


def main():
    args = arguments()
    # A stop runs the ends of all `with` and `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stage.adopt_orphans()
    # Every stream is a connection; clients inherit the limit.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    clients, missing, tokenizer = prepare(args)
    # Where it disturbs neither; where there are but two CPUs it costs the mock little.
    rest = os.sched_getaffinity(0) - {args.mock_core, args.client_core}
    os.sched_setaffinity(0, rest or {args.mock_core})
    print(f"{' '.join(getattr(client, 'source', '') or client.name for client in clients)},"
          f" Linux {platform.release()}, mock on CPU {args.mock_core}, client on"
          f" CPU {args.client_core}{', steered' if args.steer else ''}")
    for load in args.loads:
        skipped = dict(missing)
        with stage.steered(args.mock_core) if args.steer else contextlib.nullcontext():
            results = run_all(clients, load, args, tokenizer, skipped)
        show(load, results, skipped, args)


if __name__ == "__main__":
    main()
