//! The books over the software NIC, without huge pages. (DPDK has one kind of memory a process.)
#![cfg(all(target_os = "linux", feature = "dpdk"))]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod identity;
mod software_nic;

use lab::software_link::Memory;

#[test]
fn every_packet_on_the_wire_is_accounted_for() {
    software_nic::every_packet_is_accounted_for(Memory::Ordinary);
}

#[test]
fn every_connection_over_two_cards_is_completed() {
    software_nic::closed_loop::every_connection_is_completed(Memory::Ordinary);
}
