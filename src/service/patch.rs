//! A field of a PATCH request: absent, null, or a value.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Absent: unchanged.
    #[default]
    Absent,
    /// `null`: removed.
    Null,
    Value(T),
}

impl<T> Patch<T> {
    pub fn apply(self, to: &mut Option<T>) {
        match self {
            Self::Absent => {}
            Self::Null => *to = None,
            Self::Value(value) => *to = Some(value),
        }
    }

    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_leaves_null_clears_and_a_value_replaces() {
        let after = |patch: Patch<u8>| {
            let mut field = Some(1);
            patch.apply(&mut field);
            field
        };
        assert_eq!(
            [after(Patch::Absent), after(Patch::Null), after(Patch::Value(2))],
            [Some(1), None, Some(2)]
        );
    }
}
