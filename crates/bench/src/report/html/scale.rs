//! From numbers to places in a drawing, and where the marks of an axis stand.

/// Maps numbers to places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Logarithms of the ends, or the ends themselves.
    ends: (f64, f64),
    is_log: bool,
    /// Places of the ends.
    places: (f64, f64),
}

impl Scale {
    /// Equal steps are equal differences; begins at 0, for bars.
    pub(crate) fn linear(max: f64, places: (f64, f64)) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        Self { ends: (0.0, max), is_log: false, places }
    }

    /// Equal steps are equal factors. `values` are those to show; what is not positive is not shown.
    pub(crate) fn log(values: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10);
        let ends =
            positive.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let ends = match ends {
            (low, high) if low > high => (0.0, 1.0),
            // A single value stands in the middle.
            (low, high) if high - low < 0.1 => (low - 0.5, high + 0.5),
            ends => ends,
        };
        Self { ends, is_log: true, places }
    }

    /// With some room at both ends.
    pub(crate) fn widened(mut self, part: f64) -> Self {
        let room = (self.ends.1 - self.ends.0) * part;
        self.ends = (self.ends.0 - room, self.ends.1 + room);
        self
    }

    /// Where `value` stands; beyond the ends it stands at the end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let part = ((value - self.ends.0) / (self.ends.1 - self.ends.0)).clamp(0.0, 1.0);
        self.places.0 + part * (self.places.1 - self.places.0)
    }

    /// Powers of ten within the ends; where there are fewer than two, their doubles and halves as well.
    pub(crate) fn decades(&self) -> Vec<f64> {
        let (low, high) = self.ends;
        let within = |steps: &[f64]| -> Vec<f64> {
            let powers = low.floor() as i32..=high.ceil() as i32;
            let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
            all.filter(|tick| (low..=high).contains(&tick.log10())).collect()
        };
        let powers = within(&[1.0]);
        if powers.len() > 1 { powers } else { within(&[1.0, 2.0, 5.0]) }
    }
}

/// Moves places apart until they are `gap` from each other, in their order, and none beyond `last`.
pub(crate) fn apart(places: &[f64], gap: f64, last: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut moved = places.to_vec();
    for pair in 1..order.len() {
        let (above, below) = (order[pair - 1], order[pair]);
        moved[below] = moved[below].max(moved[above] + gap);
    }
    let mut limit = last;
    for &place in order.iter().rev() {
        moved[place] = moved[place].min(limit);
        limit = moved[place] - gap;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_zero() {
        let scale = Scale::linear(200.0, (10.0, 110.0));
        assert_eq!([0.0, 100.0, 200.0, 900.0].map(|v| scale.at(v)), [10.0, 60.0, 110.0, 110.0]);
        assert_eq!(Scale::linear(0.0, (0.0, 100.0)).at(0.0), 0.0, "nothing is no reason to divide by it");
    }

    #[test]
    fn equal_factors_are_equal_steps() {
        let scale = Scale::log([1.0, 100.0, 0.0, f64::NAN].into_iter(), (0.0, 100.0));
        assert_eq!([1.0, 10.0, 100.0].map(|v| scale.at(v)), [0.0, 50.0, 100.0]);
        assert_eq!(scale.decades(), [1.0, 10.0, 100.0]);
    }

    #[test]
    fn one_value_stands_in_the_middle() {
        let scale = Scale::log([20.0].into_iter(), (0.0, 100.0));
        assert!((scale.at(20.0) - 50.0).abs() < 1e-9);
        assert!(scale.decades().len() > 1, "{:?}", scale.decades());
        assert_eq!(Scale::log([].into_iter(), (0.0, 1.0)).at(1.0), 0.0);
    }

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        assert_eq!(apart(&[10.0, 12.0, 50.0], 13.0, 100.0), [10.0, 23.0, 50.0]);
        assert_eq!(apart(&[98.0, 97.0, 10.0], 13.0, 100.0), [100.0, 87.0, 10.0]);
        assert_eq!(apart(&[], 13.0, 100.0), [0.0; 0]);
    }
}
