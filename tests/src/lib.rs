//! Shared helpers of the black-box tests.
