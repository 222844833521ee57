//! Time passes: windows that have ended are published, and what no window needs any more is forgotten.

use super::windows::{END, Windows};

impl Windows {
    /// Publish the windows that end until `upto`, in order of time.
    pub(super) fn pass(&mut self, upto: i64) {
        if upto <= self.upto {
            return;
        }
        let (plan, longest) = (&self.plan, self.plan.longest);
        let mut end = plan.end(self.upto.saturating_add(1));
        while let Some(first) = self.panes.first_after(end - longest).filter(|_| end <= upto) {
            if first > end {
                end = plan.end(first); // all windows until there are empty
                continue;
            }
            for sliding in &mut self.sliding {
                sliding.resume(plan, end, &self.panes, &self.lanes);
                sliding.publish(plan, &mut self.results);
            }
            self.panes.drop_until(end - longest);
            end += plan.every;
        }
        self.upto = upto;
        let last = plan.end(upto.saturating_add(1)) - plan.every;
        if self.panes.first_after(i64::MIN).is_some_and(|first| first <= last - longest) {
            for sliding in &mut self.sliding {
                sliding.resume(plan, last, &self.panes, &self.lanes);
            }
            self.panes.drop_until(last - longest);
        }
    }

    /// Forget what no window needs any more; now and then, since each key is looked at. `forget`: a lane that holds nothing,
    /// whose number may be given to another key.
    pub fn purge<E>(&mut self, r#final: i64, mut forget: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        if r#final <= self.swept || (r#final != END && r#final - self.swept < self.plan.longest / 4) {
            return Ok(());
        }
        self.swept = r#final;
        let (last, width) = (self.plan.end(r#final + 1) - self.plan.longest, self.plan.width());
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            self.held -= lane.drop_until(last, width);
            if lane.len(width) == 0 && !lane.is_free && self.sliding.iter().all(|each| each.counts[number] == 0) {
                lane.is_free = true;
                forget(number)?;
                self.free.push(number);
            }
        }
        Ok(())
    }
}
