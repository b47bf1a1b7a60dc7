//! Functions of libc by their names in the dynamic symbol table: those that no header declares (`__read_chk`,
//! which a fortified program calls for `read`) and those that the `libc` crate lacks. What the dynamic linker
//! finds is what such a program calls.

use super::{Errno, Ret, ret, ret32};
use std::ffi::{CStr, CString, c_char};

type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> isize;

/// A function that was found.
#[derive(Clone, Copy)]
pub struct Named(Function);

impl Named {
    /// The function of this name, if libc or a library before it has one.
    pub fn find(name: &str) -> Option<Named> {
        find(name).map(Named)
    }

    /// What it returns, before anybody looks at errno. To be used as `syscall(2)` by [`super::call`]:
    /// addresses are those of live locals, of the type and size that the function wants.
    pub fn call(self, args: &[usize]) -> isize {
        let arg = |i: usize| args.get(i).copied().unwrap_or(0);
        // SAFETY: the tests pass what the function of this name wants; arguments too many are not looked at.
        unsafe { self.0(arg(0), arg(1), arg(2), arg(3), arg(4), arg(5), arg(6)) }
    }
}

/// Calls a function that returns a `long`, as [`Named::call`].
pub fn long_by_name(name: &str, args: &[usize]) -> Ret {
    Named::find(name).map_or(Err(Errno(libc::ENOSYS)), |function| ret(function.call(args)))
}

/// The same of a function that returns an `int`.
pub fn int_by_name(name: &str, args: &[usize]) -> Ret {
    Named::find(name).map_or(Err(Errno(libc::ENOSYS)), |function| ret32(function.call(args) as i32))
}

fn find(name: &str) -> Option<Function> {
    let name = CString::new(name).expect("no NUL");
    // SAFETY: a NUL-terminated name, looked up from the program on.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: functions take their integers and pointers as this type says, whatever their own says.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Function>(found) })
}

/// A NULL-terminated array of strings, as exec wants it.
pub fn strings(texts: &[&CStr]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Address of the environment of this process.
pub fn environment() -> usize {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: libc's own variable; the tests that ask do not change the environment.
    unsafe { environ }.addr()
}

/// `posix_spawnp(3)` of `sh -c TEXT`, with `fd` as its standard input and output. Its process id.
pub fn spawn_shell(text: &str, fd: super::Fd) -> Ret {
    let text = CString::new(text).expect("no NUL");
    let args = strings(&[c"sh", c"-c", &text]);
    // SAFETY: the actions are initialised before they are used, and all pointers are of live locals.
    unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawn_file_actions_adddup2(&mut actions, fd, 0);
        libc::posix_spawn_file_actions_adddup2(&mut actions, fd, 1);
        let mut pid = 0;
        let (args, env) = (args.as_ptr().cast(), environment() as *const *mut c_char);
        let failure = libc::posix_spawnp(&mut pid, c"sh".as_ptr(), &actions, std::ptr::null(), args, env);
        libc::posix_spawn_file_actions_destroy(&mut actions);
        if failure == 0 { Ok(pid as usize) } else { Err(Errno(failure)) }
    }
}

/// A message of one vector, as the first of a row.
pub fn message_of(vector: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: null pointers and zeros are a message without an address and control data.
    let mut row: libc::mmsghdr = unsafe { std::mem::zeroed() };
    row.msg_hdr.msg_iov = vector;
    row.msg_hdr.msg_iovlen = 1;
    row
}
