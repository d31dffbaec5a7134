//! How connections are made, kept, and led through a proxy: as a user sees it, and on both receive
//! paths.

use assert_cmd::cargo::cargo_bin;
use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;

mod mock;
mod support;
use mock::Mock;
use support::{Ask, CHUNKED, chunk, ev};
use tokenring::base::Ns;
use tokenring::http::Via;
use tokenring::runtime::Dial;
use tokenring::stats::{FailureKind, Record};

/// What a server or proxy has heard.
#[derive(Clone, Debug)]
struct Heard {
    /// Who asked.
    peer: SocketAddr,
    /// Request line and headers.
    head: String,
    /// The name that TLS was asked for.
    sni: Option<String>,
}

/// All that was heard, in order.
#[derive(Clone, Default)]
struct Log(Arc<(Mutex<Vec<Heard>>, Condvar)>);

impl Log {
    fn add(&self, heard: Heard) {
        self.0.0.lock().unwrap().push(heard);
        self.0.1.notify_all();
    }

    /// Requests of runs, not of probes.
    fn measured(&self) -> Vec<Heard> {
        let is_probe = |heard: &Heard| {
            heard.head.starts_with("GET") || heard.head.contains("00000000-0000-0000-")
        };
        let all = self.0.0.lock().unwrap();
        all.iter()
            .filter(|heard| !is_probe(heard))
            .cloned()
            .collect()
    }

    fn all(&self) -> Vec<Heard> {
        self.0.0.lock().unwrap().clone()
    }

    /// Waits until so many have asked.
    fn await_count(&self, count: usize) {
        let all = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(all, |all| all.len() < count).unwrap());
    }
}

/// The next request, its body dropped; `None` at the end.
fn next_head(stream: &mut impl Read, held: &mut Vec<u8>) -> Option<String> {
    let mut buffer = [0; 16 * 1024];
    loop {
        if let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&held[..end]).into_owned();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "));
            let whole = end + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap());
            if held.len() >= whole {
                held.drain(..whole);
                return Some(head);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => held.extend_from_slice(&buffer[..count]),
        }
    }
}

fn answer() -> String {
    let event = |text: &str| chunk(&format!("data: {text}\n\n"));
    [CHUNKED, &event(&ev("a")), &event("[DONE]"), "0\r\n\r\n"].concat()
}

/// A server that answers every request with one event once `wait_for` requests have come.
fn serve(
    address: &str,
    tls: Option<Arc<rustls::ServerConfig>>,
    wait_for: usize,
) -> (SocketAddr, Log) {
    let listener = TcpListener::bind(address).unwrap();
    let addr = listener.local_addr().unwrap();
    let log = Log::default();
    let told = log.clone();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (log, tls) = (told.clone(), tls.clone());
            thread::spawn(move || {
                let socket = socket.unwrap();
                let peer = socket.peer_addr().unwrap();
                match tls {
                    None => converse(socket, peer, |_| None, &log, wait_for),
                    Some(config) => {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        let stream = rustls::StreamOwned::new(session, socket);
                        let sni = |stream: &rustls::StreamOwned<rustls::ServerConnection, _>| {
                            stream.conn.server_name().map(String::from)
                        };
                        converse(stream, peer, sni, &log, wait_for);
                    }
                }
            });
        }
    });
    (addr, log)
}

fn converse<S: Read + Write>(
    mut stream: S,
    peer: SocketAddr,
    sni: impl Fn(&S) -> Option<String>,
    log: &Log,
    wait_for: usize,
) {
    let mut held = Vec::new();
    while let Some(head) = next_head(&mut stream, &mut held) {
        let closes = head.contains("Connection: close");
        let sni = sni(&stream);
        log.add(Heard { peer, head, sni });
        log.await_count(wait_for);
        let sent = stream
            .write_all(answer().as_bytes())
            .and_then(|()| stream.flush());
        if sent.is_err() || closes {
            return;
        }
    }
}

/// A certificate for names and addresses, and its PEM.
fn certificate(names: &[&str]) -> (Arc<rustls::ServerConfig>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = names
        .iter()
        .map(|name| match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*name).try_into().unwrap()),
        })
        .collect();
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let pem = certificate.pem();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (Arc::new(config), pem)
}

/// What a proxy does.
#[derive(Clone)]
enum Does {
    /// Tunnels, and passes requests in absolute form on to their host.
    Work,
    /// Answers everything with this.
    Say(&'static str),
    /// Closes after the request.
    Close,
}

fn proxy(does: Does) -> (SocketAddr, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let log = Log::default();
    let told = log.clone();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (log, does) = (told.clone(), does.clone());
            thread::spawn(move || pass(socket.unwrap(), &does, &log));
        }
    });
    (addr, log)
}

fn pass(mut socket: TcpStream, does: &Does, log: &Log) {
    let peer = socket.peer_addr().unwrap();
    let mut held = Vec::new();
    while let Some(head) = next_head(&mut socket, &mut held) {
        let sni = None;
        log.add(Heard {
            peer,
            head: head.clone(),
            sni,
        });
        let wanted = match does {
            Does::Close => return,
            Does::Say(answer) => {
                if socket.write_all(answer.as_bytes()).is_err() {
                    return;
                }
                continue;
            }
            Does::Work => head.split(' ').nth(1).unwrap(),
        };
        if head.starts_with("CONNECT ") {
            let mut far = TcpStream::connect(wanted).unwrap();
            let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
            socket.write_all(answer).unwrap();
            let (mut near, mut back) = (socket.try_clone().unwrap(), far.try_clone().unwrap());
            let there = thread::spawn(move || std::io::copy(&mut near, &mut back));
            let _ = std::io::copy(&mut far, &mut socket);
            let _ = socket.shutdown(std::net::Shutdown::Both);
            let _ = there.join();
            return;
        }
        // The body was dropped: the servers here do not look at it.
        let (host, path) = wanted
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let mut far = TcpStream::connect(host).unwrap();
        let request = format!("POST /{path} HTTP/1.1\r\nConnection: close\r\n\r\n");
        far.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).unwrap();
        if socket.write_all(&answer).is_err() {
            return;
        }
    }
}

/// The path of a tokenizer that is loaded at once: it knows one word.
fn tokenizer() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = format!("{}/connections-tokenizer.json", env!("CARGO_TARGET_TMPDIR"));
        let model =
            json!({"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"});
        let whole = json!({
            "version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": model
        });
        std::fs::write(&path, whole.to_string()).unwrap();
        path
    })
}

/// A run of the built binary, in an environment without proxies.
fn profile(dir: &Path, url: &str, flags: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(cargo_bin("tokenring"));
    command
        .arg("profile")
        .args(["-m", "m", "--streaming", "--tokenizer", tokenizer()])
        .args(["--isl", "5", "--osl", "5", "--url", url, "--allow-invalid"])
        .args(["--artifact-dir", dir.to_str().unwrap()])
        .args(flags)
        .env_remove("OPENAI_API_KEY");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.envs(environment.iter().copied());
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends with this exit code, and gives stderr.
fn ended(output: &Output, code: i32) -> String {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

fn export(dir: &Path) -> Value {
    let bytes = std::fs::read(dir.join("profile_export_aiperf.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// The lines of `profile_export.jsonl`.
fn lines(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("profile_export.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn proxy_used(dir: &Path) -> String {
    let environment = &export(dir)["client"]["environment"];
    environment["proxy"].as_str().unwrap().to_string()
}

fn peers(heard: &[Heard]) -> HashSet<SocketAddr> {
    heard.iter().map(|heard| heard.peer).collect()
}

/// Ports at the end of those that the kernel gives, as a flag.
fn last_ports(count: u16) -> String {
    let (_, last) = tokenring::runtime::port_range();
    format!("{}-{last}", last - count + 1)
}

#[test]
fn never_makes_a_connection_for_each_request_and_pooled_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = |strategy: &str| {
        let (addr, log) = serve("127.0.0.1:0", None, 0);
        let load = ["--request-count", "6", "--concurrency", "2"];
        let flags = [&load[..], &["--connection-reuse-strategy", strategy]].concat();
        let path = dir.path().join(strategy);
        let output = profile(&path, &addr.to_string(), &flags, &[]);
        let text = ended(&output, 0);
        let heard = log.measured();
        assert_eq!(heard.len(), 6);
        (heard, lines(&path), text)
    };
    let connects = |lines: &[Value]| {
        let is_new = |line: &&Value| !line["timeline"]["connect_start_ns"].is_null();
        lines.iter().filter(is_new).count()
    };
    let (heard, records, _) = run("never");
    assert_eq!((peers(&heard).len(), connects(&records)), (6, 6));
    assert!(
        heard
            .iter()
            .all(|heard| heard.head.contains("Connection: close"))
    );
    for record in &records {
        let at = |key: &str| record["timeline"][key].as_u64().unwrap();
        assert!(at("start_ns") <= at("connect_start_ns"), "{record}");
        assert!(at("connect_done_ns") <= at("sent_ns"), "{record}");
    }
    let (heard, records, _) = run("pooled");
    assert!(peers(&heard).len() <= 2);
    assert_eq!(connects(&records), 0);
    assert!(!heard.iter().any(|heard| heard.head.contains("Connection:")));
    // A request that stands alone is a session of one turn.
    let (heard, _, _) = run("sticky-user-sessions");
    assert_eq!(peers(&heard).len(), 6);
}

#[test]
fn each_source_address_has_ports_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let ports = last_ports(200);
    let mock = Mock::start(&["--ttft-ms", "20", "--itl-ms", "1"]);
    let load = ["--concurrency", "300", "--request-count", "300"];
    let flags = |sources: &'static str| {
        [
            &load[..],
            &["--local-port-range", &ports, "--source-ip", sources],
        ]
        .concat()
    };
    let refused = profile(dir.path(), &mock.url, &flags("127.0.0.1"), &[]);
    let text = ended(&refused, 2);
    assert!(
        text.contains("there are 200") && text.contains("--source-ip"),
        "{text}"
    );
    assert_eq!(mock.stat("requests"), 0);
    let path = dir.path().join("two");
    let both = flags("127.0.0.1,127.0.0.2");
    ended(&profile(&path, &mock.url, &both, &[]), 0);
    let json = export(&path);
    assert_eq!(json["request_count"]["avg"], 300.0);
    assert!(
        json["error_request_count"].is_null(),
        "{}",
        json["error_request_count"]
    );
    assert!(mock.stat("connections_peak") >= 300);
    assert_eq!(json["client"]["environment"]["ports_count"], 400);
}

#[test]
fn connections_come_from_the_sources_in_turn_and_an_odd_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (addr, log) = serve("127.0.0.1:0", None, 0);
    let url = addr.to_string();
    let load = ["--concurrency", "6", "--request-count", "6", "--cores", "1"];
    let sources = ["--source-ip", "127.0.0.2", "127.0.0.3,127.0.0.4"];
    let output = profile(dir.path(), &url, &[&load[..], &sources[..]].concat(), &[]);
    ended(&output, 0);
    let from: HashSet<IpAddr> = log.measured().iter().map(|heard| heard.peer.ip()).collect();
    let expected = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];
    assert_eq!(from, expected.map(|text| text.parse().unwrap()).into());
    let count = log.all().len();
    for (source, told) in [
        ("192.0.2.77", "--source-ip 192.0.2.77: "),
        ("::1", "--source-ip: `127.0.0.1` has IPv4"),
    ] {
        let output = profile(dir.path(), &url, &["--source-ip", source], &[]);
        let text = ended(&output, 2);
        assert!(text.contains(told), "{text}");
    }
    assert_eq!(log.all().len(), count);
}

#[test]
fn sockets_made_as_asked_work_on_both_receive_paths() {
    for ring in [true, false] {
        for keeps_connections in [true, false] {
            let (addr, log) = serve("127.0.0.1:0", None, 0);
            let (other, more) = serve(&format!("127.0.0.9:{}", addr.port()), None, 0);
            let sources = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().unwrap());
            let dial = Dial {
                sources: sources.to_vec(),
                keepalive: Some(Ns::from_ms(60_000)),
                user_timeout: Some(Ns::from_ms(30_000)),
                ..Dial::default()
            };
            let (records, _) = support::run(&Ask {
                slots: 4,
                ring,
                dial,
                keeps_connections,
                more_addrs: vec![other],
                ..Ask::new(addr, 16)
            });
            assert!(records.iter().all(|record| record.failure.is_none()));
            let fresh = records
                .iter()
                .filter(|record| record.connect_start.is_some());
            let expected = if keeps_connections { 0 } else { 16 };
            assert_eq!(fresh.count(), expected);
            // Each address from each source.
            for log in [log, more] {
                let from: HashSet<IpAddr> = log.all().iter().map(|heard| heard.peer.ip()).collect();
                assert_eq!(from, sources.into(), "{ring} {keeps_connections}");
            }
        }
    }
}

#[test]
fn a_refused_connection_of_a_bound_socket_is_a_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    for ring in [true, false] {
        let dial = Dial {
            sources: vec!["127.0.0.2".parse().unwrap()],
            ..Dial::default()
        };
        let (records, _) = support::run(&Ask {
            ring,
            dial,
            ..Ask::new(addr, 1)
        });
        assert_eq!(names(&records), ["connection_refused"]);
    }
}

fn names(records: &[Record]) -> Vec<&str> {
    let failures = records.iter().map(|record| record.failure.as_deref());
    failures
        .map(|failure| failure.map_or("", |failure| &failure.name))
        .collect()
}

/// Field case SL-2: no pool is smaller than the load, and no handshake is in a first token's time.
#[test]
fn all_streams_are_open_at_a_time_and_connected_before_the_run() {
    let (config, _) = certificate(&["127.0.0.1"]);
    for (scheme, tls) in [("http", None), ("https", Some(config))] {
        let dir = tempfile::tempdir().unwrap();
        // Nobody is answered before all have asked; the list of models is not asked for.
        let (addr, log) = serve("127.0.0.1:0", tls, 128);
        let url = format!("{scheme}://{addr}");
        let load = ["--concurrency", "128", "--request-count", "128"];
        let more = ["--no-preflight", "--tls-insecure"];
        ended(
            &profile(dir.path(), &url, &[&load[..], &more[..]].concat(), &[]),
            0,
        );
        assert_eq!(peers(&log.measured()).len(), 128);
        for line in lines(dir.path()) {
            assert!(line["timeline"]["connect_start_ns"].is_null(), "{line}");
            let stages = &line["stages"];
            assert!(
                stages["connect"].is_null() && stages["tls"].is_null(),
                "{line}"
            );
        }
    }
}

/// Field case CN-3: urls take turns by the request's number, not by the worker.
#[test]
fn urls_take_turns_over_all_workers_and_a_dead_one_keeps_its_share() {
    let servers: Vec<_> = (0..3).map(|_| serve("127.0.0.1:0", None, 0)).collect();
    let targets: Vec<SocketAddr> = servers.iter().map(|(addr, _)| *addr).collect();
    let run = |targets: &[SocketAddr], count, cores: u16| {
        let (records, _) = support::run(&Ask {
            targets: targets.to_vec(),
            cores,
            slots: usize::from(cores),
            ..Ask::new(targets[0], count)
        });
        records
    };
    let of_url =
        |records: &[Record], url| records.iter().filter(|record| record.url == url).count();
    let counts = |records: &[Record]| [0, 1, 2].map(|url| of_url(records, url));
    assert_eq!(counts(&run(&targets, 7, 4)), [3, 2, 2]);
    assert_eq!(counts(&run(&targets, 3, 3)), [1, 1, 1]);
    assert_eq!(
        servers
            .iter()
            .map(|(_, log)| log.all().len())
            .collect::<Vec<_>>(),
        [4, 3, 3]
    );
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = closed.local_addr().unwrap();
    drop(closed);
    let records = run(&[targets[0], targets[1], dead], 7, 2);
    assert_eq!(counts(&records), [3, 2, 2]);
    for record in &records {
        assert_eq!(record.failure.is_some(), record.url == 2, "{record:?}");
    }
    let twice = run(&[targets[0], targets[0]], 6, 2);
    assert_eq!([0, 1].map(|url| of_url(&twice, url)), [3, 3]);
}

/// Field case TP-2: a proxy of the environment is not used, and that is said once.
#[test]
fn a_proxy_of_the_environment_is_not_used_unless_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (addr, log) = serve("127.0.0.1:0", None, 0);
    let url = format!("http://{addr}");
    let count = ["--request-count", "2"];
    let nowhere = "http://user:pass-in-env@127.0.0.1:9";
    for (name, other) in [("HTTP_PROXY", "HTTPS_PROXY"), ("all_proxy", "https_proxy")] {
        let path = dir.path().join(name);
        let text = ended(
            &profile(&path, &url, &count, &[(name, nowhere), (other, nowhere)]),
            0,
        );
        assert_eq!(text.matches("is not used; --proxy").count(), 1, "{text}");
        assert!(
            text.contains(&name.to_uppercase()) && text.contains("HTTPS_PROXY"),
            "{text}"
        );
        assert!(!text.contains("pass-in-env"), "{text}");
        assert_eq!(proxy_used(&path), "none");
    }
    let text = ended(&profile(&dir.path().join("no"), &url, &count, &[]), 0);
    assert!(!text.contains("--proxy"), "{text}");
    assert_eq!(log.measured().len(), 6);
    let (through, asked) = proxy(Does::Work);
    let explicit = format!("http://{through}");
    let used = |no_proxy: &'static str, flags: &[&str]| {
        let path = dir.path().join(no_proxy.replace('/', "_"));
        let flags = [&count[..], &["--proxy", &explicit], flags].concat();
        let environment = [("NO_PROXY", no_proxy), ("HTTP_PROXY", nowhere)];
        let text = ended(&profile(&path, &url, &flags, &environment), 0);
        assert!(!text.contains("is not used"), "{text}");
        let now = asked.measured().len();
        (proxy_used(&path), now)
    };
    assert_eq!(used("10.0.0.0/8,.example.com", &[]), ("used".into(), 2));
    assert_eq!(used("127.0.0.0/8", &[]), ("none".into(), 2));
    assert_eq!(used("*", &[]), ("none".into(), 2));
    // The flag stands in the place of the variable.
    assert_eq!(used("127.0.0.1", &["--no-proxy", "h"]), ("used".into(), 4));
    let dry = profile(
        dir.path(),
        "10.1.2.3",
        &["--dry-run", "--proxy", &explicit],
        &[("NO_PROXY", "10.0.0.0/8")],
    );
    ended(&dry, 0);
    assert!(!String::from_utf8_lossy(&dry.stdout).contains("http://10.1.2.3:8000/v1 HTTP"));
}

#[test]
fn plain_http_is_asked_for_in_absolute_form_and_the_password_is_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let (addr, log) = serve("127.0.0.1:0", None, 0);
    let (through, asked) = proxy(Does::Work);
    let url = format!("http://{addr}/base");
    let flag = format!("http://someone:s%65cret-word@{through}");
    let flags = ["--request-count", "2", "--proxy", &flag, "-v"];
    let output = profile(dir.path(), &url, &flags, &[]);
    ended(&output, 0);
    let heard = asked.measured();
    let line = format!("POST http://{addr}/base/v1/chat/completions HTTP/1.1");
    // someone:secret-word
    let authorization = "Proxy-Authorization: Basic c29tZW9uZTpzZWNyZXQtd29yZA==";
    assert_eq!(heard.len(), 2);
    for Heard { head, .. } in &heard {
        assert!(head.starts_with(&line), "{head}");
        assert!(head.contains(&format!("Host: {addr}\r\n")), "{head}");
        assert!(head.contains(authorization), "{head}");
    }
    assert!(!log.all().is_empty() && proxy_used(dir.path()) == "used");
    // The run has one connection to the proxy, kept.
    assert_eq!(peers(&heard).len(), 1);
    let dry = profile(
        &dir.path().join("dry"),
        &url,
        &["--dry-run", "--proxy", &flag],
        &[],
    );
    ended(&dry, 0);
    let plan = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(
        plan.contains(&format!("through http://{through}")),
        "{plan}"
    );
    assert!(plan.contains(&format!(
        "curl -N '{url}/v1/chat/completions' -x http://{through}"
    )));
    let mut texts = vec![plan, stderr(&output), stderr(&dry)];
    texts.push(String::from_utf8_lossy(&output.stdout).into_owned());
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    assert!(texts.len() > 8);
    for text in texts {
        for secret in ["secret-word", "s%65cret-word", "c29tZW9uZTpzZWNyZXQtd29yZA"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

/// Field case TP-3: IPv6 literals, straight and by CONNECT.
#[test]
fn ipv6_literals_are_dialled_verified_and_tunnelled() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, log) = serve("[::1]:0", None, 0);
    ended(
        &profile(
            dir.path(),
            &format!("http://{plain}"),
            &["--request-count", "2"],
            &[],
        ),
        0,
    );
    let host = format!("Host: [::1]:{}\r\n", plain.port());
    assert!(
        log.measured()
            .iter()
            .all(|heard| heard.head.contains(&host))
    );
    let (config, pem) = certificate(&["::1"]);
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, pem).unwrap();
    let (addr, log) = serve("[::1]:0", Some(config), 0);
    let url = format!("https://{addr}");
    let trust = ["--request-count", "2", "--tls-ca", ca.to_str().unwrap()];
    ended(&profile(&dir.path().join("tls"), &url, &trust, &[]), 0);
    let (through, asked) = proxy(Does::Work);
    let flag = format!("http://u:password@{through}");
    let tunnelled = [&trust[..], &["--proxy", &flag]].concat();
    let path = dir.path().join("tunnel");
    ended(&profile(&path, &url, &tunnelled, &[]), 0);
    assert_eq!(proxy_used(&path), "used");
    let host = format!("Host: [::1]:{}\r\n", addr.port());
    let heard = log.measured();
    assert_eq!(heard.len(), 4);
    for Heard { head, sni, .. } in &heard {
        assert!(
            head.starts_with("POST /v1/chat/completions ") && head.contains(&host),
            "{head}"
        );
        assert!(
            !head.contains("Proxy-Authorization") && sni.is_none(),
            "{head} {sni:?}"
        );
    }
    let connect = format!("CONNECT [::1]:{} HTTP/1.1\r\n", addr.port());
    let asked = asked.all();
    // Exporters of GPUs are looked for beside the server, by the same way.
    let is_page = |heard: &&Heard| heard.head.starts_with("GET http://[::1]:940");
    assert!(asked.iter().any(|heard| heard.head.starts_with(&connect)));
    for Heard { head, .. } in asked.iter().filter(|heard| !is_page(heard)) {
        assert!(head.starts_with(&connect), "{head}");
        assert!(
            head.contains("Proxy-Authorization: Basic dTpwYXNzd29yZA=="),
            "{head}"
        );
    }
}

#[test]
fn an_address_of_a_link_is_dialled_by_its_zone_and_named_without_it() {
    let Some((address, link)) = link_address() else {
        return; // This machine has none.
    };
    let dir = tempfile::tempdir().unwrap();
    let (addr, log) = serve("[::]:0", None, 0);
    let url = format!("http://[{address}%25{link}]:{}", addr.port());
    ended(
        &profile(dir.path(), &url, &["--request-count", "1"], &[]),
        0,
    );
    let host = format!("Host: [{address}]:{}\r\n", addr.port());
    assert!(log.measured()[0].head.contains(&host));
}

/// An address of a link of this machine, and the link's name.
fn link_address() -> Option<(Ipv6Addr, String)> {
    let text = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Its scope is the link, and it is in use.
        let [hex, _, _, "20", "80", link] = words[..] else {
            return None;
        };
        let bits = u128::from_str_radix(hex, 16).ok()?;
        Some((Ipv6Addr::from_bits(bits), link.to_string()))
    })
}

#[test]
fn tls_through_a_proxy_verifies_the_target_s_name() {
    let dir = tempfile::tempdir().unwrap();
    let (through, _) = proxy(Does::Work);
    let flag = format!("http://{through}");
    for (name, code) in [("localhost", 0), ("elsewhere.example", 3)] {
        let (config, pem) = certificate(&[name]);
        let ca = dir.path().join(name);
        std::fs::write(&ca, pem).unwrap();
        let (addr, log) = serve("127.0.0.1:0", Some(config), 0);
        let url = format!("https://localhost:{}", addr.port());
        let trust = ["--request-count", "1", "--tls-ca", ca.to_str().unwrap()];
        let flags = [&trust[..], &["--proxy", &flag]].concat();
        let text = ended(&profile(&dir.path().join("run"), &url, &flags, &[]), code);
        match code {
            0 => assert_eq!(log.all()[0].sni.as_deref(), Some("localhost")),
            _ => assert!(
                text.contains("certificate") && log.all().is_empty(),
                "{text}"
            ),
        }
    }
}

const ASKS: &str = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
const BAD: &str = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";

#[test]
fn what_is_wrong_with_a_proxy_is_said_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let wants = "the proxy wants a user and a password: give --proxy http://user:password@";
    for (addr, url, code, told) in [
        (proxy(Does::Say(ASKS)).0, "http://h.invalid", 2, wants),
        (
            proxy(Does::Say(ASKS)).0,
            "https://h.invalid",
            3,
            "Authentication Required to CONNECT: the proxy wants a user and a password: give",
        ),
        (
            proxy(Does::Say(BAD)).0,
            "https://h.invalid",
            3,
            "the proxy answered 502 Bad Gateway to CONNECT",
        ),
        (
            proxy(Does::Close).0,
            "https://h.invalid",
            3,
            "the proxy closed the connection without an answer to CONNECT",
        ),
        (nobody, "http://h.invalid", 3, "Connection refused"),
    ] {
        let flag = format!("http://{addr}");
        let text = ended(&profile(dir.path(), url, &["--proxy", &flag], &[]), code);
        assert!(text.contains(told) && text.contains("proxy"), "{text}");
    }
}

#[test]
fn a_proxy_s_failures_have_a_kind_and_names_of_their_own() {
    let tunnel = || Via::tunnel("h.invalid:443", None);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    for (addr, via, name, code) in [
        (nobody, Via::Proxy, "proxy_connection_refused", 0),
        (
            proxy(Does::Say(ASKS)).0,
            Via::Proxy,
            "proxy_authentication_required",
            407,
        ),
        (
            proxy(Does::Say(ASKS)).0,
            tunnel(),
            "proxy_authentication_required",
            407,
        ),
        (
            proxy(Does::Say(BAD)).0,
            tunnel(),
            "proxy_tunnel_refused",
            502,
        ),
        (
            proxy(Does::Say("SSH-2.0\r\n\r\n")).0,
            tunnel(),
            "proxy_invalid_http",
            0,
        ),
        (proxy(Does::Close).0, tunnel(), "proxy_connection_closed", 0),
    ] {
        for ring in [true, false] {
            let (records, _) = support::run(&Ask {
                ring,
                via: via.clone(),
                ..Ask::new(addr, 1)
            });
            let failure = records[0].failure.as_ref().unwrap();
            assert_eq!(
                (failure.kind, &*failure.name, failure.code),
                (FailureKind::Proxy, name, code),
                "{failure:?}"
            );
        }
    }
}
