//! What every kind of live source (`-i`) provides: one file of `sources` for each.

use crate::arguments::WatchArguments;
use crate::arguments::input::{DpdkArguments, InputArguments};
use crate::doctor::finding::Finding;
use crate::doctor::system::System;
use engine::{Options, Stop};
use port::{Port, PortError, Transmit};
use std::any::Any;

/// The receiving and the sending end of a link.
pub(crate) type Duplex = (Box<dyn Port>, Box<dyn Transmit>);

/// Keeps what [`SourceKind::prepare`] started alive until the sources are open.
pub(crate) type Prepared = Box<dyn Any>;

/// How `watch` opens its sources.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "some options are for DPDK devices only")
)]
pub(crate) struct LiveOptions<'a> {
    /// Receiving threads per source.
    pub(crate) queues: usize,
    pub(crate) input: &'a InputArguments,
    pub(crate) dpdk: &'a DpdkArguments,
    /// The options of the engine: its acquisition decides how to poll, its flow definition how a device
    /// distributes packets to its queues.
    pub(crate) engine: &'a Options,
    /// Whether to print the logs of drivers.
    pub(crate) verbose: bool,
}

/// What of the kernel's interfaces a source receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelLink {
    /// Index of the interface; `None` for all of them.
    pub(crate) index: Option<u32>,
    /// One receive queue; `None` for all of them.
    pub(crate) queue: Option<u16>,
}

/// A kind of live source.
pub(crate) trait SourceKind: Sync {
    /// Name in messages, plural, with an example.
    fn label(&self) -> &'static str;

    /// Whether a name after `-i` is of this kind.
    fn matches(&self, name: &str) -> bool;

    /// The flags of [`super::flags`] that apply.
    fn flags(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether several threads can receive from one source (`--queues`).
    fn has_queues(&self) -> bool {
        true
    }

    /// Whether both directions of a conversation are in the queue of the same number, on all sources.
    fn has_same_hash_on_all(&self) -> bool {
        false
    }

    /// Whether arguments after `--` are for this kind.
    fn takes_eal_arguments(&self) -> bool {
        false
    }

    /// Checks how the flags of `watch` combine.
    ///
    /// # Errors
    /// A one-line message.
    fn check(&self, _arguments: &WatchArguments) -> Result<(), String> {
        Ok(())
    }

    /// What a source receives from the kernel; `None` if nothing, or if it does not exist.
    fn kernel_link(&self, _name: &str) -> Option<KernelLink> {
        None
    }

    /// Starts what is needed to open the sources, and checks the number of queues. Called before the
    /// flow tables are allocated, which takes a while.
    ///
    /// # Errors
    /// If opening the sources would fail.
    fn prepare(
        &self,
        _names: &[&str],
        _options: &LiveOptions<'_>,
    ) -> Result<Option<Prepared>, PortError> {
        Ok(None)
    }

    /// Opens sources: [`LiveOptions::queues`] ports for each name, in order.
    ///
    /// # Errors
    /// If a source cannot be opened.
    fn open(
        &self,
        names: &[&str],
        options: &LiveOptions<'_>,
    ) -> Result<Vec<Box<dyn Port>>, PortError>;

    /// Opens one port that receives what `gen` sent.
    ///
    /// # Errors
    /// If the source cannot be opened.
    fn open_receiver(&self, name: &str, eal: &[String]) -> Result<Box<dyn Port>, PortError>;

    /// Whether frames of any link type can be sent, not only Ethernet frames.
    fn sends_any_link_type(&self) -> bool {
        false
    }

    /// Opens a source to send on. Waits for its link to come up, unless `stop` is requested.
    ///
    /// # Errors
    /// If it cannot be opened or cannot send.
    fn open_sender(
        &self,
        name: &str,
        eal: &[String],
        stop: &Stop,
    ) -> Result<Box<dyn Transmit>, PortError>;

    /// Opens a source to receive and send; waits as [`SourceKind::open_sender`] does.
    ///
    /// # Errors
    /// If it cannot be opened or cannot do both.
    fn open_both(&self, name: &str, eal: &[String], stop: &Stop) -> Result<Duplex, PortError>;

    /// What `doctor` reports: the title of a section, and findings for it.
    fn findings(&self, _system: &System) -> Option<(&'static str, Vec<Finding>)> {
        None
    }
}
