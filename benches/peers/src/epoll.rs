//! A bare epoll loop: one read per ready socket, times taken in user space after it.

use crate::load::{Load, Measured};
use crate::work::{Account, Stream};
use anyhow::Context;
use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use tokenring::base::now;
use tokenring::http::codec::{Piece, ResponseDecoder};

/// One connection.
struct Line {
    socket: TcpStream,
    codec: ResponseDecoder,
    stream: Stream,
}

pub fn run(load: &Load) -> anyhow::Result<Measured> {
    let body = load.body();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         accept: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        load.addr,
        body.len()
    );
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut lines = Vec::with_capacity(load.streams);
    for index in 0..load.streams {
        let socket = TcpStream::connect(load.addr).context("connecting")?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&poll, &socket, data, epoll::EventFlags::IN)?;
        lines.push(Line {
            socket,
            codec: ResponseDecoder::new(),
            stream: Stream::new(),
        });
    }
    let mut account = Account::start();
    let mut sent = 0;
    for line in lines.iter_mut().take(load.requests) {
        line.socket.write_all(request.as_bytes())?;
        sent += 1;
    }
    let mut done = 0;
    let mut buffer = vec![0; 1 << 16];
    let mut ready = Vec::with_capacity(1_024);
    while done < load.requests {
        ready.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut ready), None)?;
        for event in &ready {
            let line = &mut lines[usize::try_from(event.data.u64())?];
            let count = match line.socket.read(&mut buffer) {
                Ok(0) => anyhow::bail!("the mock closed a connection"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            let at = now();
            let Line {
                socket,
                codec,
                stream,
            } = line;
            let fed = codec.feed(&buffer[..count], &mut |piece| {
                if let Piece::Body(bytes) = piece {
                    stream.take(bytes, at, &mut account);
                }
            })?;
            if fed.done {
                done += 1;
                codec.reset();
                stream.renew();
                if sent < load.requests {
                    socket.write_all(request.as_bytes())?;
                    sent += 1;
                }
            }
        }
    }
    Ok(account.finish())
}
