//! How connections are made, kept, and led through a proxy.

use super::{ConfigError, count, no};
use crate::base::Ns;
use crate::config::connections::{Connections, Exempt, Proxy, Reuse};
use crate::config::draft::Many;
use crate::config::{Config, Draft, hide_target};
use std::net::IpAddr;

/// Bytes of a socket's buffer at most: what the kernel takes for one.
const BUFFER_MAX: i64 = 1 << 30;
/// Seconds that the kernel takes for a keep-alive.
const KEEPALIVE_MAX: f64 = 32_767.0;
/// Longest `TCP_USER_TIMEOUT`: a day.
const USER_TIMEOUT_MAX: f64 = 86_400.0;

impl Draft {
    pub(super) fn connections(&self, config: &mut Config) -> Result<(), ConfigError> {
        let bytes = |flag, given| {
            let bytes = count(flag, given, 1, BUFFER_MAX)?;
            Ok(bytes.and_then(|n| u32::try_from(n).ok()))
        };
        config.connections = Connections {
            reuse: reuse(self)?,
            keepalive: span("tcp-keepalive", self.tcp_keepalive, 1.0, KEEPALIVE_MAX)?,
            recv_buffer: bytes("tcp-recv-buffer", self.tcp_recv_buffer)?,
            send_buffer: bytes("tcp-send-buffer", self.tcp_send_buffer)?,
            user_timeout: span(
                "tcp-user-timeout",
                self.tcp_user_timeout,
                0.001,
                USER_TIMEOUT_MAX,
            )?,
            sources: sources(self)?,
            ports: ports(self)?,
            proxy: proxy(self)?,
        };
        if config.demo && config.connections.proxy.is_some() {
            return no("demo", "its server is on this machine; leave --proxy out");
        }
        Ok(())
    }
}

fn reuse(draft: &Draft) -> Result<Reuse, ConfigError> {
    match draft.connection_reuse_strategy.as_deref() {
        None | Some("pooled") => Ok(Reuse::Pooled),
        Some("never") => Ok(Reuse::Never),
        Some("sticky-user-sessions") => Ok(Reuse::Sticky),
        Some(other) => no(
            "connection-reuse-strategy",
            format!("`{other}` is unknown; give pooled, never or sticky-user-sessions"),
        ),
    }
}

/// A time in steps of the least that it may be.
fn span(
    flag: &'static str,
    given: Option<f64>,
    least: f64,
    most: f64,
) -> Result<Option<Ns>, ConfigError> {
    match given {
        None => Ok(None),
        Some(value) if (least..=most).contains(&value) => {
            let step = Ns::from_secs_f64(least).0;
            let span = Ns::from_secs_f64(value);
            match span.0.is_multiple_of(step) {
                true => Ok(Some(span)),
                false => no(flag, format!("{value:?} is no multiple of {least} seconds")),
            }
        }
        Some(value) => no(
            flag,
            format!("{value:?} is out of range; give {least} to {most} seconds"),
        ),
    }
}

/// The parts of lists that may be given several times, by commas, or both.
fn parts(given: Option<&Many>) -> Vec<String> {
    let all = given.map(Many::list).unwrap_or_default();
    let parts = all.iter().flat_map(|text| text.split([',', ' ']));
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.map(String::from).collect()
}

fn sources(draft: &Draft) -> Result<Vec<IpAddr>, ConfigError> {
    let mut all: Vec<IpAddr> = Vec::new();
    for part in parts(draft.source_ip.as_ref()) {
        match part.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) if address.is_unspecified() => {
                let text = format!("`{part}` is no single address; give those of this machine");
                return no("source-ip", text);
            }
            Ok(address) if all.contains(&address) => {
                return no(
                    "source-ip",
                    format!("`{part}` is given twice; once is enough"),
                );
            }
            Ok(address) => all.push(address),
            Err(_) => {
                let text = format!("`{part}` is no IP address; give one of this machine's");
                return no("source-ip", text);
            }
        }
    }
    match (all.is_empty(), &draft.source_ip) {
        (true, Some(_)) => no("source-ip", "it is empty; give an address or leave it out"),
        _ => Ok(all),
    }
}

fn ports(draft: &Draft) -> Result<Option<(u16, u16)>, ConfigError> {
    let Some(text) = draft.local_port_range.as_deref() else {
        return Ok(None);
    };
    let ends = text.split_once('-');
    let ends = ends.map(|(first, last)| (first.trim().parse(), last.trim().parse()));
    match ends {
        Some((Ok(first), Ok(last))) if 0 < first && first <= last => Ok(Some((first, last))),
        _ => no(
            "local-port-range",
            format!("`{text}` is no range; give FIRST-LAST as in 40000-40999"),
        ),
    }
}

fn proxy(draft: &Draft) -> Result<Option<Proxy>, ConfigError> {
    let Some(text) = draft.proxy.as_deref() else {
        return match draft.no_proxy {
            Some(_) => no("no-proxy", "it needs --proxy; without one there is none"),
            None => Ok(None),
        };
    };
    let mut proxy = match Proxy::parse(text) {
        Ok(proxy) => proxy,
        Err(reason) => {
            let shown = hide_target(text, &mut Vec::new());
            return no("proxy", format!("`{shown}`: {reason}"));
        }
    };
    for part in parts(draft.no_proxy.as_ref()) {
        match Exempt::parse(&part) {
            Ok(rule) => proxy.exempt.push(rule),
            Err(reason) => return no("no-proxy", format!("`{part}` (or in NO_PROXY): {reason}")),
        }
    }
    Ok(Some(proxy))
}
