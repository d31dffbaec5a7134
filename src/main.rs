//! The binary: parse, call the library, map the outcome to an exit code.
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::SUCCESS
}
