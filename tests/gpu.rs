//! GPU telemetry of the built binary, with a library that tells what a script says.

#[path = "mock/mod.rs"]
mod mock;
// Linted here; what is loaded is built from the same file.
#[expect(dead_code, reason = "a library of its own")]
#[path = "nvml/fake.rs"]
mod fake;
#[path = "ran/mod.rs"]
mod ran;

use mock::Mock;
use ran::{Ran, code, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The fake, built once: a cdylib is no target that `cargo test --test gpu` would build.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let new = folder.join(format!("libfake_nvml.{}.so", std::process::id()));
    let built = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition", "2024", "--crate-type", "cdylib", "-O", "-o"])
        .arg(&new)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml/fake.rs"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let library = folder.join("libfake_nvml.so");
    std::fs::rename(new, &library).unwrap();
    library
});

/// A run of 2.5 s against a mock of its own, and what has been asked of the library.
struct Watched {
    ran: Ran,
    /// `profile_export_aiperf.csv`.
    table: String,
    calls: Vec<String>,
}

fn start(folder: &Path, script: &str, flags: &[&str], more: impl Fn(&mut Command)) -> Output {
    let mock = Mock::start(&["--ttft-ms", "5", "--itl-ms", "1"]);
    let file = folder.join("script");
    let script = script.replace("CALLS", &folder.join("calls").to_string_lossy());
    std::fs::write(&file, script).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
    command
        .args(["profile", "-m", "m", "-u", &mock.url, "--streaming"])
        .args(["--tokenizer", "builtin", "--isl", "8", "--cores", "1"])
        .args(["--allow-invalid", "--ui", "none", "--no-server-metrics"])
        .arg("--artifact-dir")
        .arg(folder.join("run"))
        .args(flags)
        .env_remove("OPENAI_API_KEY")
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env("FAKE_NVML", file);
    more(&mut command);
    command.output().unwrap()
}

fn watch(script: &str, flags: &[&str], more: impl Fn(&mut Command)) -> Watched {
    let folder = tempfile::tempdir().unwrap();
    let output = start(folder.path(), script, flags, |command| {
        command.args(["--benchmark-duration", "2.5", "--nvml-library"]);
        command.arg(&*LIBRARY);
        more(command);
    });
    let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let calls = read("calls");
    Watched {
        table: read("run/profile_export_aiperf.csv"),
        ran: ran::read(&output, &folder.path().join("run")),
        calls: calls.lines().map(str::to_owned).collect(),
    }
}

impl Watched {
    fn gpus(&self) -> &serde_json::Map<String, Value> {
        let sources = self.ran.json["telemetry_data"]["endpoints"]
            .as_object()
            .unwrap();
        assert_eq!(sources.len(), 1);
        sources.values().next().unwrap()["gpus"]
            .as_object()
            .unwrap()
    }

    fn average(&self, gpu: usize, tag: &str) -> Option<f64> {
        self.gpus()[&format!("gpu_{gpu}")]["metrics"][tag]["avg"].as_f64()
    }

    /// Seconds of the measurement.
    fn window(&self) -> f64 {
        self.ran.json["benchmark_duration"]["avg"].as_f64().unwrap()
    }

    /// The GPU took so many W all the time, as this source says.
    fn took(&self, gpu: usize, watts: f64, source: &str) {
        let row = &self.gpus()[&format!("gpu_{gpu}")];
        assert_eq!(row["energy_source"], source, "{row:#}");
        near(
            row["energy_j"].as_f64().unwrap(),
            watts * self.window(),
            0.01,
        );
    }

    fn notes(&self) -> Vec<&str> {
        let notes = self.ran.json["client"]["notes"].as_array().unwrap();
        notes.iter().map(|note| note.as_str().unwrap()).collect()
    }

    /// The one note that begins so.
    fn note(&self, beginning: &str) -> &str {
        let all = self.notes();
        let these: Vec<&&str> = all
            .iter()
            .filter(|note| note.starts_with(beginning))
            .collect();
        assert_eq!(these.len(), 1, "{beginning}: {all:?}");
        these[0]
    }

    fn calls_count(&self, call: &str) -> usize {
        self.calls.iter().filter(|known| *known == call).count()
    }
}

fn near(value: f64, wanted: f64, share: f64) {
    assert!(
        (value - wanted).abs() <= wanted * share,
        "{value}, not {wanted}"
    );
}

#[test]
fn a_window_of_known_power_has_the_known_energy_and_every_quantity_its_unit() {
    let script =
        "log CALLS\nwatts all 300\ncounter all 5000000\nvalue 0 Throttle 4\nvalue 0 Temperature 71";
    let watched = watch(script, &["--gpu-processes"], |_| {});
    watched.took(0, 300.0, "counter");
    let window = watched.window();
    for (tag, value) in [
        ("nvidia_power_usage", 300.0),
        ("nvidia_gpu_utilization", 50.0),
        ("nvidia_memory_utilization", 25.0),
        ("nvidia_memory_used", 20.0),
        ("nvidia_memory_total", 80.0),
        ("nvidia_memory_free", 60.0),
        ("nvidia_temperature", 71.0),
        ("nvidia_memory_temperature", 60.0),
        ("nvidia_sm_clock", 1980.0),
        ("nvidia_memory_clock", 2619.0),
        ("nvidia_decoder_utilization", 0.0),
        ("nvidia_encoder_utilization", 0.0),
        ("nvidia_power_limit", 700.0),
        ("nvidia_throttle_power", 1.0),
        ("nvidia_throttle_thermal", 0.0),
        ("nvidia_throttle_other", 0.0),
        ("nvidia_power_violation", 0.5e6 * window),
        ("nvidia_thermal_violation", 0.0),
        ("nvidia_pcie_replays", 0.0),
        // Four links of 1000 KiB/s.
        ("nvidia_nvlink_sent", 4.0 * 1024e3 * window),
        ("nvidia_nvlink_received", 4.0 * 1024e3 * window),
        ("nvidia_ecc_corrected", 0.0),
        ("nvidia_ecc_uncorrected", 0.0),
        ("nvidia_processes", 1.0),
    ] {
        near(watched.average(0, tag).expect(tag), value, 0.01);
    }
    watched.note("Power of GPU 0 is the driver's instant reading");
    assert_eq!(watched.calls_count("HandleByIndex 0"), 1);
}

#[test]
fn what_a_gpu_does_not_tell_is_asked_once_and_its_energy_comes_from_power() {
    let script = "log CALLS\ngpus 2\nwatts all 100\n\
                  refuse 0 TotalEnergyConsumption\nrefuse 0 Field186\n\
                  refuse 0 Temperature\nrefuse 0 EccCorrected\n\
                  value 1 UtilizationRates 4294967295";
    let watched = watch(script, &[], |_| {});
    watched.took(0, 100.0, "power_integration");
    watched.took(1, 100.0, "counter");
    watched.note("GPU 0: its energy counter is not there: its energy is the integral");
    watched.note("Power of GPU 0 is the driver's own average");
    watched.note("Power of GPU 1 is the driver's instant reading");
    for query in [
        "TotalEnergyConsumption",
        "Field186",
        "Temperature",
        "EccCorrected",
    ] {
        assert_eq!(watched.calls_count(&format!("{query} 0")), 1, "{query}");
        assert!(watched.calls_count(&format!("{query} 1")) > 1, "{query}");
    }
    assert_eq!(watched.average(0, "nvidia_temperature"), None);
    assert_eq!(watched.average(0, "nvidia_gpu_utilization"), Some(50.0));
    // A share above the whole is no value.
    assert_eq!(watched.average(1, "nvidia_gpu_utilization"), None);
    assert_eq!(watched.average(1, "nvidia_memory_utilization"), Some(25.0));
    // Not asked for, not counted.
    assert_eq!(watched.calls_count("Processes 0"), 0);
}

#[test]
fn blanks_of_the_driver_are_dropped_and_counted() {
    let script = "gpus 1\nwatts all 4294967.295\nvalue 0 Temperature 4294967295\n\
                  value 0 Throttle 18446744073709551615";
    let watched = watch(script, &[], |_| {});
    for tag in [
        "nvidia_power_usage",
        "nvidia_temperature",
        "nvidia_energy_consumption",
        "nvidia_throttle_power",
        "nvidia_throttle_thermal",
    ] {
        assert_eq!(watched.average(0, tag), None, "{tag}");
    }
    watched.note("GPU 0: its energy counter says more than a GPU can take");
    assert_eq!(watched.average(0, "nvidia_gpu_utilization"), Some(50.0));
}

#[test]
fn a_counter_that_begins_again_adds_no_joule_and_loses_few() {
    let watched = watch(
        "watts all 200\ncounter all 9000000\nreset 0 1.5",
        &[],
        |_| {},
    );
    let energy = watched.gpus()["gpu_0"]["energy_j"].as_f64().unwrap();
    near(energy, 200.0 * watched.window(), 0.1);
}

#[test]
fn a_gpu_that_is_lost_in_mid_run_is_named_and_the_run_goes_on() {
    let script = "gpus 3\nwatts all 300\nlose 1 1.0 1.6\nlose 2 1.2";
    let watched = watch(script, &[], |_| {});
    watched.took(0, 300.0, "counter");
    let back = watched.note("GPU 1 was lost ");
    assert!(
        back.contains("after the start (device fell off the bus"),
        "{back}"
    );
    assert!(back.ends_with(" s on it answered again."), "{back}");
    let gone = watched.note("GPU 2 was lost ");
    assert!(gone.ends_with("; it did not answer again."), "{gone}");
}

#[test]
fn eight_gpus_are_told_apart() {
    let watts = (0..8).map(|gpu| format!("\nwatts {gpu} {}", 100 * (gpu + 1)));
    let watched = watch(&format!("gpus 8{}", watts.collect::<String>()), &[], |_| {});
    assert_eq!(watched.gpus().len(), 8);
    for gpu in 0..8u8 {
        watched.took(gpu.into(), f64::from(gpu + 1) * 100.0, "counter");
    }
    // For the eye: with --nocapture, of a release build.
    println!("{}", watched.note("Sampling GPUs took "));
}

#[test]
fn mig_tells_power_of_the_whole_gpu_once_memory_of_each_instance_and_no_utilisation() {
    let watched = watch("gpus 2\nwatts all 300\nmig 0 3 4 5 6", &[], |_| {});
    let of_first = watched
        .table
        .lines()
        .filter(|line| line.contains(",GPU-00000000-"));
    let count = |header: &str| {
        of_first
            .clone()
            .filter(|line| line.contains(header))
            .count()
    };
    assert_eq!(count("NVIDIA GPU Power Usage (W),300.00,"), 1);
    assert_eq!(count("NVIDIA Energy Consumption (MJ)"), 1);
    assert_eq!(count("NVIDIA GPU Memory Used (GB),20.00,"), 1);
    assert_eq!(count("NVIDIA GPU Memory Used (GB),5.00,"), 4);
    assert_eq!(count("NVIDIA GPU Utilization"), 0);
    watched.note("MIG on GPU 0: power, energy and clocks are of the whole GPU");
    watched.took(1, 300.0, "counter");
}

#[test]
fn only_the_gpus_of_cuda_visible_devices_are_watched() {
    let visible = "GPU-00000002,00000000:13:00.0,9,0";
    let watched = watch("log CALLS\ngpus 4", &[], |command| {
        command.env("CUDA_VISIBLE_DEVICES", visible);
    });
    let names: Vec<&String> = watched.gpus().keys().collect();
    assert_eq!(names, ["gpu_2", "gpu_3"]);
    watched.note("CUDA_VISIBLE_DEVICES leaves GPUs 2, 3 of 4.");
    watched.note("CUDA_VISIBLE_DEVICES: `9` is not one GPU here");
    assert_eq!(watched.calls_count("TotalEnergyConsumption 0"), 0);
    assert!(watched.calls_count("TotalEnergyConsumption 2") > 1);
}

/// A run that finds the fake where the driver's library would be.
fn found(script: &str, flags: &[&str], more: impl Fn(&mut Command)) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&*LIBRARY, folder.path().join("libnvidia-ml.so.1")).unwrap();
    let flags = [flags, &["--request-count", "10"]].concat();
    start(folder.path(), script, &flags, |command| {
        command.env("LD_LIBRARY_PATH", folder.path());
        more(command);
    })
}

#[test]
fn without_gpus_one_line_says_so_and_the_run_goes_on_unless_they_were_asked_for() {
    let output = found("gpus 0", &[], |_| {});
    code(&output, 0);
    let told = text(&output.stderr);
    let lines = |told: &str| -> Vec<String> {
        let lines = told.lines().filter(|line| line.contains("GPU"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(lines(&told), ["note: no GPU telemetry: NVML knows no GPU"]);

    let output = found("init 9", &[], |_| {});
    code(&output, 0);
    let want = "note: no GPU telemetry: NVML does not start: NVIDIA driver is not loaded";
    assert_eq!(lines(&text(&output.stderr)), [want]);

    let output = found("gpus 0", &["--gpu-telemetry", "nvml"], |_| {});
    code(&output, 3);
    let told = text(&output.stderr);
    assert!(
        told.contains("error: --gpu-telemetry: NVML knows no GPU"),
        "{told}"
    );

    let output = found("gpus 2", &["--gpu-telemetry", "nvml"], |command| {
        command.env("CUDA_VISIBLE_DEVICES", "7");
    });
    code(&output, 3);
    let told = text(&output.stderr);
    let want = "--gpu-telemetry: CUDA_VISIBLE_DEVICES leaves no GPU: CUDA_VISIBLE_DEVICES: `7`";
    assert!(told.contains(want), "{told}");
}

#[test]
fn a_library_that_does_not_load_is_named_with_its_flag() {
    let output = found("gpus 1", &["--nvml-library", "/nowhere/libx.so"], |_| {});
    code(&output, 3);
    let told = text(&output.stderr);
    assert!(
        told.contains("error: --nvml-library: /nowhere/libx.so does not load: "),
        "{told}"
    );
}
