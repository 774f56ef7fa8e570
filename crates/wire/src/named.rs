//! Enums whose members have a stable name and can be listed.

/// Makes an enum of `u8` members with `ALL`, `COUNT` and `name` from one table of members.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $enum:ident {
            $( $(#[$member_meta:meta])* $member:ident => $name:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $enum {
            $( $(#[$member_meta])* $member, )+
        }

        impl $enum {
            /// Every member, at the index that `as usize` gives it.
            pub const ALL: &'static [Self] = &[$(Self::$member),+];

            /// How many members there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The member's name in every output: snake case, and stable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$member => $name, )+
                }
            }
        }
    };
}

pub(crate) use named;
