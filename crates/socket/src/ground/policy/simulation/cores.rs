//! Cores and their scheduler, as far as waiters feel it. Owns: who runs where and when: the core that is
//! furthest behind is the next to act, so nobody sees a future.
//!
//! Who has run least runs next, for a slice; a yield goes behind the others; who is woken goes to an idle
//! core if there is one, else before somebody who has run far more; who is merely runnable moves to an idle
//! core at the next balancing only.

use super::{MS, Ns, US};

/// A task, by the order in which they began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TaskId(pub(super) usize);

const SLICE: Ns = 3 * MS;
/// Between two looks whether a core is idle.
const BALANCE_EVERY: Ns = 10 * MS;
const SWITCH: Ns = US;
/// Until an idle core runs who was woken.
const WAKE_UP: Ns = 2 * US;
/// A sleeper is so much better off than the others on its core, at most.
const SLEEPER_CREDIT: Ns = 3 * MS;
/// Who is better off by more takes the core at once.
const PREEMPT_FROM: Ns = MS;

struct Core {
    now: Ns,
    running: Option<TaskId>,
    queue: Vec<TaskId>,
    /// Since when the running one has the core.
    since: Ns,
}

struct Task {
    core: usize,
    /// How long it has run, or as if it had.
    ran: Ns,
    is_asleep: bool,
    /// When its sleep ends by itself.
    alarm: Option<Ns>,
}

pub(super) struct Cores {
    cores: Vec<Core>,
    tasks: Vec<Task>,
    next_alarm: Ns,
    next_balance: Ns,
}

/// Who may act, where and when.
pub(super) struct Slice {
    pub(super) core: usize,
    pub(super) task: TaskId,
    pub(super) now: Ns,
}

impl Cores {
    pub(super) fn new(count: usize) -> Self {
        let core = |_| Core { now: 0, running: None, queue: vec![], since: 0 };
        Cores {
            cores: (0..count).map(core).collect(),
            tasks: vec![],
            next_alarm: Ns::MAX,
            next_balance: BALANCE_EVERY,
        }
    }

    /// A new task on `core`.
    pub(super) fn begin(&mut self, core: usize) -> TaskId {
        let task = TaskId(self.tasks.len());
        self.tasks.push(Task { core, ran: 0, is_asleep: false, alarm: None });
        self.put(task, core, 0);
        task
    }

    pub(super) fn core_of(&self, task: TaskId) -> usize {
        self.tasks[task.0].core
    }

    /// Whose slice it is.
    pub(super) fn next(&mut self) -> Slice {
        loop {
            let busy = self.cores.iter().enumerate().filter(|(_, core)| core.running.is_some());
            let first = busy.min_by_key(|(_, core)| core.now).map(|(at, core)| (at, core.now));
            let now = first.map_or(self.next_alarm, |(_, now)| now);
            assert!(now < Ns::MAX, "everybody sleeps for ever");
            if self.next_alarm <= now {
                self.ring_alarms(self.next_alarm);
            } else if self.next_balance <= now {
                self.balance();
            } else if let Some((core, now)) = first
                && let Some(task) = self.cores[core].running
                && !self.end_slice(core)
            {
                return Slice { core, task, now };
            }
        }
    }

    /// The running task of `core` uses its time.
    pub(super) fn spend(&mut self, core: usize, time: Ns) {
        let Core { now, running, .. } = &mut self.cores[core];
        *now += time;
        if let Some(task) = running {
            self.tasks[task.0].ran += time;
        }
    }

    /// It has nothing to do before `then`, and keeps the core.
    pub(super) fn wait_until(&mut self, core: usize, then: Ns) {
        self.spend(core, then.saturating_sub(self.cores[core].now));
    }

    /// It yields: whoever else is there comes first.
    pub(super) fn give_away(&mut self, core: usize) {
        if !self.cores[core].queue.is_empty() {
            let running = self.cores[core].running.take();
            self.pick(core);
            self.cores[core].queue.extend(running);
        }
    }

    /// It sleeps, until it is woken or until `alarm`.
    pub(super) fn leave(&mut self, core: usize, alarm: Option<Ns>) {
        if let Some(task) = self.cores[core].running.take() {
            self.tasks[task.0].alarm = alarm;
            self.tasks[task.0].is_asleep = true;
            self.next_alarm = self.next_alarm.min(alarm.unwrap_or(Ns::MAX));
        }
        self.pick(core);
    }

    /// Wakes `task`, if its sleep has not ended by itself.
    pub(super) fn wake(&mut self, task: TaskId, now: Ns) {
        if !std::mem::take(&mut self.tasks[task.0].is_asleep) {
            return;
        }
        self.tasks[task.0].alarm = None;
        let old = self.tasks[task.0].core;
        let is_idle = |core: &usize| self.cores[*core].running.is_none();
        let core = Some(old).filter(is_idle).or_else(|| (0..self.cores.len()).find(is_idle)).unwrap_or(old);
        self.put(task, core, now);
    }

    fn put(&mut self, task: TaskId, core: usize, now: Ns) {
        let least = self.least_ran(core).map_or(0, |least| least.saturating_sub(SLEEPER_CREDIT));
        let is_foreign = self.tasks[task.0].core != core;
        let Task { core: at, ran, .. } = &mut self.tasks[task.0];
        *at = core;
        *ran = if is_foreign { least } else { (*ran).max(least) };
        let ran = *ran;
        match self.cores[core].running {
            None => {
                let idle = &mut self.cores[core];
                (idle.running, idle.now) = (Some(task), idle.now.max(now) + WAKE_UP);
                idle.since = idle.now;
            }
            Some(running) if self.tasks[running.0].ran > ran + PREEMPT_FROM => {
                self.cores[core].queue.extend([running, task]);
                self.pick(core);
            }
            Some(_) => self.cores[core].queue.push(task),
        }
    }

    fn least_ran(&self, core: usize) -> Option<Ns> {
        let Core { running, queue, .. } = &self.cores[core];
        running.iter().chain(queue).map(|task| self.tasks[task.0].ran).min()
    }

    /// Who has run least gets the core.
    fn pick(&mut self, core: usize) {
        let Core { now, running, queue, since } = &mut self.cores[core];
        let least = (0..queue.len()).min_by_key(|place| self.tasks[queue[*place].0].ran);
        *running = least.map(|place| queue.remove(place));
        *now += SWITCH;
        *since = *now;
    }

    /// Who has had the core for a slice makes room for somebody who has run less. Whether he did.
    fn end_slice(&mut self, core: usize) -> bool {
        let Core { now, running, queue, since } = &mut self.cores[core];
        let Some(task) = running.filter(|_| *now - *since >= SLICE) else { return false };
        let is_over = queue.iter().any(|other| self.tasks[other.0].ran < self.tasks[task.0].ran);
        if is_over {
            queue.push(task);
            self.pick(core);
        }
        is_over
    }

    fn ring_alarms(&mut self, now: Ns) {
        for at in 0..self.tasks.len() {
            if self.tasks[at].alarm.is_some_and(|alarm| alarm <= now) {
                self.wake(TaskId(at), now);
            }
        }
        self.next_alarm = self.tasks.iter().filter_map(|task| task.alarm).min().unwrap_or(Ns::MAX);
    }

    /// Idle cores take somebody who waits for one.
    fn balance(&mut self) {
        let now = self.next_balance;
        self.next_balance += BALANCE_EVERY;
        for idle in 0..self.cores.len() {
            let longest = (0..self.cores.len()).max_by_key(|core| self.cores[*core].queue.len());
            if self.cores[idle].running.is_none()
                && let Some(task) = longest.and_then(|core| self.cores[core].queue.pop())
            {
                self.put(task, idle, now);
            }
        }
    }
}
