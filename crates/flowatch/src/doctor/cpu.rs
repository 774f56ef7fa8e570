//! The CPU, and which of its instruction sets the hot loops use.

use super::finding::Finding;
use super::system::System;

/// The CPU features that flowatch uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Instructions {
    aes: bool,
    vaes: bool,
    avx512f: bool,
    avx512bw: bool,
    avx512vbmi2: bool,
    avx2: bool,
    bmi1: bool,
    gfni: bool,
    sse2: bool,
    sse42: bool,
}

impl Instructions {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn host() -> Self {
        Self {
            aes: std::arch::is_x86_feature_detected!("aes"),
            vaes: std::arch::is_x86_feature_detected!("vaes"),
            avx512f: std::arch::is_x86_feature_detected!("avx512f"),
            avx512bw: std::arch::is_x86_feature_detected!("avx512bw"),
            avx512vbmi2: std::arch::is_x86_feature_detected!("avx512vbmi2"),
            avx2: std::arch::is_x86_feature_detected!("avx2"),
            bmi1: std::arch::is_x86_feature_detected!("bmi1"),
            gfni: std::arch::is_x86_feature_detected!("gfni"),
            sse2: true,
            sse42: std::arch::is_x86_feature_detected!("sse4.2"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn of_this_machine() -> Self {
        Self::default()
    }
}

/// Reports which implementations `hw::hash`, `hw::toeplitz`, `hw::tags` and `hw::crc32c` choose.
pub(super) fn findings(system: &System, has: Instructions) -> Vec<Finding> {
    let cpuinfo = system.read("proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(':'))
        .map_or("unknown", |(_, name)| name.trim());
    vec![
        Finding::ok("model", model),
        if has.vaes && has.avx512f {
            Finding::ok(
                "keyed hash",
                "AES on 512-bit vectors (VAES): four flow keys at a time",
            )
        } else if has.aes {
            Finding::ok(
                "keyed hash",
                "AES, one flow key at a time (no VAES with AVX-512)",
            )
        } else {
            Finding::note("keyed hash", "by multiplication: no AES instructions")
        },
        if has.gfni && has.avx512f && has.avx512vbmi2 {
            Finding::ok(
                "Toeplitz hash",
                "by bit matrices (GFNI with AVX-512): sixteen flow keys at a time",
            )
        } else {
            Finding::ok(
                "Toeplitz hash",
                "by tables, one flow key at a time (no GFNI with AVX-512)",
            )
        },
        if has.avx512bw {
            Finding::ok(
                "bucket table",
                "compares all tags of a bucket at once (AVX-512BW)",
            )
        } else if has.avx2 && has.bmi1 {
            Finding::ok(
                "bucket table",
                "compares the tags of a bucket in two steps (AVX2, no AVX-512BW)",
            )
        } else if has.sse2 {
            Finding::ok(
                "bucket table",
                "compares the tags of a bucket in four steps (SSE2, no AVX2)",
            )
        } else {
            Finding::note(
                "bucket table",
                "compares the tags of a bucket one by one: no vector instructions",
            )
        },
        if has.sse42 {
            Finding::ok("CRC32C", "by the CRC32 instruction (SSE4.2)")
        } else {
            Finding::note(
                "CRC32C",
                "by table: no CRC32 instruction; --hash keyed is faster",
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::system::fake::FakeSystem;
    use super::*;

    #[test]
    fn each_fallback_is_named() {
        let tree = FakeSystem::new(&[("proc/cpuinfo", "model name\t: AMD EPYC\nflags\t\t: aes\n")]);
        let texts = |has| -> Vec<String> {
            findings(&tree.system(), has)
                .into_iter()
                .map(|finding| finding.text)
                .collect()
        };
        let all = Instructions {
            aes: true,
            vaes: true,
            avx512f: true,
            avx512bw: true,
            avx512vbmi2: true,
            avx2: true,
            bmi1: true,
            gfni: true,
            sse2: true,
            sse42: true,
        };
        assert_eq!(texts(all)[0], "AMD EPYC");
        assert!(texts(all)[1].contains("VAES): four"));
        assert!(texts(all)[2].contains("sixteen flow keys"));
        assert!(texts(all)[3].contains("at once"));
        let newer = Instructions {
            avx512f: false,
            avx512bw: false,
            avx512vbmi2: false,
            ..all
        };
        assert!(texts(newer)[1].contains("one flow key"));
        assert!(texts(newer)[2].contains("by tables"));
        assert!(texts(newer)[3].contains("two steps"));
        let old = Instructions {
            avx2: false,
            ..newer
        };
        assert!(texts(old)[3].contains("four steps"));
        let none = findings(&tree.system(), Instructions::default());
        // Toeplitz by tables needs no special instructions.
        let fallbacks = none[1..]
            .iter()
            .filter(|finding| finding.subject != "Toeplitz hash");
        assert!(
            fallbacks
                .clone()
                .all(|finding| finding.status == Status::Note)
        );
        assert_eq!(fallbacks.count(), 3);
    }
}
