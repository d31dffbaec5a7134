//! GPUs by pages of metrics: exporters, Triton, and pages that are none; the built binary against
//! the bundled mock, with a small server that answers each scrape anew.

mod mock;
mod ran;

use mock::Mock;
use ran::{Ran, code, fits, read, text};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A page by the number of the scrape and the seconds since the first; `None` closes without one.
type Script = dyn Fn(usize, f64) -> Option<String> + Send + Sync;

const DCGM: &str = include_str!("data/pages/dcgm_h100_sxm_fake.prom");

/// Serves pages of metrics.
fn serve(script: impl Fn(usize, f64) -> Option<String> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let script: Arc<Script> = Arc::new(script);
    std::thread::spawn(move || {
        let begun = Instant::now();
        for (number, socket) in listener.incoming().enumerate() {
            answer(socket.unwrap(), &*script, number, begun);
        }
    });
    addr
}

fn answer(mut socket: TcpStream, script: &Script, number: usize, begun: Instant) {
    let mut held = Vec::new();
    let mut buffer = [0; 4096];
    while !held.ends_with(b"\r\n\r\n") {
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => held.extend_from_slice(&buffer[..count]),
        }
    }
    let head = String::from_utf8_lossy(&held);
    assert!(
        !head.contains("sk-secret"),
        "no key of the run goes to an exporter: {head}"
    );
    let Some(page) = script(number, begun.elapsed().as_secs_f64()) else {
        return;
    };
    let answer = match page.starts_with("HTTP/") {
        true => page,
        false => format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}",
            page.len()
        ),
    };
    // The client may have seen enough.
    let _ = socket.write_all(answer.as_bytes());
}

/// One line of a page.
fn dcgm(field: &str, labels: &str, value: f64) -> String {
    format!("DCGM_FI_DEV_{field}{{{labels}}} {value}\n")
}

/// An exporter of one GPU that draws so many watts.
fn node(
    host: &'static str,
    uuid: &'static str,
    watts: f64,
) -> impl Fn(usize, f64) -> Option<String> {
    move |_, seconds| {
        let labels = format!(
            "gpu=\"0\",UUID=\"{uuid}\",modelName=\"NVIDIA H100\",Hostname=\"{host}\",\
             pci_bus_id=\"00000000:02:00.0\""
        );
        let mj = 5e9 + watts * seconds * 1e3;
        Some(
            dcgm("POWER_USAGE", &labels, watts)
                + &dcgm("TOTAL_ENERGY_CONSUMPTION", &labels, mj)
                + &dcgm("GPU_UTIL", &labels, 80.0)
                + &dcgm("FB_USED", &labels, 1000.0)
                + &dcgm("FB_FREE", &labels, 3000.0)
                + &dcgm("NVLINK_BANDWIDTH_TOTAL", &labels, 7.0 * seconds),
        )
    }
}

/// A run of `seconds` against a mock.
fn command(mock: &Mock, dir: &Path, seconds: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
    command
        .args(["profile", "-m", "m", "-u", &mock.url, "--streaming"])
        .args([
            "--tokenizer",
            "builtin",
            "--api-key",
            "sk-secret",
            "--isl",
            "8",
        ])
        .args(["--allow-invalid", "--ui", "none", "--cores", "1"])
        .args(["--concurrency", "2", "--benchmark-duration", seconds])
        .arg("--artifact-dir")
        .arg(dir)
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn mock() -> Mock {
    Mock::start(&["--ttft-ms", "10", "--itl-ms", "2", "--tokens", "8"])
}

fn run(seconds: &str, flags: &[&str]) -> (Ran, tempfile::TempDir) {
    let (mock, dir) = (mock(), tempfile::tempdir().unwrap());
    let output = command(&mock, dir.path(), seconds, flags).output().unwrap();
    (read(&output, dir.path()), dir)
}

/// A run that is not to begin.
fn refused(page: &str) -> String {
    let (mock, dir) = (mock(), tempfile::tempdir().unwrap());
    let flags = ["--gpu-telemetry", page];
    let output: Output = command(&mock, dir.path(), "1", &flags).output().unwrap();
    code(&output, 3);
    assert_eq!(mock.stat("requests"), 1, "only the probe was sent");
    text(&output.stderr)
}

/// The GPUs of an endpoint.
fn gpus<'a>(ran: &'a Ran, at: &SocketAddr) -> &'a Value {
    &ran.json["telemetry_data"]["endpoints"][at.to_string()]["gpus"]
}

/// The length of the measurement.
fn window_s(ran: &Ran) -> f64 {
    ran.json["benchmark_duration"]["avg"].as_f64().unwrap()
}

fn notes(ran: &Ran) -> String {
    ran.json["client"]["notes"].to_string()
}

#[test]
fn known_watts_of_two_nodes_are_known_joules() {
    let (one, two) = (
        serve(node("n1", "GPU-a", 400.0)),
        serve(node("n2", "GPU-b", 100.0)),
    );
    let flags = [
        "--gpu-telemetry",
        &one.to_string(),
        &two.to_string(),
        "--gpu-idle-seconds",
        "2",
    ];
    let (ran, dir) = run("2.5", &flags);
    let (first, second) = (&gpus(&ran, &one)["gpu_0"], &gpus(&ran, &two)["gpu_0"]);
    assert_eq!(
        (&first["hostname"], &second["hostname"]),
        (&"n1".into(), &"n2".into())
    );
    for (gpu, watts) in [(first, 400.0), (second, 100.0)] {
        let joules = gpu["energy_j"].as_f64().unwrap();
        let window_s = window_s(&ran);
        let want = watts * window_s;
        assert!((joules / want - 1.0).abs() < 0.1, "{joules} J, {want} J");
        let check = gpu["energy_check_j"].as_f64().unwrap();
        assert!((check / want - 1.0).abs() < 0.01, "{check} J, {want} J");
        assert_eq!(
            (&gpu["energy_source"], &gpu["energy_confidence"]),
            (&"counter".into(), &"low".into())
        );
        assert_eq!(gpu["idle_power_w"], watts);
        let total = gpu["metrics"]["nvidia_memory_total"]["avg"]
            .as_f64()
            .unwrap();
        assert!((total - 4.194_304).abs() < 1e-9, "{total}");
        assert_eq!(gpu["metrics"]["nvidia_power_usage"]["avg"], watts);
    }
    let total = ran.json["nvidia_total_gpu_energy"]["avg"].as_f64().unwrap();
    let sum = first["energy_j"].as_f64().unwrap() + second["energy_j"].as_f64().unwrap();
    assert!((total - sum).abs() < 1e-6);
    assert!(notes(&ran).contains("low confidence"), "{}", notes(&ran));
    assert!(
        ran.screen.contains(&format!("{one} | GPU 0 | NVIDIA H100")),
        "{}",
        ran.screen
    );
    let lines = std::fs::read_to_string(dir.path().join("gpu_telemetry_export.jsonl")).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let own = |host: &str| lines.iter().filter(|line| line["hostname"] == host).count();
    assert!(own("n1") >= 8 && own("n2") >= 8, "{}", lines.len());
    let first = lines.iter().find(|line| line["hostname"] == "n1").unwrap();
    assert_eq!(
        first["telemetry_source_url"],
        format!("http://{one}/metrics")
    );
    assert_eq!(first["pci_bus_id"], "00000000:02:00.0");
    let times = lines
        .iter()
        .map(|line| line["monotonic_ns"].as_u64().unwrap());
    assert!(times.is_sorted());
    let csv = std::fs::read_to_string(dir.path().join("profile_export_genai_perf.csv")).unwrap();
    assert!(csv.contains("GPU Power Usage (W),n2:0,100.00"), "{csv}");
}

#[test]
fn a_short_measurement_has_power_and_no_energy() {
    let one = serve(node("n1", "GPU-a", 400.0));
    let (ran, _dir) = run("1", &["--gpu-telemetry", &one.to_string()]);
    let gpu = &gpus(&ran, &one)["gpu_0"];
    assert!(
        gpu.get("energy_j").is_none() && gpu["metrics"].get("nvidia_energy_consumption").is_none()
    );
    assert_eq!(ran.json["nvidia_total_gpu_power"]["avg"], 400.0);
    for tag in [
        "total_gpu_energy",
        "energy_per_request",
        "output_tps_per_watt",
    ] {
        assert!(ran.json.get(format!("nvidia_{tag}")).is_none(), "{tag}");
    }
    assert!(
        notes(&ran).contains("too short for a driver's counters"),
        "{}",
        notes(&ran)
    );
}

#[test]
fn the_recorded_page_is_read_in_our_units_with_fields_of_a_file() {
    let one = serve(|number, _| {
        // Idle exporters repeat themselves, live ones do not.
        Some(DCGM.replace("} 432369.28", &format!("}} {}", 432_369 + number)))
    });
    let dir = tempfile::tempdir().unwrap();
    let fields = dir.path().join("more.csv");
    let line = "# more\nDCGM_FI_DEV_POWER_MGMT_LIMIT, gauge, Limit (in W).\n\
                DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, NVLink bandwidth.\n";
    std::fs::write(&fields, line).unwrap();
    let (ran, _dir) = run(
        "1",
        &[
            "--gpu-telemetry",
            &one.to_string(),
            fields.to_str().unwrap(),
        ],
    );
    let all = gpus(&ran, &one);
    let avg = |gpu: &str, tag: &str| all[gpu]["metrics"][tag]["avg"].as_f64().unwrap();
    for (tag, want) in [
        ("nvidia_power_usage", 432.37),
        ("nvidia_power_limit", 700.0),
        ("nvidia_memory_used", 44_203.39 * 1.048_576e-3),
        ("nvidia_memory_total", 81_920.0 * 1.048_576e-3),
        ("nvidia_memory_temperature", 71.32),
        ("nvidia_sm_clock", 1719.15),
        ("nvidia_xid_errors", 0.0),
    ] {
        assert!((avg("gpu_0", tag) - want).abs() < 1e-9, "{tag}");
    }
    assert_eq!(
        all["gpu_1"]["gpu_uuid"],
        "GPU-2b424717-1db2-6dec-1332-006f1600a35a"
    );
    assert_eq!(all["gpu_1"]["gpu_name"], "NVIDIA H100 SXM5");
    // A field that the page lacks is absent.
    assert!(
        all["gpu_0"]["metrics"]
            .get("nvidia_nvlink_bandwidth_total")
            .is_none()
    );
    let two = serve(node("n1", "GPU-a", 400.0));
    let (ran, _dir) = run(
        "1",
        &[
            "--gpu-telemetry",
            &two.to_string(),
            fields.to_str().unwrap(),
        ],
    );
    let bytes = &gpus(&ran, &two)["gpu_0"]["metrics"]["nvidia_nvlink_bandwidth_total"]["avg"];
    assert!(bytes.as_f64().is_some_and(|bytes| bytes > 1.0), "{bytes}");
    std::fs::write(&fields, "DCGM_FI_DEV_X, label, x\n").unwrap();
    let mock = mock();
    let flags = ["--gpu-telemetry", fields.to_str().unwrap()];
    let output = command(&mock, dir.path(), "1", &flags).output().unwrap();
    code(&output, 2);
    let told = text(&output.stderr);
    assert!(told.contains("more.csv:1: type `label`"), "{told}");
}

#[test]
fn blanks_and_what_cannot_be_are_dropped_and_counted() {
    let one = serve(|number, seconds| {
        let labels = "gpu=\"0\",UUID=\"GPU-a\"";
        let util = [4_294_967_295.0, 150_000.0, 70.0][number % 3];
        let late = if number > 4 {
            ""
        } else {
            "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-a\"} 60\n"
        };
        Some(
            dcgm("GPU_UTIL", labels, util)
                + &dcgm("MEMORY_TEMP", labels, 9_223_372_036_854_775_794.0)
                + &dcgm("MEM_COPY_UTIL", labels, 140_737_488_355_328.0)
                + &dcgm("POWER_USAGE", labels, 100.0 + seconds)
                + &format!("DCGM_FI_DEV_FB_USED{{{labels}}} ERROR - FAILED TO CONVERT TO STRING\n")
                + &dcgm("SM_CLOCK", labels, f64::NAN)
                + late,
        )
    });
    let (ran, _dir) = run("2.2", &["--gpu-telemetry", &one.to_string()]);
    let metrics = &gpus(&ran, &one)["gpu_0"]["metrics"];
    assert_eq!(metrics["nvidia_gpu_utilization"]["max"], 70.0);
    assert!(metrics["nvidia_power_usage"]["count"].as_u64().unwrap() >= 5);
    assert_eq!(metrics["nvidia_temperature"]["avg"], 60.0);
    for absent in [
        "memory_temperature",
        "memory_utilization",
        "memory_used",
        "sm_clock",
    ] {
        assert!(
            metrics.get(format!("nvidia_{absent}")).is_none(),
            "{absent}"
        );
    }
    let invalid = ran.json["telemetry_data"]["summary"]["invalid_samples"]
        .as_u64()
        .unwrap();
    assert!(invalid >= 20, "{invalid}");
    // There is no counter, and the power has been seen all the time.
    assert_eq!(
        gpus(&ran, &one)["gpu_0"]["energy_source"],
        "power_integration"
    );
}

#[test]
fn instances_have_their_memory_and_share_the_gpu_s_energy() {
    let one = serve(|_, seconds| {
        let row = |id: u32| {
            let labels =
                format!("gpu=\"0\",UUID=\"GPU-a\",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"{id}\"");
            dcgm(
                "TOTAL_ENERGY_CONSUMPTION",
                &labels,
                126_272_101_025.0 + 250e3 * seconds,
            ) + &dcgm("POWER_USAGE", &labels, 250.0)
                + &dcgm("FB_USED", &labels, f64::from(1000 * id))
                + &dcgm("GPU_UTIL", &labels, 9_223_372_036_854_775_794.0)
        };
        Some((3..7).map(row).collect())
    });
    let (ran, _dir) = run("2.5", &["--gpu-telemetry", &one.to_string()]);
    let all = gpus(&ran, &one);
    let keys: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["gpu_0_3", "gpu_0_4", "gpu_0_5", "gpu_0_6"]);
    assert_eq!(
        all["gpu_0_4"]["metrics"]["nvidia_memory_used"]["avg"],
        4_000.0 * 1.048_576e-3
    );
    assert_eq!(all["gpu_0_4"]["power_scope"], "whole_gpu");
    assert!(
        all["gpu_0_4"]["metrics"]
            .get("nvidia_gpu_utilization")
            .is_none()
    );
    assert_eq!(ran.json["nvidia_total_gpu_power"]["avg"], 250.0);
    let total = ran.json["nvidia_total_gpu_energy"]["avg"].as_f64().unwrap();
    let want = 250.0 * window_s(&ran);
    assert!((total / want - 1.0).abs() < 0.1, "{total} J, {want} J");
    assert!(
        notes(&ran).contains("not told for its instances"),
        "{}",
        notes(&ran)
    );
    // Four rows on one page: no box each.
    assert!(ran.screen.contains("0/5"), "{}", ran.screen);
}

#[test]
fn triton_s_page_is_found_among_the_servers_own() {
    let one = serve(|_, seconds| {
        let mut page = String::from("nv_inference_count{model=\"m\",version=\"1\"} 3\n");
        for (uuid, watts) in [("GPU-a", 60.0), ("GPU-b", 90.0)] {
            let mut add = |name: &str, value: f64| {
                page += &format!("{name}{{gpu_uuid=\"{uuid}\"}} {value:.6}\n");
            };
            add("nv_gpu_utilization", 0.25);
            add("nv_gpu_memory_total_bytes", 16e9);
            add("nv_gpu_memory_used_bytes", 7e9);
            add("nv_gpu_power_usage", watts);
            add("nv_gpu_power_limit", 300.0);
            add("nv_energy_consumption", 205_620.0 + watts * seconds);
        }
        Some(page)
    });
    let url = format!("http://{one}/metrics");
    let (ran, _dir) = run("2.5", &["--server-metrics", &url]);
    let second = &gpus(&ran, &one)["gpu_1"];
    assert_eq!(second["gpu_uuid"], "GPU-b");
    assert_eq!(second["metrics"]["nvidia_gpu_utilization"]["avg"], 25.0);
    assert_eq!(second["metrics"]["nvidia_memory_used"]["avg"], 7.0);
    let joules = second["energy_j"].as_f64().unwrap();
    let want = 90.0 * window_s(&ran);
    assert!((joules / want - 1.0).abs() < 0.1, "{joules} J, {want} J");
}

#[test]
fn an_exporter_that_says_the_same_again_and_again_is_told_of() {
    let one = serve(|_, seconds| node("n1", "GPU-a", 300.0)(0, (seconds / 60.0).floor()));
    let (ran, _dir) = run("2.5", &["--gpu-telemetry", &one.to_string()]);
    let told = notes(&ran);
    assert!(
        told.contains("DCGM_EXPORTER_INTERVAL") && told.contains("not once"),
        "{told}"
    );
    assert!(told.contains("its energy counter did not move"), "{told}");
    let gpu = &gpus(&ran, &one)["gpu_0"];
    assert_eq!(
        (&gpu["energy_source"], &gpu["energy_confidence"]),
        (&"power_integration".into(), &"low".into())
    );
}

#[test]
fn an_exporter_that_dies_costs_its_figures_and_not_the_run() {
    let one = serve(|number, seconds| match number {
        0..4 => node("n1", "GPU-a", 300.0)(0, seconds),
        4 => Some("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".into()),
        _ => None,
    });
    let (ran, _dir) = run("2.5", &["--gpu-telemetry", &one.to_string()]);
    let gpu = &gpus(&ran, &one)["gpu_0"];
    assert!(gpu.get("energy_j").is_none(), "{gpu}");
    let told = notes(&ran);
    assert!(
        told.contains("scrapes failed") && told.contains("energy is unknown"),
        "{told}"
    );
    let errors = ran.json["telemetry_data"]["error_summary"].to_string();
    assert!(errors.contains("it answered 503"), "{errors}");
    fits(
        &ran.json,
        include_str!("../schema/profile_export_aiperf.schema.json"),
    );
}

#[test]
fn a_page_that_is_asked_for_by_name_has_to_tell_of_gpus() {
    let page = |text: &'static str| serve(move |_, _| Some(text.into())).to_string();
    let endless = serve(|_, _| {
        let line = "x{a=\"b\"} 1\n".repeat(1_000_000);
        Some(format!("HTTP/1.1 200 OK\r\n\r\n{line}"))
    });
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (page, why) in [
        (page("<!doctype html><p>hello"), "it is HTML"),
        (page("hello world\n"), "no page of metrics"),
        (
            page("vllm:num_requests_running 3\n"),
            "1 values and none of a GPU",
        ),
        (
            page("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
            "it answered 404",
        ),
        (
            page("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nx 1\n"),
            "",
        ),
        (page("DCGM_FI_DEV_POWER_US"), "cut in the middle"),
        (endless.to_string(), "more than 8 MiB"),
        (closed.to_string(), "refused"),
    ] {
        let told = refused(&page);
        let name = format!("--gpu-telemetry http://{page}/metrics: ");
        assert!(told.contains(&name) && told.contains(why), "{told}");
    }
}

#[test]
fn the_same_page_among_the_servers_own_is_no_matter() {
    let html = serve(|_, _| Some("<html>".into()));
    let url = format!("http://{html}/metrics");
    let (mock, dir) = (mock(), tempfile::tempdir().unwrap());
    let flags = ["--server-metrics", &url];
    let output = command(&mock, dir.path(), "0.5", &flags).output().unwrap();
    // Whether it is a page of metrics is for whoever reads those to say.
    let told = text(&output.stderr);
    assert!(!told.contains("--gpu-telemetry"), "{told}");
}

/// Keeps a page from ever answering: a port that accepts and says nothing.
#[test]
fn a_port_that_says_nothing_is_named_after_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let held: Vec<_> = listener.incoming().collect();
        std::thread::sleep(Duration::from_secs(60));
        drop(held);
    });
    let told = refused(&addr.to_string());
    assert!(told.contains("no answer in time"), "{told}");
}

#[test]
fn amd_s_program_tells_of_amd_s_gpus_by_its_own_names() {
    let (mock, dir) = (mock(), tempfile::tempdir().unwrap());
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pages");
    // A joule each millisecond.
    let script = format!(
        "#!/bin/sh\ncd {}\ncase \"$1\" in\n\
         list) cat amd_smi_list.json;;\nstatic) cat amd_smi_static.json;;\n\
         metric) sed \"s/1234567.891/$(($(date +%s%N) / 1000000 % 1000000000))/; \
         s/: 613/: 1000/\" amd_smi_metric.json;;\nesac\n",
        data.display()
    );
    let program = dir.path().join("amd-smi");
    std::fs::write(&program, script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", dir.path().display());
    let run = dir.path().join("run");
    let flags = ["--gpu-telemetry", "amdsmi"];
    let mut command = command(&mock, &run, "2.5", &flags);
    let output = command.env("PATH", path).output().unwrap();
    let ran = read(&output, &run);
    let all = &ran.json["telemetry_data"]["endpoints"]["amdsmi://localhost"]["gpus"];
    let gpu = &all["gpu_0"];
    assert_eq!(
        (&gpu["platform"], &gpu["gpu_name"]),
        (&"amd".into(), &"AMD Instinct MI300X".into())
    );
    assert_eq!(gpu["metrics"]["amd_power"]["avg"], 1000.0);
    assert_eq!(gpu["metrics"]["amd_gfx_activity"]["avg"], 97.0);
    assert_eq!(gpu["energy_source"], "counter", "{}", notes(&ran));
    let (joules, want) = (gpu["energy_j"].as_f64().unwrap(), 1000.0 * window_s(&ran));
    assert!((joules / want - 1.0).abs() < 0.1, "{joules} J, {want} J");
    // The other one has a power only.
    assert_eq!(all["gpu_1"]["energy_source"], "power_integration");
    let total = ran.json["amd_total_gpu_energy"]["avg"].as_f64().unwrap();
    assert!(total > joules && ran.json.get("nvidia_total_gpu_energy").is_none());
    assert!(
        ran.screen.contains("GPU Power Efficiency (AMD)"),
        "{}",
        ran.screen
    );
    assert!(
        ran.json["telemetry_data"]["summary"]["invalid_samples"]
            .as_u64()
            .unwrap()
            > 0
    );
}
