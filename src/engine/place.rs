//! The place of the next request in a run, packed into one number that cores compare and swap.

/// Bits of a ticket that number the phase, the next session and the next request. Where each
/// session has one request, both are one number.
const PART_BITS: u32 = 6;
const SESSION_BITS: u32 = 29;
const INDEX_BITS: u32 = 29;

/// The next request: its phase, its number and its session's in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub part: usize,
    pub session: u64,
    pub index: u64,
}

impl Place {
    /// `turns` is true where sessions may have several requests.
    pub fn unpack(ticket: u64, turns: bool) -> Place {
        let part = usize::try_from(ticket >> (64 - PART_BITS)).unwrap_or(0);
        let low = |bits: u32| ticket & ((1 << bits) - 1);
        match turns {
            true => Place {
                part,
                session: (ticket >> INDEX_BITS) & ((1 << SESSION_BITS) - 1),
                index: low(INDEX_BITS),
            },
            false => Place {
                part,
                session: low(64 - PART_BITS),
                index: low(64 - PART_BITS),
            },
        }
    }

    pub fn pack(self, turns: bool) -> u64 {
        let session = match turns {
            true => self.session << INDEX_BITS,
            false => 0,
        };
        (self.part as u64) << (64 - PART_BITS) | session | self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_out_as_it_went_in() {
        let place = |part, session, index| Place {
            part,
            session,
            index,
        };
        let far = (1 << 29) - 1;
        for place in [place(0, 0, 0), place(63, far, far), place(5, 3, 17)] {
            assert_eq!(Place::unpack(place.pack(true), true), place);
        }
        let far = (1 << 58) - 1;
        for place in [place(0, 0, 0), place(63, far, far)] {
            assert_eq!(Place::unpack(place.pack(false), false), place);
        }
    }
}
