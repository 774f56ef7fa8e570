//! The lognormal distribution: DPDKStat's model of how full a receive queue is.

use crate::statistics::{deviation, mean};

/// A lognormal distribution: the logarithm is normal with this mean and deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lognormal {
    /// Mean of the logarithm.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Lognormal {
    /// The one most likely to give `values`; those that are not above zero have no logarithm and are
    /// left out. `None` with fewer than two others.
    #[must_use]
    pub fn fit(values: &[f64]) -> Option<Self> {
        let logarithms: Vec<f64> = values
            .iter()
            .filter(|value| **value > 0.0)
            .map(|value| value.ln())
            .collect();
        (logarithms.len() > 1).then(|| Self {
            mean: mean(&logarithms),
            deviation: deviation(&logarithms),
        })
    }

    /// The probability of more than `value`.
    #[must_use]
    pub fn above(&self, value: f64) -> f64 {
        if value <= 0.0 {
            return 1.0;
        }
        let z = (value.ln() - self.mean) / self.deviation.max(f64::MIN_POSITIVE);
        0.5 * complementary_error(z / std::f64::consts::SQRT_2)
    }
}

/// erfc: by its series where that converges fast, by its continued fraction in the tails (Abramowitz
/// and Stegun, 7.1.6 and 7.1.14), so that tails keep their relative precision.
fn complementary_error(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - complementary_error(-x);
    }
    let root = std::f64::consts::PI.sqrt();
    if x < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= 2.0 * x * x / (2.0 * f64::from(n) + 1.0);
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return 1.0 - 2.0 / root * (-x * x).exp() * sum;
    }
    let mut fraction = x;
    for step in (1..120).rev() {
        fraction = x + f64::from(step) / 2.0 / fraction;
    }
    (-x * x).exp() / (root * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Random;

    #[test]
    fn the_error_function_as_in_the_tables() {
        // Abramowitz and Stegun, table 7.1, and the tail by its expansion.
        for (x, erfc) in [
            (0.0, 1.0),
            (0.5, 0.479_500_122_2),
            (1.0, 0.157_299_207_1),
            (2.0, 0.004_677_734_98),
            (3.0, 2.209_049_699_858_544e-5),
            (5.0, 1.537_459_794_428_035e-12),
        ] {
            let error = (complementary_error(x) / erfc - 1.0).abs();
            assert!(error < 1e-8, "{x}: {error}");
        }
        assert!((complementary_error(-1.0) - 1.842_700_792_9).abs() < 1e-9);
    }

    #[test]
    fn a_fit_finds_what_the_values_were_drawn_from() {
        let mut random = Random::new(2);
        let values: Vec<f64> = (0..20_000)
            .map(|_| {
                // The sum of twelve uniform numbers, less 6, is as good as normal here.
                let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                (3.0 + 0.5 * normal).exp()
            })
            .collect();
        let fit = Lognormal::fit(&values).unwrap();
        assert!(
            (fit.mean - 3.0).abs() < 0.02 && (fit.deviation - 0.5).abs() < 0.02,
            "{fit:?}"
        );
        let median = 3f64.exp();
        assert!((fit.above(median) - 0.5).abs() < 0.03);
        assert!(Lognormal::fit(&[0.0, 5.0]).is_none());
    }
}
