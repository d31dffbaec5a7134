#!/usr/bin/env python3
"""Compares tokenring's GPU telemetry with nvidia-smi's, beside a small CUDA load.

    python3 scripts/gpu/check.py target/release/tokenring > docs/gpu-check.md

Needs a machine with an NVIDIA driver and python3, nothing else: the load is PTX that the driver
compiles. Ends by itself after about half a minute. Exit code 0 when every figure agrees within its
tolerance, 1 when one does not, 2 when there is nothing to compare.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

SECONDS = 12
# What nvidia-smi calls it, our tag, the share by which the means may differ, and the least
# difference that counts. Both sample at moments of their own.
FIGURES = [
    ("power.draw.instant", "nvidia_power_usage", 0.10, 10.0),
    ("utilization.gpu", "nvidia_gpu_utilization", 0.10, 5.0),
    ("memory.used", "nvidia_memory_used", 0.02, 0.1),
    ("temperature.gpu", "nvidia_temperature", 0.05, 2.0),
    ("clocks.sm", "nvidia_sm_clock", 0.05, 60.0),
    ("clocks.mem", "nvidia_memory_clock", 0.02, 20.0),
    ("enforced.power.limit", "nvidia_power_limit", 0.01, 1.0),
]
MIB_IN_GB = 1.048576e-3

PTX = b"""
.version 6.4
.target sm_60
.address_size 64
.visible .entry burn(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p1;
    .reg .f32 %f<3>;
    .reg .u32 %r<3>;
    .reg .u64 %rd1;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.f32 %f1, 0f3F800001;
    mov.f32 %f2, 0f3F7FFFFF;
    mov.u32 %r2, 0;
LOOP:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    fma.rn.f32 %f1, %f1, %f2, %f2;
    fma.rn.f32 %f1, %f1, %f2, %f2;
    fma.rn.f32 %f1, %f1, %f2, %f2;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra LOOP;
    st.global.f32 [%rd1], %f1;
    ret;
}
\0"""


def burn(until, faults):
    """Keeps GPU 0 busy until the event is set."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")

        def call(name, *args):
            code = getattr(cuda, name)(*args)
            if code != 0:
                raise OSError(f"{name} gave {code}")

        device, context, module, kernel = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
        memory = ctypes.c_uint64()
        call("cuInit", 0)
        call("cuDeviceGet", ctypes.byref(device), 0)
        call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(kernel), module, b"burn")
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 30))
        rounds = ctypes.c_uint32(1 << 16)
        values = (ctypes.c_void_p * 2)(
            ctypes.addressof(memory), ctypes.addressof(rounds)
        )
        while not until.is_set():
            call("cuLaunchKernel", kernel, 512, 1, 1, 256, 1, 1, 0, None, values, None)
            call("cuCtxSynchronize")
        call("cuCtxDestroy_v2", context)
    except (OSError, AttributeError) as error:
        faults.append(str(error))


def watch(smi_log):
    """nvidia-smi, ten times a second, into a file."""
    names = ",".join(name for name, *_ in FIGURES)
    command = ["nvidia-smi", f"--query-gpu=timestamp,index,{names}"]
    command += ["--format=csv,noheader,nounits", "-lms", "100"]
    return subprocess.Popen(command, stdout=smi_log, stderr=subprocess.DEVNULL,
                            env={**os.environ, "TZ": "UTC"})


def smi_means(path, start, end):
    """Means of GPU 0 over wall times in seconds, by nvidia-smi's name."""
    seen = {name: [] for name, *_ in FIGURES}
    for line in Path(path).read_text().splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(FIGURES) + 2 or cells[1] != "0":
            continue
        at = datetime.strptime(cells[0], "%Y/%m/%d %H:%M:%S.%f")
        at = at.replace(tzinfo=timezone.utc).timestamp()
        if not start <= at <= end:
            continue
        for (name, *_), cell in zip(FIGURES, cells[2:]):
            try:
                seen[name].append(float(cell))
            except ValueError:
                pass  # [N/A]
    return {name: statistics.fmean(values) for name, values in seen.items() if values}


def profile(program, folder):
    command = [program, "profile", "--demo", "--streaming", "--concurrency", "8"]
    command += ["--benchmark-duration", str(SECONDS), "--gpu-telemetry", "nvml"]
    command += ["--gpu-idle-seconds", "3", "--allow-invalid", "--artifact-dir", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(Path(folder, "profile_export_aiperf.json").read_text())


def compare(report, smi):
    """Prints a row per figure; gives how many do not agree, and how many there are."""
    endpoint = next(iter(report["telemetry_data"]["endpoints"].values()))
    gpu = endpoint["gpus"]["gpu_0"]
    print(f"GPU 0: {gpu['gpu_name']}, {SECONDS} s beside a CUDA load.\n")
    print("| figure | tokenring, mean | nvidia-smi, mean | agrees |")
    print("|---|---|---|---|")
    wrong = count = 0
    for name, tag, share, least in FIGURES:
        metric = gpu["metrics"].get(tag)
        if metric is None or name not in smi:
            print(f"| {tag} | {'absent' if metric is None else metric['avg']} "
                  f"| {smi.get(name, 'absent')} | not compared |")
            continue
        theirs = smi[name] * (MIB_IN_GB if name == "memory.used" else 1)
        is_near = abs(metric["avg"] - theirs) <= max(share * abs(theirs), least)
        count += 1
        wrong += not is_near
        print(f"| {tag} | {metric['avg']:.2f} | {theirs:.2f} | {'yes' if is_near else 'NO'} |")
    for key in ["energy_j", "energy_source", "energy_check_j", "idle_power_w"]:
        print(f"\n{key}: {gpu.get(key, 'absent')}", end="")
    print()
    return wrong, count


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check.py TOKENRING")
    until, faults = threading.Event(), []
    with tempfile.TemporaryDirectory() as folder:
        smi_log = Path(folder, "smi.csv")
        with open(smi_log, "wb") as log:
            try:
                smi = watch(log)
            except FileNotFoundError:
                print("there is no nvidia-smi: nothing to compare with", file=sys.stderr)
                return 2
            load = threading.Thread(target=burn, args=(until, faults))
            load.start()
            try:
                time.sleep(2)
                report = profile(sys.argv[1], folder)
            finally:
                until.set()
                load.join()
                smi.terminate()
                smi.wait()
        times = [
            datetime.fromisoformat(report[key]).replace(tzinfo=timezone.utc).timestamp()
            for key in ("start_time", "end_time")
        ]
        if faults:
            print(f"The CUDA load did not run: {faults[0]}.\n")
        wrong, count = compare(report, smi_means(smi_log, *times))
    return 2 if count == 0 else int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
