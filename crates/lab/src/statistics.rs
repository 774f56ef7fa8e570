//! Statistics of repeated measurements: means with intervals, ratios of pairs, quantiles.

use generator::Random;
use serde::{Deserialize, Serialize};

/// A value with the ends of an interval around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the interval contains `other`.
    #[must_use]
    pub fn contains(&self, other: f64) -> bool {
        self.low <= other && other <= self.high
    }
}

/// The mean; NaN without values.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of a sample; 0 for fewer than two values.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// The quantile of a sample by linear interpolation between its order statistics (Hyndman and Fan
/// 1996, type 7); NaN without values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, share)
}

/// The same for sorted values.
#[must_use]
pub fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// The median; NaN without values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The 95 % interval of the mean by Student's t, as the papers give it: mean ± t × s / √n. For one
/// value the interval is infinite.
#[must_use]
pub fn t_interval(values: &[f64]) -> Interval {
    let value = mean(values);
    if values.len() < 2 {
        return Interval {
            value,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        };
    }
    let freedom = (values.len() - 1) as f64;
    let half = student_t(0.975, freedom) * deviation(values) / (values.len() as f64).sqrt();
    Interval {
        value,
        low: value - half,
        high: value + half,
    }
}

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// The 95 % interval of the mean by the bootstrap (Efron 1979, percentile method): the means of
/// 2,000 samples drawn from the sample, their 2.5th and 97.5th percentile.
#[must_use]
pub fn bootstrap(values: &[f64], seed: u64) -> Interval {
    let mut random = Random::from_state(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..values.len())
                .map(|_| values[random.below(values.len() as u64) as usize])
                .sum();
            sum / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Interval {
        value: mean(values),
        low: quantile_of_sorted(&means, 0.025),
        high: quantile_of_sorted(&means, 0.975),
    }
}

/// The ratio of measurements `a` to `b`, over pairs measured one after the other: the exponential of the
/// mean of the logarithms of their ratios, with its t interval. Pairs with a value that is not positive
/// are skipped.
#[must_use]
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Interval {
    let logarithms: Vec<f64> = a
        .iter()
        .zip(b)
        .filter(|(a, b)| **a > 0.0 && **b > 0.0)
        .map(|(a, b)| (a / b).ln())
        .collect();
    let interval = t_interval(&logarithms);
    Interval {
        value: interval.value.exp(),
        low: interval.low.exp(),
        high: interval.high.exp(),
    }
}

/// The 95 % upper bound of a loss ratio, `lost` of `offered` (Wilson's score; without loss the rule of
/// three: 3 / offered).
#[must_use]
pub fn loss_at_most(lost: u64, offered: u64) -> f64 {
    if offered == 0 {
        return 1.0;
    }
    let n = offered as f64;
    if lost == 0 {
        return (3.0 / n).min(1.0);
    }
    let z = 1.644_853_626_951_472_2_f64;
    let p = lost as f64 / n;
    let centre = p + z * z / (2.0 * n);
    let spread = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre + spread) / (1.0 + z * z / n)).min(1.0)
}

/// The order of trials in a repetition: forward, then backward, so that a machine that drifts steadily
/// favours no condition (ABBA).
pub fn abba(conditions: usize, repetition: usize) -> impl Iterator<Item = usize> {
    (0..conditions).map(move |index| {
        if repetition.is_multiple_of(2) {
            index
        } else {
            conditions - 1 - index
        }
    })
}

/// The quantile of Student's t distribution, by bisection on its distribution function.
fn student_t(share: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    while student_distribution(high, freedom) < share && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if student_distribution(middle, freedom) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The distribution function of Student's t at `t` ≥ 0.
fn student_distribution(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function by its continued fraction (Abramowitz and Stegun,
/// 26.5.8), evaluated by Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast below the mean; above, the function's symmetry helps.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln())
        .exp()
        / a;
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// The logarithm of the gamma function of x > 0, by Stirling's series after the argument has been
/// raised above 10 (Abramowitz and Stegun, 6.1.41).
fn log_gamma(mut x: f64) -> f64 {
    let mut raised = 1.0;
    while x < 10.0 {
        raised *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series =
        inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - raised.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64, error: f64) -> bool {
        (a - b).abs() <= error * b.abs().max(1.0)
    }

    #[test]
    fn mean_deviation_and_quantiles_of_a_known_sample() {
        // NIST, Engineering Statistics Handbook, 1.3.6.7.2 has the method; the values by hand.
        let sample = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&sample), 5.0);
        assert!(close(deviation(&sample), (32.0f64 / 7.0).sqrt(), 1e-12));
        assert_eq!(median(&sample), 4.5);
        assert_eq!(quantile(&sample, 0.0), 2.0);
        assert_eq!(quantile(&sample, 1.0), 9.0);
        // R: quantile(c(2,4,4,4,5,5,7,9), 0.9) is 7.6.
        assert!(close(quantile(&sample, 0.9), 7.6, 1e-12));
        assert!(mean(&[]).is_nan() && median(&[]).is_nan());
        assert_eq!(deviation(&[3.0]), 0.0);
    }

    #[test]
    fn student_t_matches_printed_tables() {
        // Two-sided 95 %: the printed table of the t distribution (NIST handbook, 1.3.6.7.2).
        for (freedom, expected) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (4.0, 2.776),
            (9.0, 2.262),
            (30.0, 2.042),
            (100.0, 1.984),
        ] {
            let t = student_t(0.975, freedom);
            assert!((t - expected).abs() < 0.0006, "{freedom}: {t}");
        }
        assert!((student_t(0.975, 1e7) - 1.959_964).abs() < 1e-5);
    }

    #[test]
    fn log_gamma_of_known_values() {
        assert!(close(
            log_gamma(0.5),
            std::f64::consts::PI.sqrt().ln(),
            1e-12
        ));
        assert!(close(log_gamma(11.0), 3_628_800f64.ln(), 1e-12));
        assert!(log_gamma(1.0).abs() < 1e-12);
    }

    #[test]
    fn t_interval_of_a_worked_example() {
        // Mean 10, s 1, n 4: 10 ± 3.182 / 2.
        let sample = [9.0, 10.0 - 0.5f64.sqrt(), 10.0 + 0.5f64.sqrt(), 11.0];
        let interval = t_interval(&sample);
        assert!(close(interval.value, 10.0, 1e-12) && close(deviation(&sample), 1.0, 1e-12));
        assert!((interval.high - 11.591).abs() < 0.001, "{interval:?}");
        assert!((interval.low - 8.409).abs() < 0.001);
        assert_eq!(t_interval(&[1.0]).high, f64::INFINITY);
    }

    /// A number from 0 to below 1.
    fn unit(random: &mut Random) -> f64 {
        (random.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn bootstrap_repeats_and_agrees_with_theory() {
        let mut random = Random::from_state(5);
        let sample: Vec<f64> = (0..400).map(|_| unit(&mut random)).collect();
        let interval = bootstrap(&sample, 1);
        assert_eq!(interval, bootstrap(&sample, 1));
        // Of a uniform sample: 1.96 / sqrt(12 × 400) to each side.
        let half = 1.96 / (12.0f64 * 400.0).sqrt();
        assert!(
            close(interval.high - interval.low, 2.0 * half, 0.15),
            "{interval:?}"
        );
        assert!(interval.contains(interval.value));
        let same = bootstrap(&[7.0; 5], 9);
        assert_eq!((same.low, same.high), (7.0, 7.0));
    }

    #[test]
    fn bootstrap_covers_the_true_mean_as_often_as_stated() {
        let mut random = Random::from_state(11);
        let held = (0..300)
            .filter(|&trial| {
                let sample: Vec<f64> = (0..40).map(|_| unit(&mut random)).collect();
                bootstrap(&sample, trial).contains(0.5)
            })
            .count();
        // 95 % of 300 is 285, its standard deviation 4; small samples fall short by a little.
        assert!((268..=297).contains(&held), "{held}");
    }

    #[test]
    fn paired_ratio_ignores_drift() {
        let b: Vec<f64> = (1..=10).map(f64::from).collect();
        let a: Vec<f64> = b.iter().map(|value| value * 2.0).collect();
        let ratio = paired_ratio(&a, &b);
        assert!(close(ratio.value, 2.0, 1e-12) && close(ratio.low, 2.0, 1e-9));
        let with_zero = paired_ratio(&[0.0, 2.0, 2.0], &[1.0, 1.0, 1.0]);
        assert!(close(with_zero.value, 2.0, 1e-12));
    }

    #[test]
    fn bound_of_the_loss_ratio_without_loss() {
        assert!(close(loss_at_most(0, 3_000_000), 1e-6, 1e-12));
        assert_eq!(loss_at_most(0, 0), 1.0);
        assert!(loss_at_most(10, 1000) > 0.01 && loss_at_most(10, 1000) < 0.02);
    }

    #[test]
    fn abba_alternates_the_direction() {
        let order: Vec<usize> = (0..4).flat_map(|repetition| abba(2, repetition)).collect();
        assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
    }

    proptest! {
        #[test]
        fn quantiles_stay_in_the_sample_and_increase(
            values in prop::collection::vec(-1e9f64..1e9, 1..60), a in 0.0f64..1.0, b in 0.0f64..1.0
        ) {
            let (a, b) = (a.min(b), a.max(b));
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (low, high) = (quantile(&values, a), quantile(&values, b));
            prop_assert!(least <= low && low <= high + 1e-6 && high <= most + 1e-6);
        }
    }
}
