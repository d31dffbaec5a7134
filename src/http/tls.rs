//! TLS without I/O: rustls between the socket's bytes and the codec's, and the mock's.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// What to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM file of further roots.
    pub ca: Option<PathBuf>,
    /// Verify nothing.
    pub insecure: bool,
}

/// Why TLS cannot be set up, or broke.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The CA file.
    #[error("--tls-ca {path}: {reason}; give a PEM file with at least one certificate")]
    Ca {
        /// File.
        path: String,
        /// What was wrong.
        reason: String,
    },
    /// The host is no name that a certificate can hold.
    #[error("host `{0}` cannot be verified by TLS; use a DNS name or an address")]
    Name(String),
    /// Handshake or record.
    #[error("tls: {0}")]
    Session(#[from] rustls::Error),
    /// In-memory transport.
    #[error("tls: {0}")]
    Io(#[from] std::io::Error),
    /// The mock's own certificate.
    #[error("tls: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Builds sessions for one target.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<rustls::ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// A client for `host` (a name, or an address without brackets, which sends no SNI).
    pub fn new(host: &str, options: &TlsOptions) -> Result<TlsClient, TlsError> {
        let name =
            ServerName::try_from(host.to_string()).map_err(|_| TlsError::Name(host.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let mut config = if options.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(insecure::Anything(provider)))
                .with_no_client_auth()
        } else {
            builder
                .with_root_certificates(roots(options)?)
                .with_no_client_auth()
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsClient {
            config: Arc::new(config),
            name,
        })
    }

    /// A new session.
    pub(super) fn session(&self) -> Result<Session, TlsError> {
        let inner = rustls::ClientConnection::new(self.config.clone(), self.name.clone())?;
        Ok(Session {
            inner: Box::new(inner.into()),
        })
    }
}

/// Builds sessions of a server that nobody has reason to trust: the mock.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<rustls::ServerConfig>,
}

impl TlsServer {
    /// A server for `host` and `localhost`, with a certificate of its own making: a client must be
    /// told not to verify it. Cost: some ms.
    pub fn self_signed(host: &str) -> Result<TlsServer, TlsError> {
        let names = vec![host.to_string(), "localhost".to_string()];
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names)?;
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsServer {
            config: Arc::new(config),
        })
    }

    /// A new session.
    pub fn session(&self) -> Result<Session, TlsError> {
        let inner = rustls::ServerConnection::new(self.config.clone())?;
        Ok(Session {
            inner: Box::new(inner.into()),
        })
    }
}

fn roots(options: &TlsOptions) -> Result<rustls::RootCertStore, TlsError> {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    // The machine's own roots are welcome, and no reason to stop where they are missing.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = &options.ca {
        let fail = |reason: String| TlsError::Ca {
            path: path.display().to_string(),
            reason,
        };
        let pem = CertificateDer::pem_file_iter(path).map_err(|error| fail(error.to_string()))?;
        let mut count = 0;
        for cert in pem {
            let cert = cert.map_err(|error| fail(error.to_string()))?;
            roots.add(cert).map_err(|error| fail(error.to_string()))?;
            count += 1;
        }
        if count == 0 {
            return Err(fail("no certificate in it".into()));
        }
    }
    Ok(roots)
}

/// One connection's TLS state, at either end.
pub struct Session {
    inner: Box<rustls::Connection>,
}

impl Session {
    /// True until the handshake is done.
    pub fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    /// Takes ciphertext, appends what it says to `plain`.
    pub fn decrypt(&mut self, mut input: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        while !input.is_empty() {
            self.inner.read_tls(&mut input)?;
            let state = self.inner.process_new_packets()?;
            let waiting = state.plaintext_bytes_to_read();
            if waiting > 0 {
                let start = plain.len();
                plain.resize(start + waiting, 0);
                self.inner.reader().read_exact(&mut plain[start..])?;
            }
        }
        Ok(())
    }

    /// Encrypts `plain` (may be empty) and appends all that is to be sent to `out`.
    pub fn encrypt(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        loop {
            let taken = self.inner.writer().write(plain)?;
            plain = &plain[taken..];
            while self.inner.wants_write() {
                self.inner.write_tls(out)?;
            }
            if plain.is_empty() {
                return Ok(());
            }
        }
    }
}

mod insecure {
    //! `--tls-insecure`: accepts any certificate; the run says so.
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};
    use std::sync::Arc;

    #[derive(Debug)]
    pub struct Anything(pub Arc<CryptoProvider>);

    impl ServerCertVerifier for Anything {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}
