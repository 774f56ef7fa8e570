//! Crypto-PAn against the sample trace of the original implementation, and against its defining
//! property.

use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;

/// The key of the sample in the original implementation.
const SAMPLE_KEY: [u8; KEY_BYTES] = [
    21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121,
    121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
];

/// The addresses of that sample and their replacements.
const SAMPLE: &str = "
128.11.68.132 135.242.180.132
129.118.74.4 134.136.186.123
130.132.252.244 133.68.164.234
141.223.7.43 141.167.8.160
141.233.145.108 141.129.237.235
152.163.225.39 151.140.114.167
156.29.3.236 147.225.12.42
165.247.96.84 162.9.99.234
166.107.77.190 160.132.178.185
192.102.249.13 252.138.62.131
192.215.32.125 252.43.47.189
192.233.80.103 252.25.108.8
192.41.57.43 252.222.221.184
193.150.244.223 253.169.52.216
195.205.63.100 255.186.223.5
198.200.171.101 249.199.68.213
198.26.132.101 249.36.123.202
198.36.213.5 249.7.21.132
198.51.77.238 249.18.186.254
199.217.79.101 248.38.184.213
202.49.198.20 245.206.7.234
203.12.160.252 244.248.163.4
204.184.162.189 243.192.77.90
204.202.136.230 243.178.4.198
204.29.20.4 243.33.20.123
205.178.38.67 242.108.198.51
205.188.147.153 242.96.16.101
205.188.248.25 242.96.88.27
205.245.121.43 242.21.121.163
207.105.49.5 241.118.205.138
207.135.65.238 241.202.129.222
207.155.9.214 241.220.250.22
207.188.7.45 241.255.249.220
207.25.71.27 241.33.119.156
207.33.151.131 241.1.233.131
208.147.89.59 227.237.98.191
208.234.120.210 227.154.67.17
208.28.185.184 227.39.94.90
208.52.56.122 227.8.63.165
209.12.231.7 226.243.167.8
209.238.72.3 226.6.119.243
209.246.74.109 226.22.124.76
209.68.60.238 226.184.220.233
209.85.249.6 226.170.70.6
212.120.124.31 228.135.163.231
212.146.8.236 228.19.4.234
212.186.227.154 228.59.98.98
212.204.172.118 228.71.195.169
212.206.130.201 228.69.242.193
216.148.237.145 235.84.194.111
216.157.30.252 235.89.31.26
216.184.159.48 235.96.225.78
216.227.10.221 235.28.253.36
216.254.18.172 235.7.16.162
216.32.132.250 235.192.139.38
216.35.217.178 235.195.157.81
24.0.250.221 100.15.198.226
24.13.62.231 100.2.192.247
24.14.213.138 100.1.42.141
24.5.0.80 100.9.15.210
24.7.198.88 100.10.6.25
24.94.26.44 100.88.228.35
38.15.67.68 64.3.66.187
4.3.88.225 124.60.155.63
63.14.55.111 95.9.215.7
63.195.241.44 95.179.238.44
63.97.7.140 95.97.9.123
64.14.118.196 0.255.183.58
64.34.154.117 0.221.154.117
64.39.15.238 0.219.7.41
10.185.25.118 117.161.29.118
";

/// IPv6 results of other implementations with the same key.
const SAMPLE_V6: &str = "
::1 78ff:f001:9fc0:20df:8380:b1f1:704:ed
::2 78ff:f001:9fc0:20df:8380:b1f1:704:ef
::ffff 78ff:f001:9fc0:20df:8380:b1f1:704:f838
2001:db8::1 4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e
2001:db8::2 4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c
";

fn pairs<T: core::str::FromStr<Err: core::fmt::Debug>>(text: &str) -> Vec<(T, T)> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(original, replacement)| (original.parse().unwrap(), replacement.parse().unwrap()))
        .collect()
}

#[test]
fn matches_the_sample_of_the_original() {
    let cipher = CryptoPan::new(&SAMPLE_KEY);
    let sample = pairs::<Ipv4Addr>(SAMPLE);
    assert_eq!(sample.len(), 71);
    for (original, replacement) in sample {
        assert_eq!(
            Ipv4Addr::from(cipher.ipv4(original.into())),
            replacement,
            "{original}"
        );
    }
    let sample = pairs::<Ipv6Addr>(SAMPLE_V6);
    assert_eq!(sample.len(), 5);
    for (original, replacement) in sample {
        assert_eq!(
            Ipv6Addr::from(cipher.ipv6(original.into())),
            replacement,
            "{original}"
        );
    }
}

#[test]
fn reads_keys_as_bytes_and_as_digits() {
    let digits: String = SAMPLE_KEY
        .iter()
        .enumerate()
        .map(|(position, byte)| format!("{byte:02X}{}", if position == 15 { "\n" } else { "" }))
        .collect();
    for contents in [SAMPLE_KEY.to_vec(), format!("{digits}\n").into_bytes()] {
        let cipher = CryptoPan::from_file_contents(&contents).unwrap();
        assert_eq!(cipher.ipv4(0x800b_4484), 0x87f2_b484);
    }
    let refused = |contents: &[u8]| CryptoPan::from_file_contents(contents).unwrap_err();
    assert_eq!(refused(b""), KeyError::Length(0));
    assert_eq!(refused(&[1; 33]), KeyError::Length(33));
    assert_eq!(refused(&[b'g'; 64]), KeyError::Digits);
    assert_eq!(refused(&[b'0'; 65]), KeyError::Length(65));
}

proptest! {
    /// Two addresses and their replacements share a prefix of the same length; so the mapping is
    /// one-to-one.
    #[test]
    fn preserves_prefixes(key: [u8; KEY_BYTES], first: u128, difference: u128, length in 0_u32..=128) {
        let cipher = CryptoPan::new(&key);
        let second = first ^ difference.checked_shr(length).unwrap_or_default();
        let common = (first ^ second).leading_zeros();
        prop_assert_eq!((cipher.ipv6(first) ^ cipher.ipv6(second)).leading_zeros(), common);
        let (first, second) = ((first >> 96) as u32, (second >> 96) as u32);
        let common = (first ^ second).leading_zeros();
        prop_assert_eq!((cipher.ipv4(first) ^ cipher.ipv4(second)).leading_zeros(), common);
    }

    /// The first 32 bits of both families are flipped alike.
    #[test]
    fn ipv4_equals_the_first_32_bits_of_ipv6(key: [u8; KEY_BYTES], address: u32) {
        let cipher = CryptoPan::new(&key);
        let wide = cipher.ipv6(u128::from(address) << 96);
        prop_assert_eq!((wide >> 96) as u32, cipher.ipv4(address));
    }
}
