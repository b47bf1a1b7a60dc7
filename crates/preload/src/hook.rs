//! From outcomes to C: the macros that write a hook. Owns: a hook is one outcome, and libc's function where
//! that says so.

pub(crate) use crate::errno::{errno_location, fail, from_raw, last};
use socket::Outcome;

/// The value a C function returns for a finished outcome; `None` for "call libc".
#[inline]
pub(crate) fn finish(outcome: Outcome) -> Option<isize> {
    match outcome {
        Outcome::Done(value) => Some(value as isize),
        Outcome::Fail(errno) => Some(fail(errno)),
        Outcome::Forward => None,
    }
}

/// Declares exported functions on a descriptor that are libc's at once if the descriptor is unknown here: a
/// look at the table and a jump. The rest is as with [`hooks!`].
macro_rules! descriptor_hooks {
    ($( fn $name:ident [$($alias:ident)*] $args:tt -> $ret:ty $body:block )*) => { $(
        $crate::hook::descriptor_hooks!(@one $name, $args, $ret, $body);
        $( $crate::hook::hooks!(@alias $alias, $name, $args, $ret); )*
    )* };
    (@one $name:ident, ($fd:ident : c_int $(, $arg:ident : $ty:ty)*), $ret:ty, $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($fd: c_int $(, $arg: $ty)*) -> $ret {
            #[inline(never)]
            unsafe fn known($fd: c_int $(, $arg: $ty)*) -> $ret {
                if let Some(value) = $crate::hook::finish($body) {
                    return value as $ret;
                }
                // SAFETY: the program's own arguments go to the function it meant.
                unsafe { $crate::real::forward::$name($fd $(, $arg)*) }
            }
            #[cold]
            #[inline(never)]
            unsafe fn known_whole($fd: c_int $(, $arg: $ty)*) -> $ret {
                let _whole = $crate::cancel::whole();
                // SAFETY: the caller's contract.
                unsafe { known($fd $(, $arg)*) }
            }
            if socket::table::is_empty($fd) {
                // SAFETY: as above.
                return unsafe { $crate::real::forward::$name($fd $(, $arg)*) };
            }
            if $crate::cancel::is_anywhere() {
                // SAFETY: the caller's contract.
                return unsafe { known_whole($fd $(, $arg)*) };
            }
            // SAFETY: the caller's contract.
            unsafe { known($fd $(, $arg)*) }
        }
    };
}
pub(crate) use descriptor_hooks;

/// The same of calls at which a thread may be cancelled.
macro_rules! data_hooks {
    ($( fn $name:ident [$($alias:ident)*] $args:tt -> $ret:ty $body:block )*) => {
        $crate::hook::descriptor_hooks! {
            $( fn $name [$($alias)*] $args -> $ret { $crate::cancel::point(); $body } )*
        }
    };
}
pub(crate) use data_hooks;

/// Declares exported functions that ask an outcome first and forward to libc if it is not theirs:
/// `fn name [alias] (args) -> ret { outcome }`. Aliases export the same body under other names.
macro_rules! hooks {
    ($( fn $name:ident [$($alias:ident)*] $args:tt -> $ret:ty $body:block )*) => { $(
        $crate::hook::hooks!(@one $name, $args, $ret, $body);
        $( $crate::hook::hooks!(@alias $alias, $name, $args, $ret); )*
    )* };
    (@one $name:ident, ($($arg:ident : $ty:ty),*), $ret:ty, $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            let whole = $crate::cancel::whole();
            if let Some(value) = $crate::hook::finish($body) {
                return value as $ret;
            }
            drop(whole);
            // SAFETY: the program's own arguments go to the function it meant.
            unsafe { $crate::real::forward::$name($($arg),*) }
        }
    };
    (@alias $alias:ident, $name:ident, ($($arg:ident : $ty:ty),*), $ret:ty) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $alias($($arg: $ty),*) -> $ret {
            // SAFETY: the same contract under another name.
            unsafe { $name($($arg),*) }
        }
    };
}
pub(crate) use hooks;
