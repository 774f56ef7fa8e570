//! Device names of the command line.

use std::ffi::CString;
use std::fmt;

/// A device and its arguments: `0000:3b:00.0`, `net_memif0,role=client`, or the number of a port that
/// EAL arguments created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    name: String,
    arguments: String,
    kind: Kind,
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A PCI device.
    Pci,
    /// A virtual device, created by a driver.
    Virtual,
    /// A port that exists after the EAL has started.
    Port(u16),
}

impl DeviceName {
    /// Parses the part after `dpdk:`.
    ///
    /// # Errors
    /// If it is not a valid name; the message is one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, arguments) = text.split_once(',').unwrap_or((text, ""));
        if name.is_empty() || text.contains('\0') {
            return Err(
                "dpdk: missing device, as in dpdk:0000:3b:00.0 or dpdk:net_memif0,role=client"
                    .into(),
            );
        }
        if name.contains('@') {
            return Err(format!(
                "dpdk:{name}: a single queue (@) cannot be selected with DPDK; --queues N reads N queues"
            ));
        }
        let (name, kind) = if let Some(address) = pci_address(name) {
            (address, Kind::Pci)
        } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
            let port = name
                .parse()
                .map_err(|_| format!("dpdk:{name}: no such port"))?;
            if !arguments.is_empty() {
                return Err(format!(
                    "dpdk:{text}: a port number takes no arguments; give them to its device"
                ));
            }
            (name.to_owned(), Kind::Port(port))
        } else {
            (name.to_owned(), Kind::Virtual)
        };
        Ok(Self {
            name,
            arguments: arguments.to_owned(),
            kind,
        })
    }

    /// Names a software NIC, whose port exists already.
    pub(super) fn for_software_nic(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            arguments: String::new(),
            kind: Kind::Virtual,
        }
    }

    /// The name without arguments.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments.
    pub(super) fn arguments(&self) -> &str {
        &self.arguments
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The name with arguments, as DPDK expects it.
    pub(super) fn full(&self) -> String {
        if self.arguments.is_empty() {
            self.name.clone()
        } else {
            format!("{},{}", self.name, self.arguments)
        }
    }

    /// The name with arguments as a C string. (Parsing rejects a NUL byte.)
    pub(super) fn full_c(&self) -> CString {
        CString::new(self.full()).unwrap_or_default()
    }

    /// The name as a C string.
    pub(super) fn name_c(&self) -> CString {
        CString::new(self.name.clone()).unwrap_or_default()
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dpdk:{}", self.name)
    }
}

/// Completes a PCI address, whose domain may be omitted.
fn pci_address(text: &str) -> Option<String> {
    let (before, function) = text.rsplit_once('.')?;
    let mut parts = before.rsplitn(3, ':');
    let (device, bus) = (parts.next()?, parts.next()?);
    let domain = parts.next().unwrap_or("0000");
    let is_hexadecimal = |text: &str, digits_max: usize| {
        (1..=digits_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_valid = is_hexadecimal(domain, 8)
        && is_hexadecimal(bus, 2)
        && is_hexadecimal(device, 2)
        && is_hexadecimal(function, 1);
    is_valid.then(|| {
        let text = format!("{domain:0>4}:{bus:0>2}:{device:0>2}.{function}");
        text.to_ascii_lowercase()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_pci_virtual_and_numbered_devices() {
        let parse = |text| {
            let device = DeviceName::parse(text).unwrap();
            (device.full(), device.kind())
        };
        assert_eq!(parse("3B:0.1"), ("0000:3b:00.1".into(), Kind::Pci));
        assert_eq!(
            parse("10000:3b:00.0,x=1"),
            ("10000:3b:00.0,x=1".into(), Kind::Pci)
        );
        let memif = "net_memif0,role=client,socket=/run/a.b";
        assert_eq!(parse(memif), (memif.into(), Kind::Virtual));
        assert_eq!(parse("7"), ("7".into(), Kind::Port(7)));
        assert_eq!(
            DeviceName::parse("3b:00.0").unwrap().to_string(),
            "dpdk:0000:3b:00.0"
        );
    }

    #[test]
    fn rejects_invalid_names() {
        for text in ["", ",x=1", "70000", "3,x=1", "a\0b", "net_null0@1"] {
            assert!(DeviceName::parse(text).is_err(), "{text:?}");
        }
    }
}
