//! How the targets are reached: from which addresses, straight or through the proxy.

use super::setup;
use crate::base::Ns;
use crate::config::{Config, Proxy, Reuse, Url};
use crate::http::fetch::{self, Fetch, Limits, Way};
use crate::http::{TlsClient, TlsOptions, Via};
use crate::runtime::{self, Dial};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// A page of metrics may take so long. Large ones take a server about a second.
const PAGE_TIMEOUT: Ns = Ns::from_ms(3_000);
/// Bytes of a page: the largest known have some.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// How the run's sockets are made.
pub fn dial(config: &Config) -> Dial {
    let wish = &config.connections;
    Dial {
        sources: wish.sources.clone(),
        ports: wish.ports,
        keepalive: wish.keepalive,
        recv_buffer: wish.recv_buffer,
        send_buffer: wish.send_buffer,
        user_timeout: wish.user_timeout,
    }
}

/// The way to a url.
pub fn via(config: &Config, url: &Url) -> Via {
    match config.connections.proxy_for(url) {
        None => Via::Direct,
        Some(proxy) if url.tls => Via::tunnel(&url.authority(), proxy.authorization().as_deref()),
        Some(_) => Via::Proxy,
    }
}

/// What a request line names: the path, or all of it for a proxy that passes it on.
pub fn request_target(config: &Config, url: &Url, path: &str) -> String {
    match via(config, url) {
        Via::Proxy => format!("http://{}{path}", url.authority()),
        Via::Direct | Via::Tunnel(_) => path.to_string(),
    }
}

/// Headers of every request to a url, in the order of the wire.
pub fn headers(config: &Config, url: &Url) -> Vec<(String, String)> {
    let mut all = setup::headers(config);
    if let (Via::Proxy, Some(proxy)) = (via(config, url), config.connections.proxy_for(url))
        && let Some(value) = proxy.authorization()
    {
        let given = |(name, _): &(String, String)| name.eq_ignore_ascii_case("proxy-authorization");
        if !all.iter().any(given) {
            all.push(("Proxy-Authorization".into(), value));
        }
    }
    all
}

/// What asks for a page beside the requests: over TLS and through the proxy as they are, with the
/// run's own headers or with none of them. It takes no ports of `--local-port-range`, which the
/// load may need. Errors: a fragment that says what is wrong with the way.
pub fn fetch(config: &Config, url: &Url, with_headers: bool) -> Result<Fetch, String> {
    let addrs = resolve(config, url).map_err(|fault| match fault {
        Unresolved::Unknown(text) | Unresolved::Misfit(text) => text,
    })?;
    let options = TlsOptions {
        ca: config.tls_ca.clone(),
        insecure: config.tls_insecure,
    };
    let tls = url.tls.then(|| TlsClient::new(url.name(), &options));
    let tls = tls.transpose().map_err(|error| error.to_string())?;
    let path = match url.base.as_str() {
        "" => "/",
        base => base,
    };
    let path = request_target(config, url, &format!("{path}{}", url.query));
    let headers = page_headers(config, url, with_headers);
    // A page is most often served on IPv4 only, whatever else its host has.
    let v4 = addrs.iter().find(|addr| addr.is_ipv4());
    Ok(Fetch {
        url: url.origin_shown(),
        way: Way {
            addr: v4.or(addrs.first()).copied(),
            tls,
            via: via(config, url),
            dial: Dial {
                ports: None,
                ..dial(config)
            },
        },
        request: fetch::request("GET", &path, &url.authority(), &headers),
        limits: Limits {
            connect: config.connect_timeout.min(PAGE_TIMEOUT),
            whole: PAGE_TIMEOUT,
            body: PAGE_BYTES_MAX,
        },
    })
}

/// Headers that ask for a page: the run's as far as they are wanted and fit a GET.
fn page_headers(config: &Config, url: &Url, with_headers: bool) -> Vec<(String, String)> {
    let is_own = |name: &str| {
        let given = ["accept", "content-type", "connection"];
        given.iter().any(|own| name.eq_ignore_ascii_case(own))
    };
    let mut sent = headers(config, url);
    sent.retain(|(name, _)| {
        let is_way = ["proxy-authorization", "user-agent"];
        let is_way = is_way.iter().any(|way| name.eq_ignore_ascii_case(way));
        (with_headers && !is_own(name)) || is_way
    });
    let accept = "text/plain;version=0.0.4, */*;q=0.1";
    sent.push(("Accept".into(), accept.into()));
    sent.push(("Connection".into(), "close".into()));
    sent
}

/// True when a request of the run goes through a proxy.
pub fn uses_proxy(config: &Config) -> bool {
    let is_proxied = |url: &Url| config.connections.proxy_for(url).is_some();
    config.urls.iter().any(is_proxied)
}

/// Whom connections for a url are made to: it or its proxy.
fn peer<'a>(config: &'a Config, url: &'a Url) -> (&'a str, u16) {
    match config.connections.proxy_for(url) {
        Some(Proxy { host, port, .. }) => (host, *port),
        None => (&url.host, url.port),
    }
}

/// How a message names it.
pub fn named(config: &Config, url: &Url) -> String {
    match config.connections.proxy_for(url) {
        Some(proxy) => format!("--proxy {}", proxy.origin()),
        None => format!("--url {}", url.origin_shown()),
    }
}

/// Why a url has no address.
#[derive(Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// Nobody knows its host.
    Unknown(String),
    /// `--source-ip` does not lead there.
    Misfit(String),
}

/// The addresses that connections for a url go to, at least one; asked for once.
pub fn resolve(config: &Config, url: &Url) -> Result<Vec<SocketAddr>, Unresolved> {
    let (host, port) = peer(config, url);
    let unknown = |reason: String| Unresolved::Unknown(format!("`{host}` {reason}"));
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| unknown(format!("is not found: {error}")))?;
    let mut all: Vec<SocketAddr> = Vec::new();
    for addr in found {
        if !all.contains(&addr) {
            all.push(addr);
        }
    }
    match all.is_empty() {
        true => Err(unknown("has no address".into())),
        false => fitting(config, host, all).map_err(Unresolved::Misfit),
    }
}

/// Those that `--source-ip` leads to.
fn fitting(
    config: &Config,
    host: &str,
    mut all: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, String> {
    let dial = dial(config);
    let family = |is_v4| if is_v4 { "IPv4" } else { "IPv6" };
    let has_v4 = all.iter().any(SocketAddr::is_ipv4);
    all.retain(|addr| dial.reaches(addr));
    match all.is_empty() {
        false => Ok(all),
        true => Err(format!(
            "--source-ip: `{host}` has {} addresses only, those given are {}; give one of its \
             family",
            family(has_v4),
            family(!has_v4),
        )),
    }
}

/// Checks before anything is sent that sockets can be made as asked, and that the ports suffice
/// for `streams` connections at a time. Gives sentences on what the kernel does otherwise.
pub fn check(config: &Config, streams: u64) -> Result<Vec<String>, String> {
    let wish = &config.connections;
    let (first, last) = runtime::port_range();
    if let Some((from, to)) = wish.ports.filter(|&(from, to)| from < first || to > last) {
        return Err(format!(
            "--local-port-range {from}-{to}: the kernel gives ports of {first}-{last} only \
             (net.ipv4.ip_local_port_range)"
        ));
    }
    let notes = dial(config).try_out()?;
    for url in &config.urls {
        let (host, port) = peer(config, url);
        if let Ok(address) = host.parse::<IpAddr>() {
            fitting(config, host, vec![SocketAddr::new(address, port)])?;
        }
    }
    let ports = ports_count(config);
    let needed = busiest(config, streams);
    if needed > ports {
        let range = match wish.ports {
            Some((from, to)) => format!("--local-port-range {from}-{to}"),
            None => "net.ipv4.ip_local_port_range".to_string(),
        };
        return Err(format!(
            "--concurrency {streams}: {needed} connections to one address need as many ports, \
             there are {ports} ({range}); give more addresses of this machine with --source-ip"
        ));
    }
    Ok(notes)
}

/// Ports towards one address, over all addresses to connect from.
pub fn ports_count(config: &Config) -> u64 {
    let wish = &config.connections;
    let (first, last) = wish.ports.unwrap_or_else(runtime::port_range);
    let ports = u64::from(last.saturating_sub(first)) + 1;
    ports * wish.sources.len().max(1) as u64
}

/// Of so many streams, those to the host and port that gets the most: urls take turns, and several
/// may lead to the same.
fn busiest(config: &Config, streams: u64) -> u64 {
    let mut shares: HashMap<(&str, u16), u64> = HashMap::new();
    for url in &config.urls {
        *shares.entry(peer(config, url)).or_default() += 1;
    }
    let most = shares.into_values().max().unwrap_or(1);
    (streams * most).div_ceil(config.urls.len().max(1) as u64)
}

/// The settings that are not the usual ones, for the plan.
pub fn describe(config: &Config) -> Option<String> {
    let wish = &config.connections;
    let mut parts = Vec::new();
    match wish.reuse {
        Reuse::Pooled => {}
        Reuse::Never => parts.push("a new one for each request".to_string()),
        Reuse::Sticky => parts.push("one for each session".to_string()),
    }
    if !wish.sources.is_empty() {
        let all: Vec<String> = wish.sources.iter().map(IpAddr::to_string).collect();
        parts.push(format!("from {}", all.join(", ")));
    }
    if let Some((first, last)) = wish.ports {
        parts.push(format!("ports {first}-{last}"));
    }
    if let Some(proxy) = wish.proxy.as_ref().filter(|_| uses_proxy(config)) {
        parts.push(format!("through {}", proxy.origin()));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Connections, Exempt, parse_url};

    fn config(urls: &[&str], connections: Connections) -> Config {
        Config {
            urls: urls.iter().map(|url| parse_url(url).unwrap()).collect(),
            connections,
            ..Config::default()
        }
    }

    #[test]
    fn ports_are_counted_by_source_and_by_whom_connections_go_to() {
        let first = runtime::port_range().0;
        let wish = |sources: &[&str]| Connections {
            sources: sources.iter().map(|text| text.parse().unwrap()).collect(),
            ports: Some((first, first + 199)),
            ..Connections::default()
        };
        let one = config(&["127.0.0.1:1"], wish(&["127.0.0.1"]));
        let error = check(&one, 300).unwrap_err();
        assert!(
            error.contains("there are 200 (--local-port-range"),
            "{error}"
        );
        assert!(error.contains("--source-ip"), "{error}");
        assert!(check(&one, 200).is_ok());
        let two = config(&["127.0.0.1:1"], wish(&["127.0.0.1", "127.0.0.2"]));
        assert!(check(&two, 400).is_ok() && check(&two, 401).is_err());
        let urls = ["127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:2"];
        let shared = config(&urls, wish(&[]));
        assert!(check(&shared, 300).is_ok() && check(&shared, 301).is_err());
        let proxy = Some(Proxy::parse("http://127.0.0.1:9").unwrap());
        let through = config(&urls, Connections { proxy, ..wish(&[]) });
        assert!(check(&through, 200).is_ok() && check(&through, 201).is_err());
    }

    #[test]
    fn a_source_of_the_other_family_and_ports_out_of_range_name_their_flags() {
        let sources = vec!["127.0.0.1".parse().unwrap()];
        let wish = Connections {
            sources,
            ..Connections::default()
        };
        let error = check(&config(&["[::1]:1"], wish.clone()), 1).unwrap_err();
        assert!(error.starts_with("--source-ip: `::1` has IPv6"), "{error}");
        // A name may have addresses of both.
        let url = config(&["localhost:1"], wish);
        let found = resolve(&url, &url.urls[0]).unwrap();
        assert!(found.iter().all(SocketAddr::is_ipv4), "{found:?}");
        let ports = Some((1, 2));
        let wish = Connections {
            ports,
            ..Connections::default()
        };
        let error = check(&config(&["h"], wish), 1).unwrap_err();
        assert!(error.starts_with("--local-port-range 1-2: "), "{error}");
    }

    #[test]
    fn the_proxy_is_asked_for_whatever_it_is_not_exempt_from() {
        let mut proxy = Proxy::parse("http://u:p@p:3128").unwrap();
        proxy.exempt = vec![Exempt::parse("10.0.0.0/8").unwrap()];
        let wish = Connections {
            proxy: Some(proxy),
            ..Connections::default()
        };
        let config = config(
            &["http://[::1]:8000", "https://[::1]:8443", "10.1.2.3"],
            wish,
        );
        let [plain, tls, direct] = &config.urls[..] else {
            panic!("three urls");
        };
        let authorized = |url| {
            let all = headers(&config, url);
            all.iter().any(|(name, _)| name == "Proxy-Authorization")
        };
        assert_eq!(
            request_target(&config, plain, "/v1"),
            "http://[::1]:8000/v1"
        );
        assert!(authorized(plain) && peer(&config, plain) == ("p", 3128));
        assert_eq!(request_target(&config, tls, "/v1"), "/v1");
        assert!(!authorized(tls) && matches!(via(&config, tls), Via::Tunnel(_)));
        assert_eq!(request_target(&config, direct, "/v1"), "/v1");
        assert!(!authorized(direct) && peer(&config, direct) == ("10.1.2.3", 8000));
        assert!(uses_proxy(&config));
    }
}
