//! A client as one writes it today: tokio on one thread, reqwest, a task per stream.

use crate::load::{Load, Measured};
use crate::work::{Account, Stream};
use anyhow::Context;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokenring::base::now;

pub fn run(load: &Load) -> anyhow::Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work(load))
}

async fn work(load: &Load) -> anyhow::Result<Measured> {
    let client = reqwest::Client::builder()
        .tcp_nodelay(true)
        .pool_max_idle_per_host(load.streams)
        .build()?;
    connect(&client, load).await?;
    let account = Rc::new(RefCell::new(Account::start()));
    let left = Rc::new(Cell::new(load.requests));
    let url = format!("http://{}/v1/chat/completions", load.addr);
    let body = load.body();
    let mut tasks = Vec::new();
    for _ in 0..load.streams {
        let (client, url, body) = (client.clone(), url.clone(), body.clone());
        let (account, left) = (account.clone(), left.clone());
        tasks.push(tokio::task::spawn_local(async move {
            let mut stream = Stream::new();
            while left.get() > 0 {
                left.set(left.get() - 1);
                let request = client
                    .post(&url)
                    .header("content-type", "application/json")
                    .header("accept", "text/event-stream")
                    .body(body.clone());
                let mut response = request.send().await?;
                while let Some(bytes) = response.chunk().await? {
                    let at = now();
                    stream.take(&bytes, at, &mut account.borrow_mut());
                }
                stream.renew();
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let measured = account.borrow().finish();
    Ok(measured)
}

/// Opens the connections before the clock starts, as tokenring does.
async fn connect(client: &reqwest::Client, load: &Load) -> anyhow::Result<()> {
    let url = format!("http://{}/health", load.addr);
    let mut open = Vec::new();
    for _ in 0..load.streams {
        // Its body is not read yet, so the connection cannot serve the next one.
        let response = client.get(&url).send().await.context("connecting")?;
        open.push(response);
    }
    for response in open {
        response.bytes().await?;
    }
    Ok(())
}
