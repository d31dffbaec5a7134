//! What the targets share.

use tokenring::http::codec::{Piece, ResponseDecoder};

/// Status, body, and whether the response ended; `None` when it is refused.
pub fn read(reads: &[&[u8]]) -> Option<(u16, Vec<u8>, bool)> {
    let mut codec = ResponseDecoder::new();
    let (mut status, mut body, mut is_done) = (0, Vec::new(), false);
    for bytes in reads {
        let fed = codec.feed(bytes, &mut |piece| match piece {
            Piece::Head(head) => status = head.status,
            Piece::Body(part) => body.extend_from_slice(part),
        });
        is_done = fed.ok()?.done;
    }
    Some((status, body, is_done))
}
