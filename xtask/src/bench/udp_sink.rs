//! A UDP collector that discards datagrams and counts their bytes.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

/// Holds all the records that softflowd sends without a pause at the end of a capture.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// How often the thread checks whether it should stop.
const POLL: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Counters {
    stop: AtomicBool,
    bytes: AtomicU64,
}

pub(crate) struct UdpSink {
    address: SocketAddr,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl UdpSink {
    pub(crate) fn start() -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(POLL))?;
        // The size is above the limit for unprivileged users. Without the permission some datagrams
        // are lost, which makes the output size too small and changes no cost.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES);
        let address = socket.local_addr()?;
        let counters = Arc::new(Counters::default());
        let seen = Arc::clone(&counters);
        let thread = std::thread::spawn(move || {
            let mut datagram = vec![0; 65_536];
            while !seen.stop.load(Ordering::Relaxed) {
                // An error is a timeout here: an unconnected socket reports no others.
                if let Ok(length) = socket.recv(&mut datagram) {
                    seen.bytes.fetch_add(length as u64, Ordering::Relaxed);
                }
            }
        });
        Ok(Self {
            address,
            counters,
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes received since the last call.
    pub(crate) fn take_bytes(&self) -> u64 {
        self.counters.bytes.swap(0, Ordering::Relaxed)
    }
}

impl Drop for UdpSink {
    fn drop(&mut self) {
        self.counters.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, its counts are too small and nothing else is affected.
            let _ = thread.join();
        }
    }
}
