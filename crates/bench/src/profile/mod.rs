//! uperf's profiles: what to do over which connections, as a file in uperf's own notation.
//!
//! [`model`] and [`options`] hold the plain values; they know nothing of the file, except the place that an error should point at.

pub(crate) mod model;
pub(crate) mod options;
