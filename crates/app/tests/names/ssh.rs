//! Compares SSH version strings and fingerprints with those of tshark 4.0.17 (`ssh.protocol`,
//! `ssh.kex.hassh`, `ssh.kex.hasshserver`).

use crate::captures;

/// Capture, versions of client and server, HASSH and HASSHServer.
const EXPECTED: &[[&str; 5]] = &[
    [
        "tcpdump/ssh.pcap",
        "SSH-2.0-OpenSSH_7.8",
        "SSH-2.0-OpenSSH_7.4p1 Debian-10+deb9u3",
        "ec7378c1a92f5a8dde7e8b7a1ddf33d1",
        "c099ec12a2b4c3b347f8f17d966469ed",
    ],
    // The server opened this connection, to the client's port 22. tshark takes the side with that
    // port as the server, and has the two exchanged.
    [
        "zeek/ssh__reverse-ssh.pcap",
        "SSH-2.0-AsyncSSH_2.8.1",
        "SSH-2.0-dropbear_2018.76",
        "18f369389d126cfeecade20e1ea5ff9b",
        "413e646031ea5204c5ec2fe2d5b7946e",
    ],
    [
        "zeek/ssh__single-conn.pcap",
        "SSH-2.0-OpenSSH_3.8.1p1",
        "SSH-1.99-OpenSSH_3.9p1",
        "c4fd9343cba76d12f0dd523fbe7c4da1",
        "f430cd6761697a6a658ee1d45ed22e49",
    ],
    [
        "zeek/ssh__ssh1-ssh2-fingerprints.pcap",
        "SSH-2.0-OpenSSH_8.2p1 Ubuntu-4ubuntu0.1",
        "SSH-2.0-OpenSSH_8.2p1 Ubuntu-4ubuntu0.1",
        "ae8bd7dd09970555aa4c6ed22adbbf56",
        "3ccd1778a76049721c71ad7d2bf62bbc",
    ],
    [
        "zeek/ssh__ssh_client_sends_first_enc_pkt_with_newkeys.pcap",
        "SSH-2.0-PuTTY_Release_0.72",
        "SSH-2.0-OpenSSH_7.6p1 Ubuntu-4ubuntu0.3",
        "e77c2db7432e8cfbc42a96909a84fc8e",
        "b12d2871a1189eff20364cf5333619ee",
    ],
    [
        "zeek/ssh__ssh_kex_curve25519.pcap",
        "SSH-2.0-OpenSSH_7.4",
        "SSH-2.0-OpenSSH_7.5",
        "0df0d56bb50c6b2426d8d40234bf1826",
        "a95c22bf8e9b19ed0a5dc74bb2f9c613",
    ],
    [
        "zeek/ssh__ssh_kex_dh_group18.pcap",
        "SSH-2.0-OpenSSH_10.3",
        "SSH-2.0-OpenSSH_10.2",
        "422e6fdef10393678795b9a542d89ab6",
        "f6ac1ecedabc5a6096a573cdbfcfd8a2",
    ],
    [
        "zeek/ssh__ssh_server_sends_first_enc_pkt_with_newkeys.pcap",
        "SSH-2.0-OpenSSH_7.6p1 Ubuntu-4ubuntu0.3",
        "SSH-2.0-OpenSSH_7.6p1 Ubuntu-4ubuntu0.3",
        "06046964c022c6407d15a27b12a6a4fb",
        "b12d2871a1189eff20364cf5333619ee",
    ],
    [
        "zeek/ssh__ssh_version_199.pcap",
        "SSH-1.99-Cisco-1.25",
        "SSH-2.0-Cisco-1.25",
        "3cc67862bceac0f334c62ad1b76895b4",
        "3cc67862bceac0f334c62ad1b76895b4",
    ],
    [
        "zeek/ssh__sshguess.pcap",
        "SSH-2.0-OpenSSH_6.2",
        "SSH-2.0-OpenSSH_6.7p1 Debian-3",
        "1f120ecfc2c57fbdeaf66b93a3bf26ee",
        "3711ee816d3ea9975d96c39c31c54299",
    ],
    [
        "zeek/tcp__ssh-dups.pcap",
        "SSH-2.0-OpenSSH_7.9",
        "SSH-2.0-OpenSSH_7.6p1 Ubuntu-4ubuntu0.3",
        "ec7378c1a92f5a8dde7e8b7a1ddf33d1",
        "b12d2871a1189eff20364cf5333619ee",
    ],
];

#[test]
fn ssh_matches_tshark() {
    if !traffic::present() {
        return;
    }
    for expected in EXPECTED {
        let records = captures::read(expected[0]);
        let mut found = records
            .iter()
            .filter_map(|(_, record)| record.ssh.as_deref())
            // Without SSH 1, which has no fingerprints.
            .filter(|ssh| ssh.hassh.is_some())
            .peekable();
        assert!(found.peek().is_some(), "{}", expected[0]);
        for ssh in found {
            let ours = [
                &ssh.client_version,
                &ssh.server_version,
                &ssh.hassh,
                &ssh.hassh_server,
            ]
            .map(|text| text.as_deref().unwrap_or_default());
            assert_eq!(ours, expected[1..], "{}", expected[0]);
        }
    }
}
