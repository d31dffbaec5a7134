//! How connections are made, kept, and led through a proxy.

use super::Url;
use crate::base::{Ns, base64};
use std::net::IpAddr;

/// Which connection a request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reuse {
    /// Any that is open and idle.
    #[default]
    Pooled,
    /// A new one, closed after it.
    Never,
    /// That of its session's last turn.
    Sticky,
}

/// Everything about connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connections {
    /// `--connection-reuse-strategy`.
    pub reuse: Reuse,
    /// Idle time before a keep-alive probe and between two, in whole seconds.
    pub keepalive: Option<Ns>,
    /// `SO_RCVBUF`, in bytes.
    pub recv_buffer: Option<u32>,
    /// `SO_SNDBUF`, in bytes.
    pub send_buffer: Option<u32>,
    /// `TCP_USER_TIMEOUT`, in whole milliseconds.
    pub user_timeout: Option<Ns>,
    /// Addresses to connect from, in turn; empty leaves it to the kernel.
    pub sources: Vec<IpAddr>,
    /// First and last port to connect from; absent leaves it to the kernel.
    pub ports: Option<(u16, u16)>,
    /// The proxy, when one is to be used.
    pub proxy: Option<Proxy>,
}

impl Connections {
    /// The proxy that a url is reached through.
    pub fn proxy_for(&self, url: &Url) -> Option<&Proxy> {
        let is_direct = |proxy: &&Proxy| proxy.exempt.iter().any(|rule| rule.covers(url));
        self.proxy.as_ref().filter(|proxy| !is_direct(proxy))
    }
}

/// A proxy that speaks HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Host name, or an address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `user:password`, when given.
    pub credentials: Option<String>,
    /// What is reached without it.
    pub exempt: Vec<Exempt>,
}

impl Proxy {
    /// Reads `http://[user:password@]host:port`. Errors are fragments that say what is wrong.
    pub fn parse(text: &str) -> Result<Proxy, String> {
        let form = "give http://[user:password@]host:port";
        let parsed = url::Url::parse(text.trim()).map_err(|error| format!("{error}; {form}"))?;
        if parsed.scheme() != "http" {
            let scheme = parsed.scheme();
            return Err(format!("`{scheme}` is not spoken to a proxy; {form}"));
        }
        let host = match parsed.host() {
            Some(url::Host::Domain(name)) if !name.is_empty() => name.to_string(),
            Some(url::Host::Ipv4(address)) => address.to_string(),
            Some(url::Host::Ipv6(address)) => address.to_string(),
            _ => return Err(format!("it has no host; {form}")),
        };
        let has_more = parsed.query().is_some() || parsed.fragment().is_some();
        if !matches!(parsed.path(), "" | "/") || has_more {
            return Err(format!("a proxy has no path; {form}"));
        }
        let port = parsed.port().unwrap_or(80);
        if port == 0 {
            return Err("port 0 cannot be connected to".into());
        }
        let (user, password) = (parsed.username(), parsed.password());
        let is_named = !user.is_empty() || password.is_some();
        let plain = |text: &str| decoded(text).ok_or("its user or password is no text; write %XX");
        let credentials = match is_named {
            true => Some(format!(
                "{}:{}",
                plain(user)?,
                plain(password.unwrap_or(""))?
            )),
            false => None,
        };
        Ok(Proxy {
            host,
            port,
            credentials,
            exempt: Vec::new(),
        })
    }

    /// `http://host:port`, without its credentials.
    pub fn origin(&self) -> String {
        match self.host.contains(':') {
            true => format!("http://[{}]:{}", self.host, self.port),
            false => format!("http://{}:{}", self.host, self.port),
        }
    }

    /// The value of `Proxy-Authorization`.
    pub fn authorization(&self) -> Option<String> {
        let (_, mut coded) = base64(self.credentials.as_ref()?.as_bytes());
        while !coded.len().is_multiple_of(4) {
            coded.push('=');
        }
        Some(format!("Basic {coded}"))
    }

    /// What must not be shown: the password, and both together, as they are coded.
    pub(super) fn secrets(&self) -> Vec<String> {
        let both = self.credentials.iter();
        let password = both.clone().filter_map(|both| both.split_once(':'));
        let password = password.map(|(_, password)| password.to_string());
        both.cloned().chain(password).collect()
    }
}

/// Percent-decodes; a plus is a plus.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains(char::is_control)).then_some(text)
}

/// What is reached without the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exempt {
    /// `*`: everything.
    All,
    /// Addresses that share so many leading bits: `10.0.0.0/8`, or one address.
    Net(IpAddr, u32, Option<u16>),
    /// A name and those below it, with a port where one is given.
    Name(String, Option<u16>),
}

impl Exempt {
    /// Reads one entry of a `NO_PROXY` list. Errors are fragments that say what is wrong.
    pub fn parse(text: &str) -> Result<Exempt, String> {
        if text == "*" {
            return Ok(Exempt::All);
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address = address.trim_matches(['[', ']']).parse::<IpAddr>();
            let bits = bits.parse::<u32>().ok();
            return match (address, bits) {
                (Ok(net), Some(bits)) if bits <= width(net) => Ok(Exempt::Net(net, bits, None)),
                _ => Err("it is no network; give one as in 10.0.0.0/8".into()),
            };
        }
        if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(Exempt::Net(address, width(address), None));
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => match port.parse() {
                Ok(port) => (name, Some(port)),
                Err(_) => return Err("its port is no number; give host:port".into()),
            },
            None => (text, None),
        };
        if let Ok(address) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(Exempt::Net(address, width(address), port));
        }
        let name = name.trim_start_matches("*.").trim_start_matches('.');
        match name.is_empty() || name.contains(['/', '*', '[']) {
            true => Err("give *, a host, host:port, .suffix or a network as 10.0.0.0/8".into()),
            false => Ok(Exempt::Name(name.to_ascii_lowercase(), port)),
        }
    }

    fn covers(&self, url: &Url) -> bool {
        let on_port = |port: &Option<u16>| port.is_none_or(|port| port == url.port);
        match self {
            Exempt::All => true,
            Exempt::Net(net, bits, port) => {
                let same = |address| shares(*net, address, *bits);
                url.name().parse().is_ok_and(same) && on_port(port)
            }
            Exempt::Name(name, port) => {
                let host = url.host.to_ascii_lowercase();
                let above = host.strip_suffix(name.as_str());
                above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) && on_port(port)
            }
        }
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// True when two addresses have the first `bits` in common.
fn shares(a: IpAddr, b: IpAddr, bits: u32) -> bool {
    let differ = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    differ >= bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_url;

    #[test]
    fn a_proxy_has_host_port_and_credentials() {
        let of = |text: &str| {
            let proxy = Proxy::parse(text).unwrap();
            (proxy.origin(), proxy.authorization())
        };
        assert_eq!(of("http://p:3128"), ("http://p:3128".into(), None));
        assert_eq!(of("http://[::1]:3128/").0, "http://[::1]:3128");
        // RFC 7617 section 2.
        let known = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        assert_eq!(
            of("http://Aladdin:open%20sesame@p"),
            ("http://p:80".into(), Some(known.into()))
        );
        for text in [
            "p:3128",
            "https://p:1",
            "socks5://p:1",
            "http://",
            "http://p:0",
            "http://p:1/path",
            "http://p:1?q",
            "http://u:a%0Ab@p:1",
            "",
        ] {
            assert!(Proxy::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_proxy_knows_suffixes_networks_ports_and_everything() {
        for (rule, inside, outside) in [
            ("*", &["http://h:1", "http://10.1.2.3"][..], &[][..]),
            (
                "example.com",
                &["https://example.com", "http://a.b.EXAMPLE.com:9"],
                &["http://myexample.com", "http://example.com.org"],
            ),
            (
                ".example.com",
                &["http://a.example.com"],
                &["http://ample.com"],
            ),
            ("*.example.com", &["http://a.example.com"], &["http://h"]),
            (
                "10.0.0.0/8",
                &["http://10.1.2.3:8000"],
                &["http://11.1.2.3", "http://h10.1.2.3.de", "http://[::1]"],
            ),
            ("10.1.2.3/32", &["http://10.1.2.3"], &["http://10.1.2.4"]),
            ("0.0.0.0/0", &["http://10.1.2.3"], &["http://[::1]"]),
            (
                "127.0.0.1",
                &["http://127.0.0.1:1"],
                &["http://127.0.0.2:1"],
            ),
            ("h:8000", &["http://h:8000"], &["http://h:8001"]),
            ("10.0.0.1:80", &["http://10.0.0.1"], &["https://10.0.0.1"]),
            ("::1", &["http://[::1]:8000"], &["http://[::2]:8000"]),
            ("[::1]:8000", &["http://[::1]:8000"], &["http://[::1]:80"]),
            (
                "fe80::/10",
                &["http://[fe80::1%25eth0]:8000"],
                &["http://[fd00::1]"],
            ),
        ] {
            let exempt = Exempt::parse(rule).unwrap();
            for url in inside {
                assert!(exempt.covers(&parse_url(url).unwrap()), "{rule}: {url}");
            }
            for url in outside {
                assert!(!exempt.covers(&parse_url(url).unwrap()), "{rule}: {url}");
            }
        }
        for rule in ["10.0.0.0/33", "x/8", "h:x", "a*b", "."] {
            assert!(Exempt::parse(rule).is_err(), "{rule}");
        }
    }
}
