//! The binary: run the command line, map its outcome to an exit code.

use std::process::ExitCode;
use tokenring::base::now;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tokenring::cli::main(std::env::args_os(), now()).into()
}
