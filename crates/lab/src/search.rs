//! The highest rate that a monitor sustains, by bisection.

use serde::{Deserialize, Serialize};

/// When a rate counts as sustained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// One trial without a lost packet (RFC 2544, section 26.1).
    Rfc2544,
    /// On a noisy machine: more than half of at most `trials` trials lose at most `loss_max`.
    Noisy {
        /// The highest drop ratio of a trial.
        loss_max: f64,
        /// Trials per rate.
        trials: u32,
    },
}

impl Goal {
    /// Describes the goal.
    #[must_use]
    pub fn description(self) -> String {
        match self {
            Self::Rfc2544 => "no packet lost in one trial (RFC 2544)".into(),
            Self::Noisy { loss_max, trials } => {
                format!("a drop ratio of at most {loss_max:.0e} in most of {trials} trials")
            }
        }
    }
}

/// The result of one trial at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Packets offered.
    pub offered: u64,
    /// Packets lost.
    pub lost: u64,
    /// Whether the trial is valid.
    pub valid: bool,
}

/// The interval of a search, and its resolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// A rate that is expected to be sustained.
    pub low: f64,
    /// A rate that is not expected to be sustained.
    pub high: f64,
    /// The search ends when the interval is this share of its lower end.
    pub resolution: f64,
    /// When a rate counts as sustained.
    pub goal: Goal,
}

/// Invalid trials that are repeated at one rate; more count as not sustained.
const INVALID_MAX: u32 = 3;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// The highest sustained rate; 0 if none was.
    pub rate: f64,
    /// The lowest rate that was not sustained; infinite if every rate was.
    pub failed: f64,
    /// Rate and result of each trial.
    pub trials: Vec<(f64, Probe)>,
}

impl Sustained {
    /// Invalid trials.
    #[must_use]
    pub fn invalid(&self) -> usize {
        self.trials.iter().filter(|(_, probe)| !probe.valid).count()
    }
}

impl Search {
    /// A search with a resolution of 1 %.
    #[must_use]
    pub const fn new(low: f64, high: f64, goal: Goal) -> Self {
        Self {
            low,
            high,
            resolution: 0.01,
            goal,
        }
    }

    /// Searches; `trial` measures at a rate. An interval that does not contain the highest sustained rate
    /// is widened: its lower end is halved, or its upper end doubled, up to six times.
    ///
    /// # Errors
    /// Those of `trial`.
    pub fn run<E>(&self, mut trial: impl FnMut(f64) -> Result<Probe, E>) -> Result<Sustained, E> {
        let mut trials = Vec::new();
        let (mut low, mut high) = (self.low.min(self.high), self.high.max(self.low));
        let mut sustains = |rate: f64, trials: &mut Vec<_>| self.sustains(rate, &mut trial, trials);
        let mut widened = 0;
        while !sustains(low, &mut trials)? {
            high = low;
            low /= 2.0;
            widened += 1;
            if widened > 6 {
                return Ok(Sustained {
                    rate: 0.0,
                    failed: high,
                    trials,
                });
            }
        }
        if widened == 0 {
            while sustains(high, &mut trials)? {
                low = high;
                high *= 2.0;
                widened += 1;
                if widened > 6 {
                    return Ok(Sustained {
                        rate: low,
                        failed: f64::INFINITY,
                        trials,
                    });
                }
            }
        }
        while high - low > self.resolution * low {
            let middle = f64::midpoint(low, high);
            if sustains(middle, &mut trials)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Sustained {
            rate: low,
            failed: high,
            trials,
        })
    }

    /// Whether `rate` is sustained.
    fn sustains<E>(
        &self,
        rate: f64,
        trial: &mut impl FnMut(f64) -> Result<Probe, E>,
        trials: &mut Vec<(f64, Probe)>,
    ) -> Result<bool, E> {
        let (trials_max, loss_max) = match self.goal {
            Goal::Rfc2544 => (1, 0.0),
            Goal::Noisy { loss_max, trials } => (trials.max(1), loss_max),
        };
        let majority = trials_max / 2 + 1;
        let (mut good, mut bad, mut invalid) = (0, 0, 0);
        while good < majority && bad < majority {
            let probe = trial(rate)?;
            trials.push((rate, probe));
            let within = probe.lost as f64 <= loss_max * probe.offered as f64;
            if !probe.valid && invalid < INVALID_MAX {
                invalid += 1;
            } else if probe.valid && within {
                good += 1;
            } else {
                bad += 1;
            }
        }
        Ok(good >= majority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A device that drops the packets above its capacity.
    fn device(capacity: f64) -> impl FnMut(f64) -> Result<Probe, ()> {
        move |rate| {
            let offered = 1_000_000u64;
            let lost = ((1.0 - capacity / rate).max(0.0) * offered as f64).ceil() as u64;
            Ok(Probe {
                offered,
                lost,
                valid: true,
            })
        }
    }

    proptest! {
        #[test]
        fn finds_the_rate_of_a_device_to_one_per_cent(
            capacity in 1.0f64..60.0, low in 1.0f64..20.0, width in 1.1f64..10.0
        ) {
            let search = Search::new(low, low * width, Goal::Rfc2544);
            let found = search.run(device(capacity)).unwrap();
            prop_assert!(found.rate <= capacity && found.failed > capacity);
            prop_assert!(found.failed - found.rate <= 0.01 * found.rate * 1.000_001);
        }
    }

    #[test]
    fn rfc_2544_rejects_one_lost_packet_and_the_noisy_goal_does_not() {
        let mut number = 0;
        let mut noisy = |_: f64| -> Result<Probe, ()> {
            number += 1;
            let lost = u64::from(number % 3 == 0) * 500;
            Ok(Probe {
                offered: 1_000_000,
                lost,
                valid: true,
            })
        };
        let goal = Goal::Noisy {
            loss_max: 1e-6,
            trials: 3,
        };
        let mut search = Search::new(10.0, 20.0, goal);
        search.resolution = 1.0;
        assert!(search.run(&mut noisy).unwrap().rate >= 20.0);
        let strict = Search {
            goal: Goal::Rfc2544,
            ..search
        };
        let found = strict.run(|_| {
            Ok::<_, ()>(Probe {
                offered: 10,
                lost: 1,
                valid: true,
            })
        });
        assert_eq!(found.unwrap().rate, 0.0);
    }

    #[test]
    fn repeats_invalid_trials_and_never_counts_them_as_sustained() {
        let mut number = 0;
        let search = Search {
            resolution: 1.0,
            ..Search::new(10.0, 20.0, Goal::Rfc2544)
        };
        let found = search
            .run(|rate| {
                number += 1;
                let valid = number % 2 == 0;
                let lost = u64::from(rate > 15.0);
                Ok::<_, ()>(Probe {
                    offered: 10,
                    lost,
                    valid,
                })
            })
            .unwrap();
        assert!(found.rate >= 10.0 && found.rate < 15.0);
        assert!(found.invalid() > 0);
        let never = search.run(|_| {
            Ok::<_, ()>(Probe {
                offered: 1,
                lost: 0,
                valid: false,
            })
        });
        assert_eq!(never.unwrap().rate, 0.0);
    }

    #[test]
    fn errors_end_the_search() {
        let search = Search::new(1.0, 2.0, Goal::Rfc2544);
        assert_eq!(search.run(|_| Err::<Probe, _>("gone")), Err("gone"));
    }
}
