//! Samples of the occupancy of a receive queue, and the probability that it overflows. Like DPDKStat, this
//! fits a lognormal distribution to the samples and extrapolates its tail. The fit is valid for the
//! measured run only, and comes with its quality: on a virtual machine, the tail is that of the machine.

/// The last bin of the histogram, which also counts all larger occupancies.
const OCCUPANCY_MAX: usize = 1 << 17;

/// A histogram of a queue's occupancy.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    /// Samples of each occupancy, up to the largest one.
    counts: Vec<u64>,
    samples: u64,
    max: usize,
}

/// A lognormal distribution of the samples above 0, and the share of the samples that are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lognormal {
    /// Mean of the logarithms.
    pub mu: f64,
    /// Standard deviation of the logarithms.
    pub sigma: f64,
    /// Share of the samples that are 0, which have no logarithm.
    pub zero_share: f64,
    /// Kolmogorov-Smirnov distance between the distribution and the samples above 0; 0 is a perfect fit.
    pub ks_distance: f64,
}

impl Occupancy {
    /// Adds a sample.
    pub fn add(&mut self, frames: usize) {
        let bin = frames.min(OCCUPANCY_MAX);
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.samples += 1;
        self.max = self.max.max(frames);
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the largest sample.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns each occupancy that occurred and its number of samples, in ascending order.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }

    /// Returns the quantile: the smallest occupancy that is not below a share `quantile` of the samples.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<usize> {
        let rank = (quantile * self.samples as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.counts().find_map(|(frames, count)| {
            seen += count;
            (seen >= rank).then_some(frames)
        })
    }

    /// Adds the samples of another queue.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.samples += other.samples;
        self.max = self.max.max(other.max);
    }

    /// Fits a lognormal distribution by maximum likelihood. Returns `None` if fewer than two different
    /// values above 0 occurred.
    #[must_use]
    pub fn lognormal(&self) -> Option<Lognormal> {
        let positive = || self.counts().filter(|(frames, _)| *frames > 0);
        let count: u64 = positive().map(|(_, count)| count).sum();
        positive().nth(1)?;
        let mean_of = |value: &dyn Fn(f64) -> f64| {
            let sum: f64 = positive()
                .map(|(frames, count)| value((frames as f64).ln()) * count as f64)
                .sum();
            sum / count as f64
        };
        let mu = mean_of(&|logarithm| logarithm);
        let sigma = mean_of(&|logarithm| (logarithm - mu).powi(2)).sqrt();
        let mut fit = Lognormal {
            mu,
            sigma,
            zero_share: 1.0 - count as f64 / self.samples as f64,
            ks_distance: 0.0,
        };
        let mut seen = 0;
        for (frames, of_these) in positive() {
            // Samples are integers, so the distributions are compared halfway between them.
            seen += of_these;
            let empirical = seen as f64 / count as f64;
            let fitted = 1.0 - fit.positive_tail(frames as f64 + 0.5);
            fit.ks_distance = fit.ks_distance.max((empirical - fitted).abs());
        }
        Some(fit)
    }
}

impl Lognormal {
    /// Returns the probability of more than `frames` frames: that a queue of `frames` descriptors
    /// overflows.
    #[must_use]
    pub fn probability_above(&self, frames: usize) -> f64 {
        (1.0 - self.zero_share) * self.positive_tail(frames as f64)
    }

    /// Returns the same probability under the condition that the queue is not empty.
    fn positive_tail(&self, frames: f64) -> f64 {
        let deviations = (frames.ln() - self.mu) / self.sigma;
        0.5 * erfc(deviations / std::f64::consts::SQRT_2)
    }
}

/// The complementary error function, with a relative error of 1e-12 even in the tail. It uses the series
/// of erf near 0 (Abramowitz and Stegun 7.1.6) and the continued fraction of erfc beyond (7.1.14).
fn erfc(x: f64) -> f64 {
    /// Where the continued fraction replaces the series.
    const SPLIT: f64 = 2.0;
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let gauss = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x < SPLIT {
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > sum * 1e-17 {
            odd += 2.0;
            term *= 2.0 * x * x / odd;
            sum += term;
        }
        return 1.0 - 2.0 * gauss * sum;
    }
    // Evaluated from the inside out, from deep enough for convergence.
    let fraction = (1..=120)
        .rev()
        .fold(x, |rest, k| x + f64::from(k) / 2.0 / rest);
    gauss / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erfc_matches_reference_values() {
        // Computed by a C library.
        for (x, value) in [
            (0.0, 1.0),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (1.999, 0.004_698_443_348_6),
            (2.0, 0.004_677_734_981_047_266),
            (3.0, 2.209_049_699_858_544e-5),
            (5.0, 1.537_459_794_428_034_8e-12),
            (10.0, 2.088_487_583_762_545e-45),
            (-1.0, 1.842_700_792_949_715),
        ] {
            assert!(
                (erfc(x) / value - 1.0).abs() < 1e-8,
                "erfc({x}) = {}",
                erfc(x)
            );
        }
    }

    /// The samples are evenly spaced quantiles of a lognormal distribution.
    #[test]
    fn fit_recovers_the_parameters_of_a_lognormal_sample() {
        let (mu, sigma) = (5.0, 0.4);
        let mut occupancy = Occupancy::default();
        let mut value = 0.0f64;
        let samples = 20_000;
        for number in 0..samples {
            // The quantile (number + 1/2) / samples, by bisection.
            let share = (f64::from(number) + 0.5) / f64::from(samples);
            let (mut low, mut high) = (value, 20_000.0);
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                let below = 1.0 - 0.5 * erfc((middle.ln() - mu) / sigma / 2f64.sqrt());
                if below < share {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            value = low;
            occupancy.add(value.round() as usize);
        }
        for _ in 0..samples / 4 {
            occupancy.add(0);
        }
        let fit = occupancy.lognormal().unwrap();
        assert!(
            (fit.mu - mu).abs() < 0.01 && (fit.sigma - sigma).abs() < 0.01,
            "{fit:?}"
        );
        assert!(
            (fit.zero_share - 0.2).abs() < 1e-9 && fit.ks_distance < 0.01,
            "{fit:?}"
        );
        // exp(5) is the median of the samples above 0.
        assert_eq!(occupancy.quantile(0.6), Some(148));
        assert!((fit.probability_above(148) - 0.4).abs() < 0.01);
        assert!(fit.probability_above(4096) < 1e-15 && fit.probability_above(4096) > 0.0);
    }

    #[test]
    fn too_few_values_give_no_fit_and_large_samples_share_a_bin() {
        let mut occupancy = Occupancy::default();
        assert_eq!(occupancy.lognormal(), None);
        assert_eq!(occupancy.quantile(0.5), None);
        for _ in 0..9 {
            occupancy.add(0);
            occupancy.add(7);
        }
        assert_eq!(occupancy.lognormal(), None);
        occupancy.add(OCCUPANCY_MAX * 3);
        assert_eq!(occupancy.max(), OCCUPANCY_MAX * 3);
        let mut other = Occupancy::default();
        other.merge(&occupancy);
        assert_eq!((other.samples(), other.quantile(0.9)), (19, Some(7)));
        assert!(other.lognormal().is_some());
    }
}
