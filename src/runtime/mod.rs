//! The façade over monoio and io_uring.
