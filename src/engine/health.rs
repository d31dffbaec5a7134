//! What the kernel tells of a connection: round trips, losses.

use crate::runtime::TcpInfo;
use crate::stats::CoreRecorder;

/// The losses of one connection that have been noted.
#[derive(Debug, Default)]
pub(super) struct Health {
    retransmits: u32,
    reordered: u32,
}

impl Health {
    /// Notes the state at the end of a request: losses since the last time, the round trip now.
    pub fn note(&mut self, info: TcpInfo, recorder: &mut CoreRecorder) {
        let more = |seen: &mut u32, count: u32| {
            u64::from(count.saturating_sub(std::mem::replace(seen, count)))
        };
        recorder.retransmits += more(&mut self.retransmits, info.retransmits);
        if let Some(count) = info.reordered {
            recorder.reordered += more(&mut self.reordered, count);
        }
        recorder.rtt.record(info.rtt.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Ns;

    #[test]
    fn a_loss_is_counted_once() {
        let mut recorder = CoreRecorder::default();
        let mut health = Health::default();
        for (retransmits, reordered) in [(0, None), (2, Some(1)), (2, Some(4)), (3, Some(4))] {
            let info = TcpInfo {
                rtt: Ns(50_000),
                retransmits,
                reordered,
                data_segments_in: None,
            };
            health.note(info, &mut recorder);
        }
        assert_eq!((recorder.retransmits, recorder.reordered), (3, 4));
        assert_eq!(recorder.rtt.count(), 4);
    }
}
