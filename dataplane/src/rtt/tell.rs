//! What is for the host's log. This crate writes to none: a line goes to whoever has started the data plane, from a
//! thread that may wait for it.

/// Takes lines for the host's log. Called by a control thread, never by a core.
pub type Tell = Box<dyn FnMut(Severity, &str) + Send>;

/// How much a line for the host's log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For looking into something.
    Debug,
    /// Good to know.
    Info,
    /// Something does not work as it should; all else does.
    Warn,
}
