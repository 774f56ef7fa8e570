//! Views of fixed-length headers.

/// Makes a view of the first `LENGTH` bytes of a packet. Its fields are read in an `impl` beside it
/// (see [`field`](crate::field)).
macro_rules! view {
    (
        $(#[$meta:meta])*
        pub struct $view:ident($length:expr);
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $view<'a>(&'a [u8; $length]);

        impl<'a> $view<'a> {
            /// Bytes of the view.
            pub const LENGTH: usize = $length;

            /// Splits the view off.
            ///
            /// # Errors
            /// [`Cut`](crate::packet_view::Cut) where they are not whole.
            #[inline]
            pub fn split(
                packet: crate::packet_view::PacketView<'a>,
            ) -> Result<(Self, crate::packet_view::PacketView<'a>), crate::packet_view::Cut> {
                let (header, rest) = packet.split()?;
                Ok((Self(header), rest))
            }
        }
    };
}

pub(crate) use view;
