//! Packet accounting over the software NIC, with huge pages. (A DPDK process uses one kind of memory.)
#![cfg(all(target_os = "linux", feature = "dpdk"))]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod run_matrix;
mod software_nic;

use lab::software_link::Memory;

#[test]
fn every_packet_is_accounted_for() {
    software_nic::every_packet_is_accounted_for(Memory::HugePages);
}

#[test]
fn every_connection_over_two_software_nics_is_completed() {
    if software_nic::huge_pages() {
        software_nic::closed_loop::every_connection_is_completed(Memory::HugePages);
    }
}
