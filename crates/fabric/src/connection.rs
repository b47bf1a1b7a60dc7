//! The rows of connections, under the name by which callers know them. Owns: nothing; see [`crate::rows`].

pub use crate::rows::{Connections, Intent, RowId};
