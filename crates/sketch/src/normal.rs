//! The normal distribution, by which bounds are stated.

/// Returns how many standard deviations on both sides of the mean contain a share of `confidence`
/// (from 0 to 1) of a normal distribution, with an error below 0.0005: Abramowitz and Stegun,
/// "Handbook of Mathematical Functions", 26.2.23. A confidence of 1 gives 8, where a share of 1e-15 is
/// outside.
#[must_use]
pub(crate) fn standard_deviations(confidence: f64) -> f64 {
    let tail = ((1.0 - confidence) / 2.0).clamp(1e-15, 0.5);
    let t = (-2.0 * tail.ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    (t - numerator / denominator).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_published_quantiles() {
        for (confidence, expected) in [(0.0, 0.0), (0.6827, 1.0), (0.95, 1.96), (0.9973, 3.0)] {
            let found = standard_deviations(confidence);
            assert!((found - expected).abs() < 0.001, "{confidence}: {found}");
        }
        assert!(standard_deviations(1.0) > 7.0);
    }
}
