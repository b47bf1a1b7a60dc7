//! Another process that does steps: the puppet, and the children that either forks. Invariant: one line asks,
//! one line answers.

use isthmus_tests::sys;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

pub(crate) struct Remote {
    pid: i32,
    to: File,
    from: BufReader<File>,
}

impl Remote {
    /// This program once more, as the puppet.
    pub(crate) fn puppet() -> Remote {
        Remote::fork(|from, to| {
            let (from, to) = (Stdio::from(from), Stdio::from(to));
            let error = Command::new("/proc/self/exe").arg("puppet").stdin(from).stdout(to).exec();
            panic!("no puppet: {error}");
        })
    }

    /// A child that is given both ends of its talk.
    pub(crate) fn fork(child: impl FnOnce(File, File)) -> Remote {
        let ((asked, to), (from, answers)) = (sys::pipe(libc::O_CLOEXEC), sys::pipe(libc::O_CLOEXEC));
        let file = |fd| File::from(sys::owned(fd));
        let pid = sys::fork(|| {
            let _ = (sys::close(to), sys::close(from));
            child(file(asked), file(answers));
            0
        });
        let _ = (sys::close(asked), sys::close(answers));
        Remote { pid, to: file(to), from: BufReader::new(file(from)) }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.to, "{line}").expect("whom we tell lives");
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        let _ = self.from.read_line(&mut line);
        if line.is_empty() { "(no answer)".into() } else { line.trim_end().into() }
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Ends it: how it ended.
    pub(crate) fn end(self) -> String {
        let Remote { pid, to, from } = self;
        drop((to, from));
        sys::wait(pid)
    }
}
