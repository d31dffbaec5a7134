//! HTTP/1.1: codec (bytes in, parts out, no I/O), one connection, and the pool of a core.
