//! How a device is named on the command line.

use std::ffi::CString;
use std::fmt;

/// A device and its arguments: `0000:3b:00.0`, `net_memif0,role=client`, or the number of a port
/// that the EAL arguments made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    name: String,
    arguments: String,
    kind: Kind,
}

/// Where a device comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A card.
    Pci,
    /// Made by a driver from its name.
    Virtual,
    /// A port that is there once the EAL has started.
    Port(u16),
}

impl DeviceName {
    /// Reads what follows `dpdk:`.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, arguments) = text.split_once(',').unwrap_or((text, ""));
        if name.is_empty() || text.contains('\0') {
            return Err(
                "dpdk: needs a device, as in dpdk:0000:3b:00.0 or dpdk:net_memif0,role=client"
                    .into(),
            );
        }
        if name.contains('@') {
            return Err(format!(
                "dpdk:{name}: a device has no @, and one of its queues cannot be watched alone; --queues N reads N of \
                 them"
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
                    "dpdk:{text}: a port's number takes no arguments; they belong to its device"
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

    /// A card made of software, which has a port already.
    pub(super) fn of_software(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            arguments: String::new(),
            kind: Kind::Virtual,
        }
    }

    /// The device without its arguments.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What follows the name.
    pub(super) fn arguments(&self) -> &str {
        &self.arguments
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The device with its arguments, as DPDK takes it.
    pub(super) fn whole(&self) -> String {
        if self.arguments.is_empty() {
            self.name.clone()
        } else {
            format!("{},{}", self.name, self.arguments)
        }
    }

    /// The same for C. (Parsing has refused a zero byte.)
    pub(super) fn whole_c(&self) -> CString {
        CString::new(self.whole()).unwrap_or_default()
    }

    /// The name for C.
    pub(super) fn name_c(&self) -> CString {
        CString::new(self.name.clone()).unwrap_or_default()
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dpdk:{}", self.name)
    }
}

/// A PCI address in full, with the domain that people leave out.
fn pci_address(text: &str) -> Option<String> {
    let (before, function) = text.rsplit_once('.')?;
    let mut parts = before.rsplitn(3, ':');
    let (device, bus) = (parts.next()?, parts.next()?);
    let domain = parts.next().unwrap_or("0000");
    let hexadecimal = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let sound = hexadecimal(domain, 8)
        && hexadecimal(bus, 2)
        && hexadecimal(device, 2)
        && hexadecimal(function, 1);
    sound.then(|| {
        let text = format!("{domain:0>4}:{bus:0>2}:{device:0>2}.{function}");
        text.to_ascii_lowercase()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_virtual_devices_and_numbers() {
        let parse = |text| {
            let device = DeviceName::parse(text).unwrap();
            (device.whole(), device.kind())
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
    fn what_names_nothing_is_refused() {
        for text in ["", ",x=1", "70000", "3,x=1", "a\0b", "net_null0@1"] {
            assert!(DeviceName::parse(text).is_err(), "{text:?}");
        }
    }
}
