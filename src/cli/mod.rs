//! The command line: clap types, one file per subcommand.
