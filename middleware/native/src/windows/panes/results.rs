//! New results in columns.

use super::aggregate::Value;
use super::identity::Bounds;

/// The memory of more results than this is not kept.
const MOST: usize = 1 << 17;

/// A column of values, with a byte for each that says whether there is one.
pub struct Cells {
    pub values: Values,
    pub there: Vec<u8>,
    /// Whole numbers beyond 64 bits, and their places.
    beyond: Vec<(usize, i128)>,
}

pub enum Values {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

impl Cells {
    fn new(is_float: bool) -> Self {
        let values = if is_float { Values::Floats(Vec::new()) } else { Values::Integers(Vec::new()) };
        Self { values, there: Vec::new(), beyond: Vec::new() }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Floats(values) => values.clear(),
            Values::Integers(values) => values.clear(),
        }
        self.there.clear();
        self.beyond.clear();
    }

    /// Add values, all of the kind that the column has.
    #[inline]
    pub fn extend(&mut self, given: impl Iterator<Item = Value>) {
        let there = &mut self.there;
        let mut note = |value: &Value| there.push(u8::from(!matches!(value, Value::Nothing)));
        match &mut self.values {
            Values::Floats(values) => values.extend(given.inspect(&mut note).map(|value| match value {
                Value::Float(value) => value,
                _ => 0.0,
            })),
            Values::Integers(values) => {
                for (place, value) in (values.len()..).zip(given.inspect(note)) {
                    let Value::Int(whole) = value else {
                        values.push(0);
                        continue;
                    };
                    values.push(i64::try_from(whole).unwrap_or_default());
                    if value.is_beyond() {
                        self.beyond.push((place, whole));
                    }
                }
            }
        }
    }

    fn get(&self, place: usize) -> Value {
        match &self.values {
            _ if self.there[place] == 0 => Value::Nothing,
            Values::Floats(values) => Value::Float(values[place]),
            Values::Integers(values) => {
                let beyond = self.beyond.iter().find(|(at, _)| *at == place);
                Value::Int(beyond.map_or(i128::from(values[place]), |(_, value)| *value))
            }
        }
    }
}

/// New results, in order of time.
pub struct Results {
    pub lanes: Vec<u32>,
    pub starts: Vec<i64>,
    pub ends: Vec<i64>,
    /// Only once they are asked for; here for its memory.
    pub ids: Vec<i64>,
    pub cells: Vec<Cells>,
}

impl Results {
    /// `floats`: for each aggregate whether it gives floats.
    pub fn new(floats: impl Iterator<Item = bool>) -> Self {
        let cells = floats.map(Cells::new).collect();
        Self { lanes: Vec::new(), starts: Vec::new(), ends: Vec::new(), ids: Vec::new(), cells }
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether a whole number among them is beyond 64 bits.
    pub fn is_beyond(&self) -> bool {
        self.cells.iter().any(|cells| !cells.beyond.is_empty())
    }

    pub fn clear(&mut self) {
        if self.len() > MOST {
            *self = Self::new(self.cells.iter().map(|cells| matches!(cells.values, Values::Floats(_))));
        }
        self.lanes.clear();
        self.starts.clear();
        self.ends.clear();
        self.cells.iter_mut().for_each(Cells::clear);
    }

    /// Add the result of a window.
    pub fn push(&mut self, lane: usize, window: (i64, i64), values: &[Value]) {
        self.open(std::iter::once(lane), window);
        for (cells, &value) in self.cells.iter_mut().zip(values) {
            cells.extend(std::iter::once(value));
        }
    }

    /// Add lanes that have results in a window, whose values are to be added: gives the lanes, and where the values belong.
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 keys")]
    pub fn open(&mut self, lanes: impl Iterator<Item = usize>, (start, end): (i64, i64)) -> (&[u32], &mut [Cells]) {
        let first = self.len();
        self.lanes.extend(lanes.map(|lane| lane as u32));
        self.starts.resize(self.lanes.len(), start);
        self.ends.resize(self.lanes.len(), end);
        (&self.lanes[first..], &mut self.cells)
    }

    /// A result: its lane, its window, and its values.
    pub fn get<'a>(&'a self, place: usize) -> (usize, (i64, i64), impl Iterator<Item = Value> + 'a) {
        let values = self.cells.iter().map(move |cells| cells.get(place));
        (self.lanes[place] as usize, (self.starts[place], self.ends[place]), values)
    }

    /// The identity of each; `id_of`: that of a lane's window.
    ///
    /// They are hashed here and not one by one between other work: a hash reads what was just written in other pieces, and
    /// waits until all that is to be stored before has been.
    pub fn identify(&mut self, id_of: impl Fn(usize, &Bounds) -> i64) -> &[i64] {
        let mut windows = self.starts.iter().copied().zip(self.ends.iter().copied()).peekable();
        self.ids.clear();
        if let Some(&first) = windows.peek() {
            let (mut bounds, mut shared) = (Bounds::new(first), first);
            self.ids.extend(self.lanes.iter().zip(windows).map(|(&lane, window)| {
                if window != shared {
                    (bounds, shared) = (Bounds::new(window), window);
                }
                id_of(lane as usize, &bounds)
            }));
        }
        &self.ids
    }
}
