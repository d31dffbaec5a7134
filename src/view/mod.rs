//! Progress on a terminal or in a pipe.
