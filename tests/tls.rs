//! TLS without I/O of its own: trust, names and addresses, on both receive paths.

mod support;

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use support::{Ask, chunk, ev, run};
use tokenring::http::{TlsClient, TlsOptions};
use tokenring::stats::{FailureKind, Record};

/// A TLS server on `address` with a fresh certificate for `localhost`, 127.0.0.1 and ::1; the PEM
/// of the certificate.
fn serve(address: &str) -> (SocketAddr, String) {
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
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let stream = rustls::StreamOwned::new(session, socket.unwrap());
            std::thread::spawn(move || answer(stream));
        }
    });
    (addr, pem)
}

/// Answers every request that ends in `{}` with two events, each in a TLS record of its own.
fn answer(mut stream: impl Read + Write) -> Option<()> {
    let mut buffer = [0u8; 4096];
    let mut held = Vec::new();
    loop {
        let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
        held.extend_from_slice(&buffer[..count]);
        if !held.ends_with(b"{}") {
            continue;
        }
        held.clear();
        stream.write_all(support::CHUNKED.as_bytes()).ok()?;
        for text in ["a", "b"] {
            stream
                .write_all(chunk(&format!("data: {}\n\n", ev(text))).as_bytes())
                .ok()?;
        }
        stream
            .write_all((chunk("data: [DONE]\n\n") + "0\r\n\r\n").as_bytes())
            .ok()?;
        stream.flush().ok()?;
    }
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
