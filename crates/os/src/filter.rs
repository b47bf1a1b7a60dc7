//! What a filter of system calls (seccomp(2), `linux/seccomp.h`, `linux/filter.h`) will say of the calls that
//! we make beside the program's own. Owns: that it is asked before the kernel has it, for behind it to ask is
//! to be refused, or killed.
//!
//! A program of the classic kind: its jumps go forward only, so that it ends.

use crate::raw::nr;

/// `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to leave out, if so and if not.
    pub jumps: [u8; 2],
    /// The operand.
    pub k: u32,
}

/// `struct seccomp_data`: 64 bytes, as words.
type Data = [u32; 16];

const MEMORY: usize = 16;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

const KILL: u32 = 0;
const ERRNO: u32 = 0x0005_0000;
const LOG: u32 = 0x7FFC_0000;
const ALLOW: u32 = 0x7FFF_0000;
const ACTION: u32 = 0xFFFF_0000;

/// What a filter leaves us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// What a shared connection needs: to sleep until somebody rings, to ring, memory for a set, to look at
    /// the time, and to know who we are. Of the time an error for an answer is no harm; anything else is.
    pub enough: bool,
    /// To ask for the process id.
    pub process_id: bool,
    /// What an epoll set with shared connections needs besides: to change its records.
    pub enough_for_sets: bool,
}

impl Left {
    /// What there is without a filter.
    pub const ALL: Left = Left { enough: true, process_id: true, enough_for_sets: true };
}

/// What `filter` leaves us.
pub fn left_by(filter: &[Instruction]) -> Left {
    const NUMBER: usize = 1000;
    const PLACE: usize = 0x7FFF_0000_0000;
    const READ_AND_WRITE: usize = 3;
    const PRIVATE: usize = 0x22;
    let says = |number: u32, args: [usize; 6]| run(filter, &data(number, args)) & ACTION;
    let allows = |said: u32| matches!(said, ALLOW | LOG);
    let needed = [
        #[cfg(target_arch = "x86_64")]
        says(nr::__NR_poll, [PLACE, 2, 1000, 0, 0, 0]),
        says(nr::__NR_ppoll, [PLACE, 2, PLACE, 0, 8, 0]),
        says(nr::__NR_read, [NUMBER, PLACE, 64, 0, 0, 0]),
        says(nr::__NR_write, [NUMBER, PLACE, 1, 0, 0, 0]),
        says(nr::__NR_mmap, [0, 4096, READ_AND_WRITE, PRIVATE, usize::MAX, 0]),
    ];
    let process_id = allows(says(nr::__NR_getpid, [0; 6]));
    let others = [
        says(nr::__NR_futex, [PLACE, nr::FUTEX_WAIT as usize, 0, PLACE, 0, 0]),
        says(nr::__NR_futex, [PLACE, nr::FUTEX_WAKE as usize, i32::MAX as usize, 0, 0, 0]),
        says(nr::__NR_clock_gettime, [nr::CLOCK_MONOTONIC as usize, PLACE, 0, 0, 0, 0]),
    ];
    let others_are_harmless = others.into_iter().all(|said| allows(said) || said == ERRNO);
    let enough_for_sets = allows(says(nr::__NR_epoll_ctl, [NUMBER, 3, NUMBER, PLACE, 0, 0]));
    let enough = process_id && needed.into_iter().all(allows) && others_are_harmless;
    Left { enough, process_id, enough_for_sets }
}

fn data(number: u32, args: [usize; 6]) -> Data {
    let mut data = [0; 16];
    (data[0], data[1]) = (number, ARCH);
    for (pair, arg) in data[4..].chunks_exact_mut(2).zip(args) {
        let arg = arg as u64;
        (pair[0], pair[1]) = if cfg!(target_endian = "little") {
            (arg as u32, (arg >> 32) as u32)
        } else {
            ((arg >> 32) as u32, arg as u32)
        };
    }
    data
}

/// The machine's registers.
struct Machine {
    a: u32,
    x: u32,
    memory: [u32; MEMORY],
}

/// What the filter answers; [`KILL`] for one that the kernel would not take.
fn run(filter: &[Instruction], data: &Data) -> u32 {
    let mut machine = Machine { a: 0, x: 0, memory: [0; MEMORY] };
    let mut at = 0;
    while let Some(instruction) = filter.get(at) {
        let Instruction { code, k, .. } = *instruction;
        at += 1;
        let is_known = match code & 7 {
            0 | 1 => machine.load(code, k, data).is_some(),
            2 | 3 => machine.store(code, k).is_some(),
            4 => machine.compute(code, k).is_some(),
            5 => machine.jump(instruction).map(|by| at += by).is_some(),
            6 => return if code & 0x18 == 0x10 { machine.a } else { k },
            _ if code & 0xF8 == 0x80 => {
                machine.a = machine.x;
                true
            }
            _ => {
                machine.x = machine.a;
                true
            }
        };
        if !is_known {
            break;
        }
    }
    KILL
}

impl Machine {
    /// BPF_LD and BPF_LDX.
    fn load(&mut self, code: u16, k: u32, data: &Data) -> Option<()> {
        let value = match code & 0xE0 {
            0x00 => k,
            0x20 => *data.get(k as usize / 4).filter(|_| k.is_multiple_of(4))?,
            0x60 => *self.memory.get(k as usize)?,
            0x80 => size_of::<Data>() as u32,
            _ => return None,
        };
        *(if code & 7 == 0 { &mut self.a } else { &mut self.x }) = value;
        Some(())
    }

    /// BPF_ST and BPF_STX.
    fn store(&mut self, code: u16, k: u32) -> Option<()> {
        *self.memory.get_mut(k as usize)? = if code & 7 == 2 { self.a } else { self.x };
        Some(())
    }

    fn operand(&self, code: u16, k: u32) -> u32 {
        if code & 8 == 0 { k } else { self.x }
    }

    /// BPF_ALU.
    fn compute(&mut self, code: u16, k: u32) -> Option<()> {
        let with = self.operand(code, k);
        self.a = match code & 0xF0 {
            0x00 => self.a.wrapping_add(with),
            0x10 => self.a.wrapping_sub(with),
            0x20 => self.a.wrapping_mul(with),
            0x30 => self.a.checked_div(with)?,
            0x40 => self.a | with,
            0x50 => self.a & with,
            0x60 => self.a.wrapping_shl(with),
            0x70 => self.a.wrapping_shr(with),
            0x80 => self.a.wrapping_neg(),
            0xA0 => self.a ^ with,
            _ => return None,
        };
        Some(())
    }

    /// BPF_JMP: how many instructions are left out.
    fn jump(&self, instruction: &Instruction) -> Option<usize> {
        let Instruction { code, jumps, k } = *instruction;
        let with = self.operand(code, k);
        let is_so = match code & 0xF0 {
            0x00 => return Some(k as usize),
            0x10 => self.a == with,
            0x20 => self.a > with,
            0x30 => self.a >= with,
            0x40 => self.a & with != 0,
            _ => return None,
        };
        Some(usize::from(jumps[usize::from(!is_so)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(code: u16, jumps: [u8; 2], k: u32) -> Instruction {
        Instruction { code, jumps, k }
    }

    /// Answers `said` for the calls of these numbers, and `otherwise` for others.
    fn filter(numbers: &[u32], said: u32, otherwise: u32) -> Vec<Instruction> {
        let mut all = vec![step(0x20, [0, 0], 0)];
        for number in numbers {
            all.push(step(0x15, [0, 1], *number));
            all.push(step(0x06, [0, 0], said));
        }
        all.push(step(0x06, [0, 0], otherwise));
        all
    }

    fn is_enough(filter: &[Instruction]) -> bool {
        left_by(filter).enough
    }

    #[test]
    fn who_may_not_ask_who_it_is_has_not_enough() {
        for said in [KILL, ERRNO | 1] {
            let left = left_by(&filter(&[nr::__NR_getpid], said, ALLOW));
            assert_eq!(left, Left { enough: false, process_id: false, enough_for_sets: true });
        }
        assert_eq!(left_by(&filter(&[nr::__NR_ppoll], KILL, ALLOW)), Left { enough: false, ..Left::ALL });
    }

    #[test]
    fn what_we_sleep_by_must_be_allowed_and_nothing_may_kill() {
        assert!(is_enough(&filter(&[], 0, ALLOW)));
        assert!(is_enough(&filter(&[nr::__NR_socket], KILL, ALLOW)));
        assert!(!is_enough(&filter(&[nr::__NR_ppoll], ERRNO | 1, ALLOW)));
        assert!(!is_enough(&filter(&[nr::__NR_write], ERRNO | 1, ALLOW)));
        assert!(is_enough(&filter(&[nr::__NR_futex], ERRNO | 1, ALLOW)));
        assert!(!is_enough(&filter(&[nr::__NR_futex], KILL, ALLOW)));
        assert!(!is_enough(&filter(&[nr::__NR_read, nr::__NR_write], ALLOW, KILL)));
        let without_sets = left_by(&filter(&[nr::__NR_epoll_ctl], KILL, ALLOW));
        assert_eq!(without_sets, Left { enough_for_sets: false, ..Left::ALL });
        assert!(!is_enough(&[]), "no filter at all is none that the kernel takes");
    }

    #[test]
    fn the_machine_computes_as_the_kernel_s_does() {
        let (seven, shifted) = (step(0x00, [0, 0], 7), step(0x64, [0, 0], 2));
        let answer = step(0x16, [0, 0], 0);
        assert_eq!(run(&[seven, shifted, answer], &data(0, [0; 6])), 28);
        // The third argument's halves, each by its place; kept in memory, and added by way of X.
        let halves = [
            step(0x20, [0, 0], 32),
            step(0x02, [0, 0], 3),
            step(0x20, [0, 0], 36),
            step(0x07, [0, 0], 0),
            step(0x60, [0, 0], 3),
            step(0x0C, [0, 0], 0),
            answer,
        ];
        assert_eq!(run(&halves, &data(0, [0, 0, 5 << 32 | 9, 0, 0, 0])), 14);
        let jumps =
            [step(0x05, [0, 0], 1), step(0x06, [0, 0], 1), step(0x00, [0, 0], 4), step(0x45, [0, 1], 4)];
        let ends = [step(0x06, [0, 0], 2), step(0x06, [0, 0], 3)];
        assert_eq!(run(&[&jumps[..], &ends[..]].concat(), &data(0, [0; 6])), 2);
        assert_eq!(
            run(&[step(0x34, [0, 0], 0), answer], &data(0, [0; 6])),
            KILL,
            "by nothing nobody divides"
        );
        assert_eq!(run(&[step(0x20, [0, 0], 64), answer], &data(0, [0; 6])), KILL, "there are 64 bytes");
    }
}
