//! How full the receive queue was when it was looked at, and how likely it is to overflow: DPDKStat
//! fits a lognormal distribution to the samples and reads the tail off it. The fit is of the measured
//! run, and how well it fits is said beside it: on a virtual machine the tail is the machine's.

/// The largest occupancy that is told apart from larger ones.
const MOST: usize = 1 << 17;

/// Samples of a queue's occupancy.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    /// Samples of each occupancy; as long as the largest met needs.
    counts: Vec<u64>,
    samples: u64,
    most: usize,
}

/// A lognormal distribution of the samples above 0, and the share of those that are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lognormal {
    /// Mean of the logarithm.
    pub mu: f64,
    /// Its standard deviation.
    pub sigma: f64,
    /// Share of the samples that are 0, which have no logarithm.
    pub zero: f64,
    /// The largest distance between the distribution and the samples above 0 (Kolmogorov-Smirnov):
    /// 0 is a perfect fit.
    pub distance: f64,
}

impl Occupancy {
    /// Adds a sample.
    pub fn add(&mut self, frames: usize) {
        let place = frames.min(MOST);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.samples += 1;
        self.most = self.most.max(frames);
    }

    /// Samples so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The largest of them.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Each occupancy that was met and its samples, in order.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }

    /// The least occupancy that a share `quantile` of the samples does not exceed.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<usize> {
        let wanted = (quantile * self.samples as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.counts().find_map(|(frames, count)| {
            seen += count;
            (seen >= wanted).then_some(frames)
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
        self.most = self.most.max(other.most);
    }

    /// The lognormal distribution of greatest likelihood; none of fewer than two values above 0.
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
            zero: 1.0 - count as f64 / self.samples as f64,
            distance: 0.0,
        };
        let mut seen = 0;
        for (frames, of_these) in positive() {
            // Samples are whole numbers: the distribution is compared between them.
            seen += of_these;
            let empirical = seen as f64 / count as f64;
            let fitted = 1.0 - fit.above_given_any(frames as f64 + 0.5);
            fit.distance = fit.distance.max((empirical - fitted).abs());
        }
        Some(fit)
    }
}

impl Lognormal {
    /// The probability of more than `frames`: that a queue of so many descriptors overflows.
    #[must_use]
    pub fn above(&self, frames: usize) -> f64 {
        (1.0 - self.zero) * self.above_given_any(frames as f64)
    }

    fn above_given_any(&self, frames: f64) -> f64 {
        let deviations = (frames.ln() - self.mu) / self.sigma;
        0.5 * erfc(deviations / std::f64::consts::SQRT_2)
    }
}

/// The complementary error function, to a relative error of 1e-12 in the tail as well: the series of
/// erf about 0 (Abramowitz and Stegun 7.1.6), and the continued fraction of erfc further out (7.1.14).
fn erfc(x: f64) -> f64 {
    /// Where the one takes over from the other.
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
    // From far enough inside the fraction outwards.
    let fraction = (1..=120)
        .rev()
        .fold(x, |rest, k| x + f64::from(k) / 2.0 / rest);
    gauss / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erfc_has_the_values_of_the_tables() {
        // By the C library of another language (its `math.erfc`).
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

    /// Quantiles of a lognormal distribution, evenly: the fit gives its parameters back.
    #[test]
    fn a_lognormal_sample_gives_its_parameters_back() {
        let (mu, sigma) = (5.0, 0.4);
        let mut occupancy = Occupancy::default();
        let mut value = 0.0f64;
        let samples = 20_000;
        for number in 0..samples {
            // The occupancy below which a share of (number + 1/2)/samples lies, by bisection.
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
            (fit.zero - 0.2).abs() < 1e-9 && fit.distance < 0.01,
            "{fit:?}"
        );
        // exp(5) is the median of what is above 0.
        assert_eq!(occupancy.quantile(0.6), Some(148));
        assert!((fit.above(148) - 0.4).abs() < 0.01);
        assert!(fit.above(4096) < 1e-15 && fit.above(4096) > 0.0);
    }

    #[test]
    fn too_little_for_a_fit_is_none_and_the_tail_is_kept() {
        let mut occupancy = Occupancy::default();
        assert_eq!(occupancy.lognormal(), None);
        assert_eq!(occupancy.quantile(0.5), None);
        for _ in 0..9 {
            occupancy.add(0);
            occupancy.add(7);
        }
        assert_eq!(occupancy.lognormal(), None);
        occupancy.add(MOST * 3);
        assert_eq!(occupancy.most(), MOST * 3);
        let mut other = Occupancy::default();
        other.merge(&occupancy);
        assert_eq!((other.samples(), other.quantile(0.9)), (19, Some(7)));
        assert!(other.lognormal().is_some());
    }
}
