//! The pattern of a query: its steps, its negations, and the schedule of its conditions.

/// The conditions (by number) to check when a place is bound, and for Kleene steps event by event.
pub struct Schedule {
    pub at: Vec<Vec<usize>>,
    pub stepwise: Vec<Vec<usize>>,
}

pub struct Component {
    pub slot: usize,
    /// Among the positive components; for a negated one, how many positive ones stand before it.
    pub place: usize,
    pub kleene: bool,
    /// The number of a negated component among the negated ones.
    pub negation: Option<usize>,
    /// Whether its events belong to the partition of a key, not to all.
    pub is_keyed: bool,
    /// For a negated one: what makes an event rule a match out.
    pub conditions: Vec<usize>,
}

pub struct Pattern {
    /// The slots of the positive components, and of the negated ones.
    pub steps: Vec<usize>,
    pub negations: Vec<usize>,
    pub components: Vec<Component>,
    /// For each place whose event is given; the last one for when none is.
    pub schedules: Vec<Schedule>,
    pub within: i64,
    pub reach: i64,
    /// Whether negation stands at the end, so that matches wait for their window to pass.
    pub trails: bool,
    /// Whether there are Kleene steps.
    pub has_groups: bool,
}

impl Pattern {
    pub fn new(components: Vec<Component>, schedules: Vec<Schedule>, within: i64, reach: i64, trails: bool) -> Self {
        let slots =
            |negated: bool| components.iter().filter(|each| each.negation.is_some() == negated).map(|each| each.slot).collect();
        Self {
            steps: slots(false),
            negations: slots(true),
            has_groups: components.iter().any(|each| each.kleene),
            components,
            schedules,
            within,
            reach,
            trails,
        }
    }

    /// The component of a positive place.
    #[inline]
    pub fn step(&self, place: usize) -> &Component {
        &self.components[self.steps[place]]
    }
}
