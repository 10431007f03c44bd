//! A time range of statistics, in rows that are still kept and in steps that fit into a chart.

use super::{Counters, Resolution};
use crate::time::Timestamp;

/// The maximum number of points in a series.
const POINTS_MAX: i64 = 404;
/// The numbers of rows that a point may cover.
const ROWS_PER_POINT: [i64; 3] = [1, 3, 6];

/// A time range whose `from` and `to` are starts of points, and so of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    pub resolution: Resolution,
    pub from: Timestamp,
    pub to: Timestamp,
    /// The number of seconds that a point of the series covers.
    pub step: i64,
}

impl TimeRange {
    /// Makes the range in the narrowest rows that are kept for that long and are not too many. Its ends are rounded outwards to
    /// whole points; no rows exist from before the oldest kept days.
    pub fn of(from: Timestamp, to: Timestamp, now: Timestamp) -> Self {
        let wide = |width: Resolution| {
            let from = from.max(width.first_of(width.kept_for(), now));
            let length_ms = (to.as_millis() - from.as_millis()).max(0);
            let rows = length_ms / (width.seconds() * 1000) + 2;
            let each = ROWS_PER_POINT.into_iter().find(|each| rows / each < POINTS_MAX);
            each.map(|each| Self::aligned(width, width.seconds() * each, from, to))
        };
        let is_kept =
            |width: &Resolution| *width == Resolution::Day || from >= width.first_of(width.kept_for(), now);
        let fitting = Resolution::ALL.into_iter().filter(is_kept).find_map(wide);
        fitting.unwrap_or_else(|| Self::aligned(Resolution::Day, Resolution::Day.seconds(), from, to))
    }

    fn aligned(width: Resolution, step: i64, from: Timestamp, to: Timestamp) -> Self {
        let ms = step * 1000;
        let from = from.as_millis().div_euclid(ms) * ms;
        let to = -(-to.as_millis()).div_euclid(ms) * ms;
        Self {
            resolution: width,
            step,
            from: Timestamp::from_millis(from),
            to: Timestamp::from_millis(to.max(from + ms)),
        }
    }

    /// Splits the range into pieces with fewer rows, for sums over all of it: whole hours or days, and the rest at both ends.
    pub fn pieces(&self) -> Vec<Self> {
        let width = match self.resolution {
            Resolution::Minute => Resolution::Hour,
            Resolution::Hour | Resolution::Day => Resolution::Day,
        };
        let (first, last) = (width.first_after(self.from), width.start(self.to));
        if self.resolution == width || first >= last {
            return vec![*self];
        }
        let pieces = [
            Self { to: first, ..*self },
            Self { resolution: width, from: first, to: last, ..*self },
            Self { from: last, ..*self },
        ];
        pieces.into_iter().filter(|piece| piece.from < piece.to).collect()
    }

    /// Returns all points in order, including those without a row.
    pub fn series(
        &self,
        rows: impl IntoIterator<Item = (Timestamp, Counters)>,
    ) -> Vec<(Timestamp, Counters)> {
        let (ms, from) = (self.step * 1000, self.from.as_millis());
        let starts = (from..self.to.as_millis()).step_by(usize::try_from(ms).unwrap_or(usize::MAX));
        let mut points: Vec<_> = starts.map(|at| (Timestamp::from_millis(at), Counters::default())).collect();
        for (start, counters) in rows {
            let index = usize::try_from((start.as_millis() - from).div_euclid(ms));
            if let Some((_, point)) = index.ok().and_then(|index| points.get_mut(index)) {
                point.add(&counters);
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;
    const NOW: Timestamp = Timestamp::from_millis(1_800_000_123_456);

    fn last(hours: i64) -> TimeRange {
        TimeRange::of(Timestamp::from_millis(NOW.as_millis() - hours * HOUR), NOW, NOW)
    }

    #[test]
    fn a_window_uses_the_narrowest_rows_that_are_kept_for_it() {
        for (hours, width, step) in [
            (1, Resolution::Minute, 60),
            (3, Resolution::Minute, 60),
            (4, Resolution::Hour, 3600),
            (24 * 7, Resolution::Hour, 3600),
            (24 * 30, Resolution::Hour, 3 * 3600),
            (24 * 90, Resolution::Day, 86_400),
            (24 * 1000, Resolution::Day, 86_400),
        ] {
            let span = last(hours);
            assert_eq!((span.resolution, span.step), (width, step), "{hours} h");
        }
        let long_ago = Timestamp::from_millis(NOW.as_millis() - 40 * 24 * HOUR);
        let span = TimeRange::of(long_ago, Timestamp::from_millis(long_ago.as_millis() + HOUR), NOW);
        assert_eq!(
            (span.resolution, span.to.as_millis() - span.from.as_millis()),
            (Resolution::Day, 24 * HOUR)
        );
    }

    proptest! {
        #[test]
        fn a_series_covers_its_window_and_is_never_too_long_for_a_chart(ago in 0_i64..500 * 24, long in 0_i64..500 * 24) {
            let from = Timestamp::from_millis(NOW.as_millis() - (ago + long) * HOUR);
            let to = Timestamp::from_millis(NOW.as_millis() - ago * HOUR);
            let span = TimeRange::of(from, to, NOW);
            prop_assert!(span.to >= to && span.from < span.to);
            prop_assert!(span.series([]).len() as i64 <= POINTS_MAX + 2, "{}", span.series([]).len());
            let kept = span.resolution.first_of(span.resolution.kept_for(), NOW);
            prop_assert!(span.from <= from || from < kept, "{span:?}");
        }

        #[test]
        fn the_pieces_cover_the_window_in_few_rows(
            minutes in prop_oneof![1_i64..180, 1_i64..30 * 24 * 60], ago in 0_i64..100,
        ) {
            let to = Timestamp::from_millis(NOW.as_millis() - ago * HOUR);
            let span = TimeRange::of(Timestamp::from_millis(to.as_millis() - minutes * 60_000), to, NOW);
            let pieces = span.pieces();
            let mut at = span.from;
            for piece in &pieces {
                prop_assert_eq!(piece.from, at);
                prop_assert_eq!(piece.resolution.start(piece.from), piece.from);
                at = piece.to;
            }
            prop_assert_eq!(at, span.to);
            let rows: i64 = pieces.iter().map(|p| (p.to.as_millis() - p.from.as_millis()) / 1000 / p.resolution.seconds()).sum();
            // Up to 59 minutes at each end, and as many whole hours as minute rows are kept for.
            prop_assert!(rows <= 59 + 3 + 59, "{}", rows);
        }
    }
}
