//! Placeholder until the reader of the registry is written.
