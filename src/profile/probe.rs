//! One exchange before the run: is there a server, does it have the model, does it take the body?

use crate::base::{Ns, now, one_line};
use crate::endpoint;
use crate::engine::Target;
use crate::http::codec::Piece;
use crate::http::{Conn, ConnError, Secured, TunnelError};
use crate::runtime::Dial;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes of an answer that a probe reads.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// A limit was reached.
const LATE: &str = "no answer in time";

/// What to do about a proxy that says 407.
const PROXY_HINT: &str = "the proxy wants a user and a password: give \
                          --proxy http://user:password@host:port";

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body, capped.
    pub body: String,
}

/// How long an exchange may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// TCP and TLS together.
    pub connect: Ns,
    /// All of it.
    pub whole: Ns,
}

/// Sends `request` on a connection of its own and reads the whole answer; one that has begun well
/// and goes on past the limit is an answer too.
pub fn exchange(
    target: &Target,
    dial: &Dial,
    request: &[u8],
    limits: Limits,
) -> Result<Answer, String> {
    let addr = *target.addrs.first().ok_or("the host is not found")?;
    let begun = now();
    let (connected_by, deadline) = (begun + limits.connect, begun + limits.whole);
    let socket = dial.connect(addr, 0, rest(connected_by));
    let mut socket = socket.map_err(|e| e.to_string())?;
    let mut conn = Conn::new(target.tls.as_ref(), &target.via).map_err(|e| e.to_string())?;
    let mut buffer = vec![0u8; 16 * 1024];
    while conn.secured() == Secured::Handshaking {
        flush(&mut conn, &mut socket, connected_by)?;
        let count = read(&mut socket, &mut buffer, connected_by)?;
        if count == 0 {
            return Err(match conn.is_opening() {
                true => "the proxy closed the connection without an answer to CONNECT".into(),
                false => "the server closed the connection during the TLS handshake".into(),
            });
        }
        conn.receive_idle(&buffer[..count])
            .map_err(|error| with_hint(&error))?;
    }
    conn.begin();
    conn.queue(request).map_err(|e| e.to_string())?;
    flush(&mut conn, &mut socket, deadline)?;
    let mut answer = Answer {
        status: 0,
        body: String::new(),
    };
    let mut body = Vec::new();
    loop {
        let count = match read(&mut socket, &mut buffer, deadline) {
            Err(_) if (200..300).contains(&answer.status) && now() >= deadline => break,
            result => result?,
        };
        if count == 0 {
            conn.finish().map_err(|e| e.to_string())?;
            break;
        }
        let fed = conn.receive(&buffer[..count], &mut |piece| match piece {
            Piece::Head(head) => answer.status = head.status,
            Piece::Body(bytes) => {
                let room = ANSWER_BYTES_MAX.saturating_sub(body.len());
                body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        });
        if fed.map_err(|e| e.to_string())?.done {
            break;
        }
    }
    answer.body = String::from_utf8_lossy(&body).into_owned();
    Ok(answer)
}

/// An error, and what to do where it is a proxy's that wants a password.
fn with_hint(error: &ConnError) -> String {
    match error {
        ConnError::Tunnel(TunnelError::Refused { status: 407, .. }) => {
            format!("{error}: {PROXY_HINT}")
        }
        error => error.to_string(),
    }
}

/// What is left until a deadline; never nothing, which a socket takes for no limit.
fn rest(deadline: Ns) -> Duration {
    Duration::from_nanos(deadline.saturating_since(now()).0.max(1_000_000))
}

fn read(socket: &mut TcpStream, buffer: &mut [u8], deadline: Ns) -> Result<usize, String> {
    until(deadline, |rest| {
        socket.set_read_timeout(Some(rest))?;
        socket.read(buffer)
    })
}

fn flush(conn: &mut Conn, socket: &mut TcpStream, deadline: Ns) -> Result<(), String> {
    while !conn.outgoing().is_empty() {
        let count = until(deadline, |rest| {
            socket.set_write_timeout(Some(rest))?;
            socket.write(conn.outgoing())
        })?;
        conn.sent(count);
    }
    Ok(())
}

/// Does what a stop of the process may interrupt, again if need be.
fn until<T>(
    deadline: Ns,
    mut act: impl FnMut(Duration) -> std::io::Result<T>,
) -> Result<T, String> {
    while now() < deadline {
        match act(rest(deadline)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result.map_err(|error| told(&error)),
        }
    }
    Err(LATE.to_string())
}

fn told(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => LATE.to_string(),
        _ => error.to_string(),
    }
}

/// Model names in an answer of `/v1/models`, in order.
pub fn model_names(body: &str) -> Vec<String> {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let list = value["data"].as_array().cloned().unwrap_or_default();
    list.iter()
        .filter_map(|model| model["id"].as_str().map(String::from))
        .collect()
}

/// True for answers that say "not now" and nothing about what was sent.
pub fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}

/// Models for the eye: a server may have very many, and call them as it likes.
pub fn listed(models: &[String]) -> String {
    const SHOWN_MAX: usize = 20;
    let shown = models
        .iter()
        .take(SHOWN_MAX)
        .map(|name| one_line(name, 100));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if models.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", models.len() - SHOWN_MAX));
    }
    text
}

/// Says what a refused probe means and what to do; `None` when the answer is well.
pub fn explain(answer: &Answer, model: &str, models: &[String]) -> Option<String> {
    let excerpt = one_line(&answer.body, 300);
    let hint = match answer.status {
        200..300 => return None,
        401 | 403 => "the server wants another key: give --api-key or OPENAI_API_KEY".to_string(),
        407 => PROXY_HINT.to_string(),
        404 if !models.is_empty() && !models.iter().any(|name| name == model) => {
            format!(
                "the server lists no model `{model}`; it has: {} (-m); or the path is not there \
                 (--endpoint)",
                listed(models)
            )
        }
        404 => "the path is not there: check --url, --endpoint and --endpoint-type".to_string(),
        400 | 422 if answer.body.contains("stream_options") => {
            "the server does not take `stream_options`: try --extra-inputs stream_options:null"
                .to_string()
        }
        400 | 422 if answer.body.contains("max_completion_tokens") => {
            "the server does not take `max_completion_tokens`: try --use-legacy-max-tokens".into()
        }
        status if is_passing(status) => "the run goes on, its failures are counted".to_string(),
        _ => "see the server's answer; --no-preflight goes on without this probe".to_string(),
    };
    Some(format!(
        "the server answered {} to a probe: {hint}\n  {excerpt}",
        answer.status
    ))
}

/// A request without a body, with the run's own headers.
pub fn request(method: &str, path: &str, host: &str, headers: &[(String, String)]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// Where a server lists its models, for a base path.
pub fn models_path(base: &str) -> String {
    endpoint::join(base, "/v1/models")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_to_do() {
        let answer = |status, body: &str| Answer {
            status,
            body: body.into(),
        };
        let models = vec!["a".to_string(), "b".to_string()];
        assert_eq!(explain(&answer(200, ""), "x", &models), None);
        assert!(
            explain(&answer(401, ""), "x", &models)
                .unwrap()
                .contains("--api-key")
        );
        assert!(
            explain(&answer(404, ""), "x", &models)
                .unwrap()
                .contains("it has: a, b")
        );
        assert!(
            explain(&answer(404, ""), "a", &models)
                .unwrap()
                .contains("--endpoint")
        );
        let told = explain(&answer(400, "bad stream_options"), "a", &models).unwrap();
        assert!(told.contains("stream_options:null"));
        let told = explain(&answer(503, "busy"), "a", &models).unwrap();
        assert!(told.contains("goes on") && is_passing(503) && is_passing(429));
        assert!(![400, 401, 404, 302].into_iter().any(is_passing));
    }

    #[test]
    fn what_a_server_says_stays_on_one_line_and_is_not_endless() {
        let answer = Answer {
            status: 500,
            body: "a\x1b[2J\r\nVerdict: VALID\n".repeat(1_000),
        };
        let models = vec!["m\x1b[31m\n".repeat(1_000); 1_000];
        for status in [404, 500] {
            let answer = Answer {
                status,
                ..answer.clone()
            };
            let told = explain(&answer, "x", &models).unwrap();
            assert!(told.len() < 4_000 && told.lines().count() == 2, "{told}");
            assert!(!told.contains(|c: char| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn models_are_listed_in_order() {
        assert_eq!(
            model_names(r#"{"data":[{"id":"m"},{"id":"n"}]}"#),
            ["m", "n"]
        );
        assert!(model_names("<html>").is_empty());
    }
}
