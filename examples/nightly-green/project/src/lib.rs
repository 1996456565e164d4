//! A few numbers about numbers.

/// The median: the middle value, or the mean of the two middle values.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values[values.len() / 2])
}

/// The largest value.
pub fn max(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}
