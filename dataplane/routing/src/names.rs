//! The names of an enum's variants, said once: what configuration, metrics and answers call them.
//!
//! Whoever adds a variant is told by the compiler that it has no name, and with its name it is among all of them.

/// Gives an enum `ALL` and `as_str`.
macro_rules! names {
    ($kind:ty { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $kind {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Its name in configuration, metrics and answers.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

pub(crate) use names;
