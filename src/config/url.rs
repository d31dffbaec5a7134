//! Targets: `host`, `host:port`, with or without scheme, base path and query.

use super::Url;
use std::net::Ipv6Addr;

/// Reads a target. Errors are fragments that say what is wrong with it.
pub fn parse_url(text: &str) -> Result<Url, String> {
    // `::1` has no port, and needs no brackets.
    let bare = text.trim().parse::<Ipv6Addr>();
    let text = bare.map_or_else(|_| text.trim().into(), |address| format!("[{address}]"));
    let (text, zone) = split_zone(text)?;
    let rest = text.split_once("://").map_or(&*text, |(_, rest)| rest);
    if rest.is_empty() || rest.starts_with(['/', ':', '?']) {
        return Err("it has no host; give host:port".into());
    }
    let full = if text.contains("://") {
        text.clone()
    } else {
        format!("http://{text}")
    };
    let parsed = url::Url::parse(&full).map_err(|error| match error {
        url::ParseError::EmptyHost => "it has no host; give host:port".to_string(),
        error => error.to_string(),
    })?;
    let tls = match parsed.scheme() {
        "http" => false,
        "https" => true,
        other => return Err(format!("scheme `{other}` is not spoken; use http or https")),
    };
    // `host_str` keeps the brackets of an IPv6 literal; `host` knows the address.
    let host = match parsed.host() {
        Some(url::Host::Domain(name)) if !name.is_empty() => name.to_string(),
        Some(url::Host::Ipv4(address)) => address.to_string(),
        Some(url::Host::Ipv6(address)) => format!("{address}{zone}"),
        _ => return Err("it has no host; give host:port".into()),
    };
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("a name and password in it are not sent; use --header or --api-key".into());
    }
    if parsed.port() == Some(0) {
        return Err("port 0 cannot be connected to".into());
    }
    if parsed.fragment().is_some() {
        return Err("a fragment (#...) means nothing to a server; leave it out".into());
    }
    // The peers' default port is 8000, but a url with a scheme means the scheme's own. The parser
    // drops http's own port, which is no default here.
    let says_80 = text
        .split(['/', '?'])
        .next()
        .is_some_and(|host| host.ends_with(":80"));
    let port = match (parsed.port(), text.contains("://"), tls) {
        (Some(port), ..) => port,
        (None, false, _) if says_80 => 80,
        (None, false, _) => 8000,
        (None, true, true) => 443,
        (None, true, false) => 80,
    };
    let query = parsed
        .query()
        .map_or(String::new(), |query| format!("?{query}"));
    Ok(Url {
        tls,
        host,
        port,
        base: parsed.path().trim_end_matches('/').to_string(),
        query,
    })
}

/// A text without the zone of its address, and that zone with its `%`: `[fe80::1%25eth0]`
/// (RFC 6874) or `[fe80::1%eth0]`. The parser of urls knows none.
fn split_zone(text: String) -> Result<(String, String), String> {
    let begin = text.find("://").map_or(0, |at| at + 3);
    let host = text[begin..].strip_prefix('[');
    let host = host.and_then(|rest| rest.split(']').next());
    let Some((address, zone)) = host.and_then(|host| host.split_once('%')) else {
        return Ok((text, String::new()));
    };
    let rest = &text[begin + 1 + address.len() + 1 + zone.len()..];
    let zone = zone.strip_prefix("25").unwrap_or(zone);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-~".contains(c);
    match zone.is_empty() || !zone.chars().all(is_plain) {
        true => Err("its zone is no interface's name; give [fe80::1%25eth0]".into()),
        false => Ok((
            format!("{}[{address}{rest}", &text[..begin]),
            format!("%{zone}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (String, String, String) {
        let url = parse_url(text).unwrap();
        (url.origin(), url.authority(), url.query)
    }

    #[test]
    fn targets_may_be_short_or_whole() {
        let three = |a: &str, b: &str, c: &str| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(
            of("localhost:8001"),
            three("http://localhost:8001", "localhost:8001", "")
        );
        assert_eq!(of("gpu7"), three("http://gpu7:8000", "gpu7:8000", ""));
        assert_eq!(of("gpu7:80/v1"), three("http://gpu7:80/v1", "gpu7:80", ""));
        assert_eq!(
            of("https://h/base/v1/?a=b"),
            three("https://h:443/base/v1", "h:443", "?a=b")
        );
        assert_eq!(
            of("http://[::1]:8000"),
            three("http://[::1]:8000", "[::1]:8000", "")
        );
        for text in ["::1", "[::1]", " [::1]:8000 "] {
            assert_eq!(of(text), three("http://[::1]:8000", "[::1]:8000", ""));
        }
        assert_eq!(
            of("https://[fe80::2]/v1"),
            three("https://[fe80::2]:443/v1", "[fe80::2]:443", "")
        );
    }

    #[test]
    fn a_zone_is_for_the_resolver_and_nobody_else() {
        let url = parse_url("http://h/p?a=[b%20c]").unwrap();
        assert_eq!(url.query, "?a=[b%20c]");
        for text in ["http://[fe80::1%25eth0]:8000", "[fe80::1%eth0]:8000"] {
            let url = parse_url(text).unwrap();
            assert_eq!(url.host, "fe80::1%eth0");
            assert_eq!(url.name(), "fe80::1");
            assert_eq!(url.authority(), "[fe80::1]:8000");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for text in [
            "http://",
            "http://:80",
            "ftp://h",
            "h:99999",
            "",
            "http://h#x",
            ":::1",
            "::1/v1",
            "[fe80::1%25]:8000",
            "[fe80::1%a/b]",
        ] {
            assert!(parse_url(text).is_err(), "{text}");
        }
    }
}
