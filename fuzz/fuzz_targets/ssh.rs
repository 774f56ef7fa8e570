//! Inspects the two streams of a connection that may be SSH, cut into segments.

#![no_main]

use flowatch_fuzz::conversation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some(ssh) = conversation::inspect(input, 6, 22).ssh {
        for fingerprint in [ssh.hassh, ssh.hassh_server].into_iter().flatten() {
            assert_eq!(fingerprint.len(), 32);
        }
    }
});
