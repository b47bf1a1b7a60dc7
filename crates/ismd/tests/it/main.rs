//! The daemon as its clients meet it: started, asked over its socket, attacked, killed.

mod attacks;
mod daemon;
mod fabrics;
mod lifecycle;
mod log;
mod passing;
mod raw;
mod slow;
mod strangers;
