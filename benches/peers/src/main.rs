//! Question: what does an event cost tokenring beside two other ways to receive it, and how true is
//! its time? Units: ns of a worker's CPU per event, us of error against the mock's stamps.
//!
//! `compare` runs pairs: tokenring, tokenring without batching, a tokio and reqwest client, and a
//! bare epoll loop, one after the other against the same mock, all on one core, the mock on
//! another. `busy` raises the load until the core is full. See docs/performance.md.

mod epoll;
mod load;
mod reqwest_client;
mod run;
mod steer;
mod work;

use clap::Parser;
use load::Load;

#[derive(Parser)]
#[command(about = "tokenring beside a tokio client and a bare epoll loop")]
enum Command {
    /// One peer's client, once; prints a JSON line. `compare` calls it.
    Client {
        /// `reqwest` or `epoll`.
        kind: Kind,
        #[command(flatten)]
        load: Load,
    },
    /// All clients in turn, several times; prints a table, the ratios, and whether the goals hold.
    Compare(run::Compare),
    /// tokenring alone, with more and more streams.
    Busy(run::Busy),
    /// How many events per second the mock sends, beside another mock's command.
    Mocks(run::Mocks),
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Reqwest,
    Epoll,
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Client { kind, load } => {
            load.pin()?;
            let measured = match kind {
                Kind::Reqwest => reqwest_client::run(&load)?,
                Kind::Epoll => epoll::run(&load)?,
            };
            println!("{}", serde_json::to_string(&measured)?);
            Ok(())
        }
        Command::Compare(compare) => compare.run(),
        Command::Busy(busy) => busy.run(),
        Command::Mocks(mocks) => mocks.run(),
    }
}
