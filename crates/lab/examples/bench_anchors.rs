//! The paper's double hash, linked list and combined table with P-square, packet by packet as in its
//! program and with prefetched bursts, next to flowatch's table and histogram. Each processes the same
//! packets by turns. Prints the ratio of the times with its 95 % interval, and the unattributed packets.
//!
//! `cargo run --release -p flowatch-lab --example bench_anchors [-- TURNS]`
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use lab::paper_tables::{Account, Compared, Setting, compare};

const TURNS: usize = 12;

fn account_text(account: &Account) -> String {
    let share = 100.0 * account.unattributed as f64 / account.packets.max(1) as f64;
    let error = account.error.map_or_else(String::new, |error| {
        format!(", 99th percentile off by {:.1} %", error * 100.0)
    });
    format!(
        "{share:.2} % of the packets unattributed, {} of {} flows exact{error}",
        account.exact, account.flows
    )
}

fn print_comparison(compared: &Compared) {
    let setting = &compared.setting;
    let medians = compared.medians();
    println!("\n{}", setting.name());
    println!(
        "  {:<26}{:>8.2} ns per packet: {}",
        "bucket",
        medians[0],
        account_text(&compared.accounts[0])
    );
    println!(
        "  {:<26}{:>8.2} ns per packet: {}",
        setting.table.name(),
        medians[1],
        account_text(&compared.accounts[1])
    );
    println!(
        "  {:<26}{:>8.2} ns per packet",
        format!("{}, prefetching", setting.table.name()),
        medians[2],
    );
    let [published, ahead] = compared.ratios;
    println!(
        "  ours is {:.2} times as fast ({:.2} to {:.2}); the goal of {} times: {}; {:.2} times as fast \
         ({:.2} to {:.2}) as theirs with prefetching ({} bursts stalled)",
        published.value,
        published.low,
        published.high,
        setting.goal,
        compared.verdict(),
        ahead.value,
        ahead.low,
        ahead.high,
        compared.stalls
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turns = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => TURNS,
    };
    println!(
        "flows by the device's hash, in bursts of 256 in memory, one thread, {turns} turns of each in ABBA order: \
         medians, and ratios of pairs with their 95 % interval"
    );
    for setting in Setting::all() {
        print_comparison(&compare(&setting, turns, 1)?);
    }
    Ok(())
}
