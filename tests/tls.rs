//! TLS without I/O of its own: trust, names and addresses, on both receive paths.

mod support;

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Ask, chunk, ev, run};
use tokenring::http::{TlsClient, TlsOptions};
use tokenring::stats::{FailureKind, Record};

/// A TLS server on `address` with a fresh certificate for `localhost`, 127.0.0.1 and ::1; the PEM
/// of the certificate.
fn serve(address: &str) -> (SocketAddr, String) {
    serve_by(address, |stream| {
        // The client has closed.
        answer(stream, None);
    })
}

type Stream = rustls::StreamOwned<rustls::ServerConnection, TcpStream>;

/// The same with a word in how a connection is served.
fn serve_by(
    address: &str,
    handle: impl Fn(Stream) + Send + Sync + 'static,
) -> (SocketAddr, String) {
    let mut params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    for address in ["127.0.0.1", "::1"] {
        params
            .subject_alt_names
            .push(SanType::IpAddress(address.parse().unwrap()));
    }
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
    let config = Arc::new(config);
    let listener = TcpListener::bind(address).unwrap();
    let addr = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let handle = handle.clone();
            let socket = socket.unwrap();
            socket.set_nodelay(true).unwrap();
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let stream = rustls::StreamOwned::new(session, socket);
            std::thread::spawn(move || handle(stream));
        }
    });
    (addr, pem)
}

/// Answers every request that ends in `{}` with two events, each in a TLS record of its own; with
/// `stray` only the first, twice, and tells when it has.
fn answer(mut stream: Stream, stray: Option<&AtomicBool>) -> Option<()> {
    let mut buffer = [0u8; 4096];
    let mut held = Vec::new();
    loop {
        let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
        held.extend_from_slice(&buffer[..count]);
        if !held.ends_with(b"{}") {
            continue;
        }
        held.clear();
        if stray.is_some_and(|told| told.load(Ordering::SeqCst)) {
            continue;
        }
        reply(&mut stream)?;
        if let Some(told) = stray {
            std::thread::sleep(Duration::from_millis(20));
            reply(&mut stream)?;
            told.store(true, Ordering::SeqCst);
        }
    }
}

fn reply(stream: &mut Stream) -> Option<()> {
    stream.write_all(support::CHUNKED.as_bytes()).ok()?;
    for text in ["a", "b"] {
        stream
            .write_all(chunk(&format!("data: {}\n\n", ev(text))).as_bytes())
            .ok()?;
    }
    stream
        .write_all((chunk("data: [DONE]\n\n") + "0\r\n\r\n").as_bytes())
        .ok()?;
    stream.flush().ok()
}

fn ask(addr: SocketAddr, host: &str, options: &TlsOptions, ring: bool) -> Vec<Record> {
    let tls = Some(TlsClient::new(host, options).unwrap());
    run(&Ask {
        tls,
        ring,
        slots: 2,
        ..Ask::new(addr, 6)
    })
    .0
}

#[test]
fn a_trusted_certificate_carries_requests_by_name_and_by_address() {
    let dir = tempfile::tempdir().unwrap();
    for (address, host) in [
        ("127.0.0.1:0", "localhost"),
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
    ] {
        let (addr, pem) = serve(address);
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, pem).unwrap();
        let options = TlsOptions {
            ca: Some(ca),
            insecure: false,
        };
        for ring in [true, false] {
            for record in ask(addr, host, &options, ring) {
                assert_eq!(record.failure, None, "{host}");
                assert_eq!(record.buffers.answer, b"ab");
            }
        }
    }
}

#[test]
fn an_answer_that_came_before_its_request_is_an_error() {
    for ring in [true, false] {
        let told = Arc::new(AtomicBool::new(false));
        let flag = told.clone();
        let (addr, _) = serve_by("127.0.0.1:0", move |stream| {
            answer(stream, Some(&flag));
        });
        let options = TlsOptions {
            ca: None,
            insecure: true,
        };
        let (records, _) = run(&Ask {
            tls: Some(TlsClient::new("localhost", &options).unwrap()),
            ring,
            hold: Some(told),
            ..Ask::new(addr, 2)
        });
        assert_eq!(records[0].failure, None);
        let failure = records[1].failure.as_ref().unwrap();
        assert_eq!(failure.name, "unsolicited_response");
        assert!(!records[1].streamed && records[1].done >= records[1].start);
    }
}

#[test]
fn a_certificate_that_nobody_trusts_is_refused_unless_told_otherwise() {
    let (addr, _) = serve("127.0.0.1:0");
    for record in ask(addr, "localhost", &TlsOptions::default(), true) {
        let failure = record.failure.unwrap();
        assert_eq!(
            (failure.kind, failure.name.as_str()),
            (FailureKind::Network, "tls")
        );
        assert!(
            failure.message.contains("certificate"),
            "{}",
            failure.message
        );
    }
    let options = TlsOptions {
        ca: None,
        insecure: true,
    };
    let records = ask(addr, "elsewhere.example", &options, true);
    assert!(records.iter().all(|record| record.failure.is_none()));
}

#[test]
fn a_ca_file_that_holds_no_certificate_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("empty.pem");
    std::fs::write(&ca, "").unwrap();
    let error = TlsClient::new(
        "h",
        &TlsOptions {
            ca: Some(ca),
            insecure: false,
        },
    )
    .unwrap_err();
    assert!(error.to_string().contains("--tls-ca"), "{error}");
}
