//! The doorbells of a slot in this process. Owns: their life: made or opened once, and closed with the memory
//! they belong to. How that is done is the tier's ([`crate::door::Doorbell`]).

use crate::door::Doorbell;
use crate::slot::SlotView;
use sync::Ordering;
use wire::reason::Reason;

/// Makes both doorbells and writes their numbers into the header, if they do not exist yet (segment owner
/// only). `memory` is the number of their segment. Reasons: those of [`Doorbell::hang`].
pub(crate) fn hang(view: &SlotView, memory: i32, tier: &impl Doorbell) -> Result<(), Reason> {
    let is_new = !view.has_bells();
    for (side, bell) in view.bells().iter().enumerate() {
        if bell.load(Ordering::Relaxed) >= 0 {
            continue;
        }
        let own = tier.hang(memory)?;
        bell.store(own, Ordering::Relaxed);
        view.header().sides[side].bell.store(own as u32, sync::Ordering::Release);
    }
    if is_new {
        view.header().hung.fetch_add(1, sync::Ordering::Release);
    }
    Ok(())
}

/// Whether this process has the doorbells open that the slot has now: its maker may have given others up, but
/// never those of a slot in use, whatever the header says.
pub(crate) fn are_current(view: &SlotView) -> bool {
    let hung = view.header().hung.load(sync::Ordering::Acquire);
    view.has_bells() && (view.is_used() || view.hung().load(Ordering::Relaxed) == hung)
}

/// Doorbells that only this process knows: nobody is left at the other end who could ring, or be rung.
pub(crate) fn hang_private(view: &SlotView, tier: &impl Doorbell) -> bool {
    for bell in view.bells() {
        if bell.load(Ordering::Relaxed) < 0 {
            let Ok(own) = tier.hang(-1) else { return false };
            bell.store(own, Ordering::Relaxed);
        }
    }
    // (Not those that the slot's next connection is rung by.)
    let hung = view.header().hung.load(sync::Ordering::Acquire);
    view.hung().store(hung.wrapping_sub(1), Ordering::Relaxed);
    true
}

/// Opens both doorbells under the numbers that `holder` has them by, in place of any that they are not.
pub(crate) fn open<D: Doorbell>(view: &SlotView, tier: &D, holder: D::Holder) -> Result<(), Reason> {
    if !view.is_used() {
        drop_all(view, tier);
    }
    let hung = view.header().hung.load(sync::Ordering::Acquire);
    for (side, bell) in view.bells().iter().enumerate() {
        if bell.load(Ordering::Relaxed) >= 0 {
            continue;
        }
        let number = view.header().sides[side].bell.load(sync::Ordering::Acquire) as i32;
        bell.store(tier.open_bell(holder, number)?, Ordering::Relaxed);
    }
    view.hung().store(hung, Ordering::Relaxed);
    Ok(())
}

/// Gives up the doorbells of a slot on which a connection is that is back on TCP. `is_in_calls` says whether
/// somebody may sleep on them. They stay where one of them may be in use: whoever has read its number would
/// ring, or drain, what the program puts there.
pub(crate) fn give_up(view: &SlotView, tier: &impl Doorbell, is_in_calls: impl FnOnce() -> bool) -> bool {
    let taken = view.lent_bells().take_away(is_in_calls);
    let is_one = |bell: &i32| *bell >= 0;
    match taken {
        Ok(bells) => bells.into_iter().filter(is_one).for_each(|bell| tier.drop_bell(bell)),
        // Who would have rung meanwhile found none.
        Err(bells) => bells.into_iter().filter(is_one).for_each(|bell| tier.ring(bell)),
    }
    taken.is_ok()
}

/// A doorbell of a slot that nobody in this process uses gets another number than `number`; whether it was
/// one.
pub(crate) fn renumber(view: &SlotView, tier: &impl Doorbell, number: i32) -> bool {
    let own = view.bells();
    let Some(side) = own.iter().position(|bell| bell.load(Ordering::Relaxed) == number) else {
        return false;
    };
    let Ok(other) = os::fd::duplicate_elsewhere(number) else { return false };
    own[side].store(other, Ordering::Relaxed);
    view.header().sides[side].bell.store(other as u32, sync::Ordering::Release);
    tier.drop_bell(number);
    true
}

/// Closes this process's descriptors of the doorbells.
pub(crate) fn drop_all(view: &SlotView, tier: &impl Doorbell) {
    for bell in view.bells() {
        let own = bell.swap(-1, Ordering::Relaxed);
        if own >= 0 {
            tier.drop_bell(own);
        }
    }
}
