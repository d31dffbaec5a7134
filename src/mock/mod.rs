//! The bundled mock server.
