//! Lines on stderr and data on stdout, for all rooms: `println!` and `eprintln!` panic when nobody
//! listens or the disk is full, and no output is worth a run. The linter forbids them elsewhere.

use crate::base::printable;
use std::io::{self, Write};

/// Writes a line to stderr; whoever said what is in it, it steers no terminal. Whatever becomes of
/// it, the run goes on.
pub fn tell(line: &str) {
    let mut text = printable(line).into_owned();
    text.push('\n');
    // One write, so that lines of two programs do not mix; there is nowhere to tell a failure.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes data to stdout as it is, to its last byte; a text has passed [`printable`] before.
/// Errors: the data is lost, `>/dev/full` for one; a reader that has closed its pipe early
/// (`| head -1`) has what it wanted, and is none.
pub fn show(data: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(data).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
