//! The same loop for quantities: every round of every probe, with a look at the host before and during each.
//!
//! The invariant is that of cells: whatever happens, what was measured is returned, and a probe that fails takes no other
//! with it.

use std::time::Duration;

use super::{Bench, News, WINDOW, one_line};
use crate::compare::quantity::{Lack, Probe, Take};
use crate::compare::study::Ending;
use crate::compare::world::Missing;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// In the order in which they were measured.
    pub(crate) takes: Vec<Take>,
    /// In the order in which they failed.
    pub(crate) lacks: Vec<Lack>,
    /// How it ended.
    pub(crate) ending: Ending,
}

impl Bench<'_> {
    /// Measures each of `probes` in `rounds` rounds, with measurements of about `duration`.
    pub(crate) fn take(&mut self, probes: &[Probe], rounds: u16, duration: Duration) -> Taken {
        let mut taken = Taken::default();
        for &probe in probes {
            let Err(missing) = self.take_one(probe, rounds, duration, &mut taken) else { continue };
            let (error, is_absent) = match missing {
                Missing::Absent(error) => (error, true),
                Missing::Failed(error) => (error, false),
            };
            let reason = one_line(&error);
            (self.tell)(&News::Lacks(probe, &reason));
            let lack = |quantity| Lack { quantity, reason: reason.clone(), is_absent };
            taken.lacks.extend(probe.quantities().map(lack));
        }
        taken
    }

    fn take_one(
        &mut self,
        probe: Probe,
        rounds: u16,
        duration: Duration,
        taken: &mut Taken,
    ) -> Result<(), Missing> {
        if self.must_stop(taken) {
            return Ok(());
        }
        let mut session = self.world.open(probe, duration)?;
        for round in 0..rounds {
            if self.must_stop(taken) {
                return Ok(());
            }
            (self.tell)(&News::Probes(probe, round));
            let (found, interference) = self.watched(WINDOW.1, |world| session.round(world, round));
            if found.is_err() && self.must_stop(taken) {
                return Ok(());
            }
            let found = found?;
            taken.takes.extend(found.into_iter().map(|take| Take { round, interference, ..take }));
        }
        Ok(())
    }

    fn must_stop(&self, taken: &mut Taken) -> bool {
        let stops = (self.stop)();
        if stops {
            taken.ending = Ending::Interrupted;
        }
        stops
    }
}
