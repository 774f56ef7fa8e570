//! The experiments, a file each; most repeat a figure or a table of a paper.

mod anomalies;
mod context;
mod dpdkstat_fig11;
mod dpdkstat_fig12;
mod dpdkstat_fig2;
mod dpdkstat_fig5;
mod dpdkstat_fig8;
mod dpdkstat_fig9;
mod dpdkstat_rate;
mod experiment;
mod fig5a;
mod fig5b;
mod fig5c;
mod fig6a;
mod fig6b;
mod fig6c;
mod fig7a;
mod fig7b;
mod fig7c;
mod fig8;
mod fig9a;
mod fig9b;
pub mod full_analysis;
mod loss_gate;
mod mix;
mod peers;
mod real_time;
mod record_files;
mod recorded;
mod table3;
mod table4;
mod tools;

pub use context::{Context, Extent};
pub use experiment::Entry;

/// All experiments, in the order of the report.
pub const ALL: &[Entry] = &[
    Entry::of::<loss_gate::LossGate>(),
    Entry::of::<fig5a::Fig5a>(),
    Entry::of::<fig5b::Fig5b>(),
    Entry::of::<fig5c::Fig5c>(),
    Entry::of::<table3::Table3>(),
    Entry::of::<fig6a::Fig6a>(),
    Entry::of::<fig6b::Fig6b>(),
    Entry::of::<fig6c::Fig6c>(),
    Entry::of::<fig7a::Fig7a>(),
    Entry::of::<fig7b::Fig7b>(),
    Entry::of::<fig7c::Fig7c>(),
    Entry::of::<fig8::Fig8>(),
    Entry::of::<table4::Table4>(),
    Entry::of::<fig9a::Fig9a>(),
    Entry::of::<fig9b::Fig9b>(),
    Entry::of::<dpdkstat_fig2::DpdkstatFig2>(),
    Entry::of::<dpdkstat_fig5::DpdkstatFig5>(),
    Entry::of::<dpdkstat_fig8::DpdkstatFig8>(),
    Entry::of::<dpdkstat_fig9::DpdkstatFig9>(),
    Entry::of::<dpdkstat_fig11::DpdkstatFig11>(),
    Entry::of::<dpdkstat_fig12::DpdkstatFig12>(),
    Entry::of::<dpdkstat_rate::DpdkstatRate>(),
    Entry::of::<anomalies::Anomalies>(),
];

/// The experiment of that name.
#[must_use]
pub fn find(name: &str) -> Option<Entry> {
    ALL.iter().copied().find(|entry| entry.name == name)
}
