//! How the rest of this room reaches what it remembers of its process. Owns: that there is one way, and that
//! nobody who takes it names where all of it lies (`state`, above everybody).

/// A part of what is remembered, defined by the module that keeps it.
pub(crate) trait Part: Sized + 'static {
    /// The one of the process that runs.
    fn here() -> &'static Self;
}
