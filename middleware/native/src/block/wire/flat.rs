//! FlatBuffers, written front to back: what points to something is written before it, and filled in when it is there.

/// A field of a table.
#[derive(Clone, Copy)]
pub enum Slot {
    Absent,
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    /// To be filled in with `point`.
    Offset,
}

impl Slot {
    fn size(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Byte(_) => 1,
            Self::Short(_) => 2,
            Self::Int(_) | Self::Offset => 4,
            Self::Long(_) => 8,
        }
    }
}

/// A buffer as it is written; its first table is its root.
pub struct Flat {
    bytes: Vec<u8>,
}

impl Flat {
    /// One with a root, and where the fields of that lie.
    pub fn new(fields: &[Slot]) -> (Self, Vec<usize>) {
        let mut flat = Self { bytes: vec![0; 4] };
        let (root, places) = flat.table(fields);
        flat.point(0, root);
        (flat, places)
    }

    pub fn done(self) -> Vec<u8> {
        self.bytes
    }

    /// Zeros until so many bytes more end at a multiple of `unit`.
    fn align(&mut self, unit: usize, more: usize) {
        let end = (self.bytes.len() + more).next_multiple_of(unit);
        self.bytes.resize(end - more, 0);
    }

    /// Let the offset at `place` point to `target`, which lies behind it.
    pub fn point(&mut self, place: usize, target: usize) {
        let offset = (target - place) as u32;
        self.bytes[place..place + 4].copy_from_slice(&offset.to_le_bytes());
    }

    /// A table: where it lies, and where its fields do.
    pub fn table(&mut self, fields: &[Slot]) -> (usize, Vec<usize>) {
        let head = 4 + 2 * fields.len();
        self.align(8, head);
        let (vtable, table) = (self.bytes.len(), self.bytes.len() + head);
        let (mut end, mut places) = (4_usize, vec![0; fields.len()]);
        for size in [4, 8, 2, 1] {
            for (place, _) in places.iter_mut().zip(fields).filter(|(_, field)| field.size() == size) {
                *place = end.next_multiple_of(size);
                end = *place + size;
            }
        }
        for number in [head, end].iter().chain(&places) {
            self.bytes.extend_from_slice(&(*number as u16).to_le_bytes());
        }
        self.bytes.resize(table + end, 0);
        self.bytes[table..table + 4].copy_from_slice(&((table - vtable) as u32).to_le_bytes());
        for (place, field) in places.iter_mut().zip(fields) {
            *place += table;
            match field {
                Slot::Byte(value) => self.bytes[*place] = *value,
                Slot::Short(value) => self.bytes[*place..*place + 2].copy_from_slice(&value.to_le_bytes()),
                Slot::Int(value) => self.bytes[*place..*place + 4].copy_from_slice(&value.to_le_bytes()),
                Slot::Long(value) => self.bytes[*place..*place + 8].copy_from_slice(&value.to_le_bytes()),
                Slot::Absent | Slot::Offset => {}
            }
        }
        (table, places)
    }

    /// A table that the offset at `place` points to; where its fields lie.
    pub fn child(&mut self, place: usize, fields: &[Slot]) -> Vec<usize> {
        let (table, places) = self.table(fields);
        self.point(place, table);
        places
    }

    /// A vector of so many offsets that the one at `place` points to; where they lie.
    pub fn offsets(&mut self, place: usize, count: usize) -> Vec<usize> {
        self.vector(place, count, 4, 4 * count);
        let start = self.bytes.len() - 4 * count;
        (0..count).map(|at| start + 4 * at).collect()
    }

    /// A vector of pairs of numbers.
    pub fn pairs(&mut self, place: usize, pairs: &[(i64, i64)]) {
        self.vector(place, pairs.len(), 8, 0);
        for (first, second) in pairs {
            self.bytes.extend_from_slice(&first.to_le_bytes());
            self.bytes.extend_from_slice(&second.to_le_bytes());
        }
    }

    pub fn text(&mut self, place: usize, text: &[u8]) {
        self.vector(place, text.len(), 4, 0);
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
    }

    /// The length of a vector, whose first element is aligned, and so many zeros for what it holds.
    fn vector(&mut self, place: usize, count: usize, unit: usize, size: usize) {
        self.align(unit, 4);
        let start = self.bytes.len();
        self.point(place, start);
        self.bytes.extend_from_slice(&(count as u32).to_le_bytes());
        self.bytes.resize(start + 4 + size, 0);
    }
}
